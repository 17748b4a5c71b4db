package warmroute_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client that sends Expect: 100-continue keeps its body back until it is asked
// for it: by the engine, through the gateway, or by the gateway that has to look
// into it.
func TestExpectContinue(t *testing.T) {
	const body = `{"session_id":"s","max_tokens":7}`
	for name, tc := range map[string]struct {
		header string
		refuse bool // the engine does, without reading the body
		asked  bool // the client is, for its body
	}{
		"key in a header, engine reads":     {header: "X-Session-Id: s", asked: true},
		"key in a header, engine refuses":   {header: "X-Session-Id: s", refuse: true},
		"key in the body, engine reads":     {header: "X-Other: s", asked: true},
		"key in the body, engine would not": {header: "X-Other: s", refuse: true, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tc.refuse {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				b, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				got = append(got, string(b))
			}))
			defer engine.Close()
			router := newRouter(t, at(engine.URL))
			gateway := httptest.NewServer(&httputil.ReverseProxy{
				Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
				Transport: router.Transport(nil),
			})
			defer gateway.Close()

			conn, err := net.Dial("tcp", gateway.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"+
				"Content-Length: %d\r\nExpect: 100-continue\r\n%s\r\n\r\n", len(body), tc.header)
			require.NoError(t, err)
			answers := bufio.NewReader(conn)
			resp, err := http.ReadResponse(answers, nil)
			require.NoError(t, err)
			assert.Equal(t, tc.asked, resp.StatusCode == http.StatusContinue)
			if resp.StatusCode == http.StatusContinue {
				_, err = io.WriteString(conn, body)
				require.NoError(t, err)
			}
			for resp.StatusCode == http.StatusContinue { // the engine's own is passed on
				resp, err = http.ReadResponse(answers, nil)
				require.NoError(t, err)
			}
			if tc.refuse {
				assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
				return
			}
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.Equal(t, []string{body}, got)
		})
	}
}
