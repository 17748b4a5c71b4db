package peek_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/peek"
)

// A body that announces its size is read into memory of that size, but is not
// believed before it has sent some of it.
func TestReadSized(t *testing.T) {
	for _, size := range []int{0, 1, 100, 8 << 10, 64<<10 - 1, 64 << 10, 100_000, 1 << 20} {
		body := `{"a":"` + strings.Repeat("x", size) + `","model":"m"}`
		for _, said := range []int{-1, 0, 1, len(body) / 2, len(body) - 1, len(body), len(body) + 1, 3 * len(body)} {
			for _, limit := range []int{len(body) - 1, len(body), 4 << 20} {
				f, head, _, err := peek.ReadSized(&pieces{body: []byte(body), size: 5000}, int64(said), int64(limit), nil)
				require.NoError(t, err)
				require.True(t, body[:min(limit, len(body))] == string(head), "%d said to be %d, limit %d", len(body), said, limit)
				require.Equal(t, limit >= len(body), f.Complete())
			}
		}
	}
	head := func(size int64) []byte {
		_, head, _, _ := peek.ReadSized(io.MultiReader(strings.NewReader(`{"a":"`), strings.NewReader("x")), size, 8<<20, nil)
		return head
	}
	assert.Less(t, cap(head(8<<20)), 64<<10)
}

// FuzzFields holds the fields of a valid body against encoding/json.
func FuzzFields(f *testing.F) {
	for _, seed := range []string{
		chat, `{"model":"a","model":"b","m":{"x":"1"},"m":{"y":2}}`, `{"a":1e5,"b":-0.5,"c":true,"d":null,"e":{"f":false}}`,
		`{"max_tokens":7,"messages":[{"content":"\"}]"}],"metadata":{"user_id":"\ud83d\ude00"}}`, `{"m":{"x":"1"},"m":7,"n":"\\\\\"","stream":true}`,
	} {
		f.Add([]byte(seed), uint16(7))
	}
	f.Fuzz(func(t *testing.T, body []byte, size uint16) {
		fields, head, _, err := peek.ReadSized(&pieces{body: body, size: int(size%5000) + 1}, int64(len(body)), 1<<20, nil)
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(body, head))
		if !json.Valid(body) || !utf8.Valid(body) {
			return
		}
		members := object(body)
		if members == nil || len(members) > 16 {
			return // no object, or perhaps more fields than are kept
		}
		for key, value := range members {
			if skipped(key) {
				continue
			}
			compare(t, fields, key, value, true)
			nested := object(value)
			if len(nested) > 16 {
				return
			}
			for name, value := range nested {
				if len(name) <= 64 {
					compare(t, fields, key+"."+name, value, false)
				}
			}
		}
	})
}

// skipped reports whether a member of the top level is no field by its key.
func skipped(key string) bool {
	return key == "messages" || strings.Contains(key, ".") || len(key) > 64
}

// object is the members of an object, nil if it is none. Of several with one key
// encoding/json takes the last, as Python does.
func object(b []byte) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) != nil {
		return nil
	}
	return members
}

// compare has numbers and bools be fields at the top level only.
func compare(t *testing.T, fields *peek.Fields, path string, value json.RawMessage, top bool) {
	text, raw := "", ""
	switch value[0] {
	case '"':
		require.NoError(t, json.Unmarshal(value, &text))
		if len(text) > peek.MaxValue {
			text = ""
		}
	case '{', '[', 'n':
	default:
		if top && len(value) <= peek.MaxValue {
			raw = string(value)
		}
	}
	require.Equal(t, text, fields.String(path), path)
	require.Equal(t, raw, fields.Raw(path), path)
}
