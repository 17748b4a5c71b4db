package usage_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/usage"
)

func TestResponseID(t *testing.T) {
	const id = "resp_0123456789abcdef0123456789abcdef"
	long := "resp_" + strings.Repeat("x", 124)
	created := `event: response.created` + "\n" + `data: {"response":{"id":"` + id + `","usage":null,"output":[{"id":"msg_1"}]},"sequence_number":0,"type":"response.created"}` + "\n\n"
	delta := `data: {"type":"response.output_text.delta","item_id":"msg_1","id":"no","delta":"{\"response\":{\"id\":\"no\"}}"}` + "\n\n"
	for name, tc := range map[string]struct{ contentType, body, want string }{
		"JSON":                      {typeJSON, `{"created_at":1,"output":[{"id":"msg_1"}],"id":"` + id + `","usage":{"input_tokens":3}}`, id},
		"JSON, of a response in it": {typeJSON, `{"response":{"id":"a"}}`, ""},
		"JSON, no string":           {typeJSON, `{"id":7}`, ""},
		"JSON, longest":             {typeJSON, `{"id":"` + long[:128] + `"}`, long[:128]},
		"JSON, too long":            {typeJSON, `{"id":"` + long + `"}`, ""},
		"stream":                    {typeSSE, created + delta, id},
		"stream, later":             {typeSSE, delta + created, id},
		"stream, first of two":      {typeSSE, created + strings.ReplaceAll(created, id, "other"), id},
		"stream of others":          {typeSSE, `data: {"id":"chatcmpl-1","choices":[]}` + "\n\n" + `data: {"message":{"id":"msg_1"}}` + "\n\n", ""},
		"text":                      {"text/plain", `{"id":"a"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var r usage.Reader
			for i := range tc.body {
				for _, watch := range []bool{true, false} {
					r.Reset(tc.contentType)
					if watch {
						r.WatchResponseID()
					}
					r.Write([]byte(tc.body[:i]))
					r.Write([]byte(tc.body[i:]))
					if watch {
						require.Equal(t, tc.want, r.ResponseID(), "in two at %d", i)
					} else {
						require.Empty(t, r.ResponseID(), "nobody asked")
					}
				}
			}
		})
	}
}

// As vLLM 0.26 sent it; what it counted must not depend on who asks for the id.
func TestResponseIDOfARecordedResponse(t *testing.T) {
	body, err := os.ReadFile("testdata/responses.json")
	require.NoError(t, err)
	var plain, watching usage.Reader
	want := read(&plain, typeJSON, body)
	watching.Reset(typeJSON)
	watching.WatchResponseID()
	for _, c := range body {
		watching.Write([]byte{c})
	}
	assert.Equal(t, want, outcome{watching.Usage(), watching.Finished(), watching.Failed()})
	assert.Regexp(t, `^resp_[0-9a-f]+$`, watching.ResponseID())
}

// FuzzResponseID holds the id of a JSON response against encoding/json, and has
// the counts not depend on who asks for it.
func FuzzResponseID(f *testing.F) {
	for _, seed := range []string{
		`{"id":"resp_1","usage":{"input_tokens":3,"output_tokens":1}}`, `{"response":{"id":"a"},"id":"b"}`, `{"id":null,"id":"\u0061"}`,
		"event: response.created\ndata: {\"response\":{\"id\":\"resp_1\"}}\n\ndata: {\"usage\":{\"prompt_tokens\":7}}\n\n",
	} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, body []byte, size uint8) {
		for _, contentType := range []string{typeJSON, typeSSE} {
			var plain, watching usage.Reader
			want := read(&plain, contentType, body)
			watching.Reset(contentType)
			watching.WatchResponseID()
			for _, piece := range inPieces(body, int(size)+1) {
				watching.Write(piece)
			}
			require.Equal(t, want, outcome{watching.Usage(), watching.Finished(), watching.Failed()})
			require.LessOrEqual(t, len(watching.ResponseID()), 128)
			var object map[string]json.RawMessage
			if contentType != typeJSON || !utf8.Valid(body) || strings.Count(string(body), "id") > 1 || json.Unmarshal(body, &object) != nil {
				continue // of several ids the first counts
			}
			var id string
			if v := object["id"]; len(v) > 0 && v[0] == '"' {
				require.NoError(t, json.Unmarshal(v, &id))
			}
			if len(id) > 128 {
				id = ""
			}
			require.Equal(t, id, watching.ResponseID())
		}
	})
}
