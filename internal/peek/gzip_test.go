package peek_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/peek"
)

func packed(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestReadGzip(t *testing.T) {
	broken := errors.New("broken")
	body := `{"model":"a","messages":["` + strings.Repeat("x", 50_000) + `"],"user":"b"}`
	raw := packed(t, body)
	for name, tc := range map[string]struct {
		raw         []byte
		err         error
		model, user string
	}{
		"whole":             {raw: raw, model: "a", user: "b"},
		"in two members":    {raw: append(packed(t, body[:20]), packed(t, body[20:])...), model: "a", user: "b"},
		"cut off":           {raw: raw[:len(raw)-20], model: "a"},
		"broken off":        {raw: raw[:len(raw)-20], err: broken, model: "a"},
		"nothing":           {},
		"broken at once":    {err: broken},
		"no gzip":           {raw: []byte(body[:40])},
		"broken inside":     {raw: append(bytes.Clone(raw[:30]), "garbage garbage garbage"...), model: ""},
		"gzip of something": {raw: packed(t, "hello")},
	} {
		for way, wrap := range map[string]func(io.Reader) io.Reader{
			"at once":      func(r io.Reader) io.Reader { return r },
			"byte by byte": iotest.OneByteReader,
			"end at once":  iotest.DataErrReader,
		} {
			t.Run(name+"/"+way, func(t *testing.T) {
				rest := io.Reader(bytes.NewReader(tc.raw))
				if tc.err != nil {
					rest = io.MultiReader(rest, iotest.ErrReader(tc.err))
				}
				r := wrap(rest)
				f, text, head, eof, err := peek.ReadGzip(r, 1<<20, nil)
				assert.Equal(t, tc.err, err)
				assert.Equal(t, tc.user, f.String("user"))
				if tc.model != "" {
					assert.Equal(t, tc.model, f.String("model"))
					assert.True(t, strings.HasPrefix(body, string(text)))
				}
				assert.False(t, eof && tc.err != nil)
				if err == nil { // what was not read yet is still there
					left, err := io.ReadAll(r)
					require.NoError(t, err)
					assert.Equal(t, string(tc.raw), string(head)+string(left))
					assert.False(t, eof && len(left) > 0)
				}
			})
		}
	}
}

func TestReadGzipStopsEarly(t *testing.T) {
	raw := packed(t, `{"model":"a","user":"b"}`)
	f, _, _, _, err := peek.ReadGzip(bytes.NewReader(raw), 1<<20, func(f *peek.Fields) bool { return f.String("model") != "" })
	require.NoError(t, err)
	assert.Equal(t, "a", f.String("model"))
}

// Neither what unpacks to much nor what unpacks to nothing is read without end.
func TestReadGzipIsBounded(t *testing.T) {
	const limit = 64 << 10
	bomb := packed(t, `{"a":"`+strings.Repeat("x", 100<<20))
	f, text, head, _, err := peek.ReadGzip(bytes.NewReader(bomb), limit, nil)
	require.NoError(t, err)
	assert.False(t, f.Complete())
	assert.Equal(t, limit, len(text))
	assert.LessOrEqual(t, len(head), limit)

	empty := packed(t, "")
	endless := readerFunc(func(p []byte) (int, error) {
		n := copy(p, empty)
		empty = append(empty[n:], empty[:n]...) // and so on where it was left
		return n, nil
	})
	_, text, head, _, err = peek.ReadGzip(endless, limit, nil)
	require.NoError(t, err)
	assert.Empty(t, text)
	assert.Equal(t, limit, len(head))

	random := readerFunc(func(p []byte) (int, error) { return len(p), nil })
	_, _, head, _, err = peek.ReadGzip(random, limit, nil)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(head), limit)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Unpackers are used again, by several at once.
func TestReadGzipConcurrently(t *testing.T) {
	good, bad := packed(t, `{"model":"a"}`), []byte("no gzip at all")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				_, _, _, _, _ = peek.ReadGzip(bytes.NewReader(bad), 100, nil)
				f, text, head, _, err := peek.ReadGzip(bytes.NewReader(good), 100, nil)
				assert.NoError(t, err)
				assert.Equal(t, "a", f.String("model"))
				assert.Equal(t, `{"model":"a"}`, string(text))
				assert.Equal(t, good, head)
			}
		})
	}
	wg.Wait()
}

// What is kept to be used again keeps nothing of a body: it would be as large as
// the limit.
func TestReadGzipLetsGoOfTheBody(t *testing.T) {
	body := weak.Make(readPacked(t))
	runtime.GC() // one does not empty a pool
	assert.Nil(t, body.Value())
}

func readPacked(t *testing.T) *bytes.Reader {
	t.Helper()
	body := bytes.NewReader(packed(t, `{"model":"a"}`))
	f, _, _, _, err := peek.ReadGzip(body, 1<<20, nil)
	require.NoError(t, err)
	assert.Equal(t, "a", f.String("model"))
	return body
}
