package warmroute_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// slowBody gives one piece after the other, each after a pause.
type slowBody struct {
	pieces []string
	pause  time.Duration
	read   int
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.read == len(b.pieces) {
		return 0, io.EOF
	}
	time.Sleep(b.pause)
	b.read++
	return copy(p, b.pieces[b.read-1]), nil
}

func (b *slowBody) Close() error { return nil }

// TestTheFirstByteIsThatOfAnAnswer has a stream begin before the engine has done
// anything, as vLLM's /v1/responses does.
func TestTheFirstByteIsThatOfAnAnswer(t *testing.T) {
	const pause = 3 * time.Second
	for path, tc := range map[string]struct {
		pieces []string
		want   time.Duration
	}{
		"/v1/chat/completions": {[]string{"data: {\"choices\":[]}\n\n", "data: [DONE]\n\n"}, pause},
		"/v1/responses": {[]string{
			"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"output\":[],\"reasoning\":null}}\n\n",
			"event: response.in_progress\ndata: {\"type\":\"response.in_progress\"}\n\n",
			"event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\"}\n\n",
			"event: response.completed\ndata: {\"type\":\"response.completed\"}\n\n",
		}, 3 * pause},
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a"}})
				require.NoError(t, err)
				defer router.Close()
				client := &http.Client{Transport: router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
					return &http.Response{
						StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
						Body: &slowBody{pieces: tc.pieces, pause: pause}, Request: r,
					}, nil
				}))}
				resp, err := client.Post("http://gateway"+path, "application/json", strings.NewReader(`{"stream":true}`))
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				seen := router.Stats().Pools[0].Replicas[0].FirstByte
				assert.EqualValues(t, 1, seen.Count)
				assert.InDelta(t, tc.want.Seconds(), seen.Sum, 0.01)
			})
		})
	}
}
