package warmroute_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

const usageChunk = `data: {"id":"c","choices":[],"usage":{"prompt_tokens":120,"total_tokens":130,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":96}}}` + "\n\n"

// streaming answers with a usage chunk to whoever asks for one.
func streaming(t *testing.T, sent *http.Request, body *string) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		*sent = *r
		got, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		*body = string(got)
		answerText := "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n: keep-alive\n\n"
		if strings.Contains(*body, `"include_usage":true`) {
			answerText += usageChunk
		}
		answerText += "data: [DONE]\n\n"
		resp := answer(200, io.NopCloser(strings.NewReader(answerText)))
		resp.Header.Set("Content-Type", "text/event-stream; charset=utf-8")
		return resp, nil
	}
}

func TestUsageIsAskedForOnTheClientsBehalf(t *testing.T) {
	const plain = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n: keep-alive\n\ndata: [DONE]\n\n"
	for name, tc := range map[string]struct {
		body, path string
		header     bool // a session header, so that the body would not be read otherwise
		length     bool // Content-Length is known
		sent, got  string
		measured   bool
	}{
		"asked for":          {body: `{"model":"m","stream":true}`, header: true, length: true, sent: `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, got: plain, measured: true},
		"of unknown length":  {body: `{"model":"m","stream":true}`, header: true, sent: `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, got: plain, measured: true},
		"peeked already":     {body: `{"model":"m","stream":true}`, length: true, sent: `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, got: plain, measured: true},
		"text completions":   {path: "/v1/completions", body: `{"stream":true}`, sent: `{"stream":true,"stream_options":{"include_usage":true}}`, got: plain, measured: true},
		"the client asks":    {body: `{"stream":true,"stream_options":{"include_usage":true}}`, sent: `{"stream":true,"stream_options":{"include_usage":true}}`, got: strings.Replace(plain, "data: [DONE]", usageChunk+"data: [DONE]", 1), measured: true},
		"not streamed":       {body: `{"stream":false}`, sent: `{"stream":false}`, got: plain},
		"no JSON":            {body: `stream`, sent: `stream`, got: plain},
		"another API":        {path: "/v1/messages", body: `{"stream":true}`, sent: `{"stream":true}`, got: plain},
		"too long":           {body: `{"stream":true,"p":"` + strings.Repeat("x", 2000) + `"}`, sent: `{"stream":true,"p":"` + strings.Repeat("x", 2000) + `"}`, got: plain},
		"more after the end": {body: `{"stream":true} x`, sent: `{"stream":true} x`, got: plain},
	} {
		t.Run(name, func(t *testing.T) {
			router := newRouter(t, four(), warmroute.WithStreamUsage(true), warmroute.WithPeekLimit(1000))
			req := post(t, struct{ io.Reader }{strings.NewReader(tc.body)})
			if tc.path != "" {
				req.URL.Path = tc.path
			}
			if tc.length {
				req.ContentLength = int64(len(tc.body))
			}
			if tc.header {
				req.Header.Set("X-Session-Id", "s")
			}
			before := *req
			var sent http.Request
			var body string
			resp, err := router.Transport(streaming(t, &sent, &body)).RoundTrip(req)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, tc.sent, body)
			assert.Equal(t, tc.got, string(got))
			assert.Equal(t, before.ContentLength, req.ContentLength, "the request is the caller's")
			if tc.sent != tc.body {
				assert.Equal(t, int64(len(tc.sent)), sent.ContentLength)
			}
			tokens := router.Stats().Pools[0].Tokens
			if tc.measured {
				assert.Equal(t, uint64(96), tokens.PromptCached)
				assert.Equal(t, uint64(10), tokens.Completion)
			} else {
				assert.Equal(t, uint64(1), tokens.UnmeasuredRequests)
			}
			assert.Zero(t, inFlight(t, router))
		})
	}
}

func TestUsageAskedForAndGetBody(t *testing.T) {
	router := newRouter(t, four(), warmroute.WithStreamUsage(true))
	req := post(t, bytes.NewReader([]byte(`{"stream":true}`))) // has a GetBody of its own
	_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		first, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		body, err := r.GetBody()
		require.NoError(t, err)
		again, err := io.ReadAll(body)
		require.NoError(t, err)
		assert.Equal(t, string(first), string(again))
		assert.Contains(t, string(again), "include_usage")
		return answer(200, nil), r.Body.Close()
	})).RoundTrip(req)
	require.NoError(t, err)
}
