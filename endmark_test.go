package warmroute_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// TestEndedByTheEndMark has clients that read up to the end mark of a stream
// and neither read on nor close the body, with a context that never ends.
// go-openai 1.43 does so where its user forgets the Close.
func TestEndedByTheEndMark(t *testing.T) {
	for path, stream := range map[string]string{
		"/v1/chat/completions": streamChat,
		"/v1/messages": "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":24,\"output_tokens\":10,\"cache_read_input_tokens\":96}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		"/v1/responses": "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":120,\"output_tokens\":10,\"input_tokens_details\":{\"cached_tokens\":96}}}}\n\n",
	} {
		t.Run(path, func(t *testing.T) {
			seen := new(results)
			router := newRouter(t, four(), warmroute.WithHooks(seen))
			r, w := io.Pipe()
			base := roundTripper(func(*http.Request) (*http.Response, error) {
				resp := answer(http.StatusOK, r)
				resp.Header = http.Header{"Content-Type": {"text/event-stream"}}
				return resp, nil
			})
			req := post(t, nil)
			req.URL.Path = path
			resp, err := router.Transport(base).RoundTrip(req)
			require.NoError(t, err)
			go func() { _, _ = io.WriteString(w, stream) }()
			_, err = io.ReadFull(resp.Body, make([]byte, len(stream)-len("x]\n\n"))) // not all of the mark's event
			require.NoError(t, err)
			assert.Equal(t, 1, inFlight(t, router), "not before")
			_, err = io.ReadFull(resp.Body, make([]byte, len("x]\n\n")))
			require.NoError(t, err)
			assert.Zero(t, inFlight(t, router))
			result := seen.only(t)
			assert.NoError(t, result.Err)
			assert.Equal(t, measured, result.Usage)

			require.NoError(t, w.CloseWithError(io.ErrUnexpectedEOF))
			_, err = io.ReadAll(resp.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "what comes after is passed on all the same")
			require.NoError(t, resp.Body.Close())
			seen.only(t)
		})
	}
}
