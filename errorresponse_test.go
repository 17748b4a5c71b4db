package warmroute_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

func TestErrorResponseIsThatOfTheHandler(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
		for _, err := range []error{
			warmroute.ErrOverloaded, fmt.Errorf("x: %w", warmroute.ErrNoReplica), warmroute.ErrUnknownModel,
			warmroute.ErrClientRank, &http.MaxBytesError{Limit: 1}, io.ErrUnexpectedEOF,
		} {
			req := httptest.NewRequest(http.MethodPost, path, nil)
			want := httptest.NewRecorder()
			warmroute.ErrorHandler(want, req, err)

			got := warmroute.ErrorResponse(req, err)
			assert.Equal(t, want.Code, got.StatusCode)
			assert.Equal(t, want.Header(), got.Header)
			body, readErr := io.ReadAll(got.Body)
			require.NoError(t, readErr)
			assert.Equal(t, want.Body.String(), string(body))
			assert.Equal(t, int64(len(body)), got.ContentLength)
			assert.Equal(t, fmt.Sprintf("%d %s", want.Code, http.StatusText(want.Code)), got.Status)
		}
	}
}
