package fakevllm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzBody sends any body to any endpoint. Every request is answered, whole
// answers and refusals are JSON, and no block stays behind.
func FuzzBody(f *testing.F) {
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"}
	for i, path := range paths {
		f.Add(uint8(i), bodyFor(path))
		f.Add(uint8(i), strings.TrimSuffix(bodyFor(path), "}")+`,"stream":true,"stream_options":{"include_usage":true}}`)
	}
	f.Add(uint8(0), `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},"b",{"content":[[]]},null]}],"max_tokens":"3"}`)
	f.Add(uint8(0), `{"messages":[{"role":"x","tool_calls":[{}]},null],"tools":[1],"cache_salt":"s"}`)
	f.Add(uint8(1), `{"prompt":[[1,2],[3]],"n":1}`)
	f.Add(uint8(1), `{"prompt":[[[[1]]]],"max_tokens":1e2}`)
	f.Add(uint8(2), `{"model":"sim","system":["a",{"text":"b"}],"messages":[{"role":"user","content":{}}],"max_tokens":9}`)
	f.Add(uint8(3), `{"input":[{"type":"reasoning","summary":[]},{"type":"function_call","arguments":"{}"}],"instructions":"i"}`)
	f.Fuzz(func(t *testing.T, at uint8, body string) {
		cfg := fast()
		cfg.Ranks, cfg.MaxModelLen = 1, 200
		s := start(t, cfg)
		r := ask{path: paths[int(at)%len(paths)], body: body}.request(t)
		resp, err := s.RoundTrip(r)
		require.NoError(t, err)
		text := readAll(t, resp)
		require.Contains(t, []int{200, 400, 404, 500}, resp.StatusCode, text)
		if resp.Header.Get("Content-Type") == "application/json" {
			require.True(t, json.Valid([]byte(text)), text)
		} else {
			require.True(t, strings.HasSuffix(text, "\n\n"), text)
			require.Equal(t, 200, resp.StatusCode)
		}
		c := s.Rank(0)
		require.Equal(t, c.Requests, c.Finished)
		require.Equal(t, c.Blocks, c.FreeBlocks)
	})
}

// FuzzRankHeader sends any value of the rank header: it is a rank, out of
// range, or ignored.
func FuzzRankHeader(f *testing.F) {
	for _, value := range []string{"0", "1", " 2", "-1", "+3", "1_0", "", "x", "1e1", "٣"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		cfg := fast()
		s := start(t, cfg)
		status, body := post(t, s, ask{rank: value, body: bodyFor("")})
		if status != 200 {
			require.Equal(t, 400, status)
			require.Contains(t, body, "is out of range [0, 4).")
		}
	})
}
