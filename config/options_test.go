package config_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/config"
)

// TestWhatIsReadOfABody tells by a request's inspection whether options are on that
// have its body looked into.
func TestWhatIsReadOfABody(t *testing.T) {
	for fields, want := range map[string]struct{ chained, shared bool }{
		`"listen": ":1"`:                                                               {chained: true},
		`"sessions": {"response_chains": 1}`:                                           {chained: true},
		`"sessions": {"response_chains": 0}`:                                           {},
		`"defaults": {"shared_prefix": true}`:                                          {chained: true, shared: true},
		`"pools": {"": {"shared_prefix": true}}`:                                       {chained: true, shared: true},
		`"defaults": {"shared_prefix": true}, "pools": {"": {"shared_prefix": false}}`: {chained: true},
		`"sessions": {"response_chains": 0}, "defaults": {"shared_prefix": true, "picker": "random"}`: {shared: true},
	} {
		s, err := parse(t, insert(fields)).Build(config.Sources{})
		require.NoError(t, err)
		router, err := warmroute.New(s.Endpoints(), s.RouterOptions()...)
		require.NoError(t, err)
		body := `{"previous_response_id": "resp_1", "input": "hello"}`
		r, err := router.Inspect(httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(body)))
		require.NoError(t, err)
		assert.Equal(t, want.chained, r.PreviousResponse == "resp_1", fields)
		assert.Equal(t, want.shared, string(r.Body) == body, fields)
		require.NoError(t, router.Close())
	}
}
