package askusage_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/askusage"
)

// The last two events of a chat stream of vLLM 0.26.
const (
	usageEvent = `data: {"id":"chatcmpl-ac160fad3676a706","object":"chat.completion.chunk","created":1795954916,"model":"tiny","choices":[],` +
		`"usage":{"prompt_tokens":5125,"total_tokens":5141,"completion_tokens":16,"prompt_tokens_details":{"cached_tokens":5120,"created_cache_tokens":0}},` +
		`"system_fingerprint":"vllm-0.26.0-afc1d3e5"}` + "\n\n"
	doneEvent = "data: [DONE]\n\n"
)

var errBroken = errors.New("connection broken")

// source gives its pieces, one a Read, or as much of one as there is room for;
// an empty piece is a Read that gives nothing. Then it gives err, which comes
// with the last piece if early.
type source struct {
	pieces [][]byte
	err    error
	early  bool

	part   int // bytes given of the first piece
	reads  int
	closed int
}

func (s *source) Read(p []byte) (int, error) {
	s.reads++
	if len(s.pieces) == 0 {
		return 0, s.err
	}
	n := copy(p, s.pieces[0][s.part:])
	s.part += n
	if s.part == len(s.pieces[0]) {
		s.pieces, s.part = s.pieces[1:], 0
		if s.early && len(s.pieces) == 0 {
			return n, s.err
		}
	}
	return n, nil
}

func (s *source) Close() error {
	s.closed++
	return errBroken
}

// pieces cuts a stream into pieces of size bytes, or into events if it is 0.
func pieces(stream []byte, size int) [][]byte {
	if size == 0 {
		return bytes.SplitAfter(stream, []byte("\n\n"))
	}
	var all [][]byte
	for len(stream) > 0 {
		n := min(size, len(stream))
		all, stream = append(all, stream[:n]), stream[n:]
	}
	return all
}

// strip reads src to its end through a Strip, with buffers of the given sizes
// in turn. It returns what was passed on, checks that everything was seen
// before that, and that no Read breaks the rules of io.Reader.
func strip(t *testing.T, src *source, sizes ...int) []byte {
	t.Helper()
	unseen, want := bytes.Join(src.pieces, nil), src.err
	seen := 0
	r := askusage.NewStrip(src, func(p []byte) {
		if !bytes.HasPrefix(unseen, p) {
			t.Errorf("saw %q, not the beginning of %q", p, unseen)
		}
		seen += len(p)
		unseen = unseen[min(len(p), len(unseen)):]
	})
	var passed []byte
	buf := make([]byte, slices.Max(sizes)+1)
	for i, nothing := 0, 0; ; i++ {
		p := buf[:sizes[i%len(sizes)]]
		buf[len(p)] = '#' // what is behind p is not to be touched
		n, err := r.Read(p)
		if n > len(p) || buf[len(p)] != '#' {
			t.Fatalf("read %d bytes into %d", n, len(p))
		}
		if passed = append(passed, p[:n]...); len(passed) > seen {
			t.Fatalf("%d bytes passed on, %d seen", len(passed), seen)
		}
		if err != nil {
			require.Same(t, want, err)
			break
		}
		if nothing++; n > 0 {
			nothing = 0
		}
		if nothing == 100 {
			t.Fatal("no progress")
		}
	}
	require.Empty(t, unseen)
	n, err := r.Read(make([]byte, 1))
	require.Zero(t, n)
	require.Same(t, want, err, "the error is given again, as inner does")
	return passed
}
