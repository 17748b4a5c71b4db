package faulttest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
)

// What a client does wrong is its own loss: no attempt is counted as failed, and
// its conversation is where it was.
func TestAClientGoes(t *testing.T) {
	for name, test := range map[string]struct {
		whole bool
		after time.Duration // its request
		seen  int
	}{
		"before its request":                {after: -1},
		"while the prompt is computed":      {after: 5 * time.Millisecond, seen: 1},
		"before a whole answer":             {whole: true, after: time.Second, seen: 1},
		"in the middle of a stream":         {after: time.Second, seen: 1},
		"just when the headers are sent":    {after: 1, seen: 1},
		"at the moment of the first tokens": {after: 10*time.Millisecond + 1, seen: 1},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, []int{1, 1}, func(t *testing.T, f *fleet) {
				home := f.ok(ask{session: "s"}).replica
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.after < 0 {
					cancel()
				} else {
					time.AfterFunc(test.after, cancel)
				}
				id := f.newID()
				got := read(f.transport.RoundTrip(ask{session: "s", turn: 1, tokens: 500, whole: test.whole, ctx: ctx}.request(id)))
				require.ErrorIs(t, got.err, context.Canceled)
				f.quiet()
				time.Sleep(time.Second)
				engine := f.engineOf(home)
				assert.Equal(t, test.seen, engine.Delivery(id).Seen)
				assert.Zero(t, engine.Rank(0).Running, "the engine was told")
				assert.Zero(t, f.replicas()[home].Failed)
				assert.Equal(t, 1, f.sessions())
				next := f.ok(ask{session: "s", turn: 1})
				assert.Equal(t, [2]string{home, "sticky"}, [2]string{next.replica, next.outcome})
			})
		})
	}
}

// A client that reads nothing, or does not close what it has read, holds its
// count until its context ends, and nobody else's.
func TestAClientNeverReads(t *testing.T) {
	virtual(t, []int{1}, func(t *testing.T, f *fleet) {
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 20 {
			_, err := f.transport.RoundTrip(ask{session: fmt.Sprint("s", i%3), tokens: 50, ctx: ctx}.request(f.newID()))
			require.NoError(t, err)
		}
		time.Sleep(time.Hour)
		assert.Equal(t, 20, f.router.Stats().Pools[0].InFlight)
		f.ok(ask{session: "other"})
		cancel()
		synctest.Wait()
		assert.Zero(t, f.router.Stats().Pools[0].InFlight)
		assert.Zero(t, f.router.Stats().Pools[0].Requests.Failed)
	})
}

func TestAClientNeverCloses(t *testing.T) {
	virtual(t, []int{1}, func(t *testing.T, f *fleet) {
		for range 20 {
			resp, err := f.transport.RoundTrip(ask{session: "s"}.request(f.newID()))
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
		}
		assert.Zero(t, f.router.Stats().Pools[0].InFlight, "the end is enough")
	})
}

// slowly gives a body a piece at a time, until it is closed.
type slowly struct {
	body   []byte
	piece  int
	pause  time.Duration
	closed chan struct{}
	once   sync.Once
}

func slow(body []byte) *slowly {
	return &slowly{body: body, piece: 5, pause: time.Second, closed: make(chan struct{})}
}

func (s *slowly) Read(p []byte) (int, error) {
	if len(s.body) == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(s.pause):
	case <-s.closed:
		return 0, http.ErrBodyReadAfterClose
	}
	n := copy(p[:min(len(p), s.piece)], s.body)
	s.body = s.body[n:]
	return n, nil
}

func (s *slowly) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func TestAClientSendsSlowly(t *testing.T) {
	virtual(t, []int{1, 1}, func(t *testing.T, f *fleet) {
		a := ask{session: "s"}
		id := f.newID()
		r := a.request(id)
		r.Body, r.GetBody = slow(a.body()), nil
		got := make(chan seen, 1)
		go func() { got <- read(f.transport.RoundTrip(r)) }()
		for range 10 {
			f.ok(ask{session: "t"})
		}
		s := <-got
		require.NoError(t, s.err)
		assert.Equal(t, 200, s.status)

		// And one that gives up.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		a.ctx = ctx
		r = a.request(f.newID())
		r.Header.Del("X-Session-Id") // it is looked for in the body
		r.Body, r.GetBody = slow(a.body()), nil
		s = read(f.transport.RoundTrip(r))
		require.ErrorIs(t, s.err, context.DeadlineExceeded)
		f.quiet()
		assert.Zero(t, f.router.Stats().Pools[0].Requests.Failed)
	})
}

func TestAClientsBodyBreaks(t *testing.T) {
	virtual(t, []int{1, 1}, func(t *testing.T, f *fleet) {
		broken := errors.New("the client's own")
		for _, keyed := range []bool{true, false} {
			a := ask{session: "s"}
			r := a.request(f.newID())
			if !keyed {
				r.Header.Del("X-Session-Id")
			}
			r.Body, r.GetBody = io.NopCloser(io.MultiReader(bytes.NewReader(a.body()[:50]), failing{broken})), nil
			got := read(f.transport.RoundTrip(r))
			// An engine in memory answers what it was sent of the body.
			assert.True(t, errors.Is(got.err, broken) || got.status == 400, "%v", got)
			f.quiet()
			assert.Zero(t, f.router.Stats().Pools[0].Requests.Failed)
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Ten thousand requests of one conversation at once.
func TestACrowdOfOneConversation(t *testing.T) {
	n := 10_000
	if raceEnabled {
		n = 2_000
	}
	virtual(t, []int{1, 1, 1, 1}, func(t *testing.T, f *fleet) {
		var all sync.WaitGroup
		var mu sync.Mutex
		by := map[string]int{}
		for i := range n {
			all.Go(func() {
				got := f.do(ask{session: "s", whole: true, tokens: 1 + i%4})
				mu.Lock()
				defer mu.Unlock()
				if assert.NoError(t, got.err) && assert.Equal(t, 200, got.status, got.body) {
					by[got.replica]++
				}
			})
		}
		all.Wait()
		f.quiet()
		assert.Equal(t, 1, f.sessions())
		assert.LessOrEqual(t, f.residents(), 1)
		assert.Len(t, by, 4, "the spill has them spread: %v", by)
		s := f.router.Stats().Pools[0]
		assert.Equal(t, uint64(n), s.Requests.Placed+s.Requests.Sticky+s.Requests.Spilled)
		assert.Zero(t, s.Requests.Failed+s.Requests.Refused)
	}, warmroute.WithSpill(64), warmroute.WithMaxQueue(n))
}

// A million distinct keys leave no more in the table than it may hold.
func TestAMillionKeys(t *testing.T) {
	n, most := 1_000_000, 10_000
	if raceEnabled {
		n = 100_000
	}
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a", Ranks: 4}}, warmroute.WithMaxSessions(most))
	require.NoError(t, err)
	defer router.Close()
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range n / 4 {
				lease, err := router.Route(t.Context(), warmroute.Request{Session: fmt.Sprint(worker, "-", i)})
				if !assert.NoError(t, err) {
					return
				}
				lease.Answered()
				lease.Done(warmroute.Result{})
			}
		})
	}
	all.Wait()
	s := router.Stats().Pools[0]
	assert.LessOrEqual(t, s.Sessions, most)
	assert.Greater(t, s.Sessions, most*9/10, "and they are of use")
	assert.Equal(t, uint64(n), s.Requests.Placed)
	var saved bytes.Buffer
	require.NoError(t, router.Save(&saved))
	assert.Less(t, saved.Len(), most*40)
}

// What is no key is none: the request is placed by load and sent as it is.
func TestOddKeys(t *testing.T) {
	for name, test := range map[string]struct {
		header []string
		keyed  bool
	}{
		"none":                  {},
		"empty":                 {header: []string{""}},
		"blank":                 {header: []string{"   "}, keyed: true}, // which net/http trims
		"1 MB":                  {header: []string{strings.Repeat("k", 1<<20)}},
		"the longest":           {header: []string{strings.Repeat("k", affinity.MaxKeyLen)}, keyed: true},
		"one byte more":         {header: []string{strings.Repeat("k", affinity.MaxKeyLen+1)}},
		"control characters":    {header: []string{"a\x00\r\nX-Evil: 1\x7f"}, keyed: true},
		"no UTF-8":              {header: []string{"\xff\xfe"}, keyed: true},
		"two":                   {header: []string{"first", "second"}, keyed: true},
		"an empty one, and one": {header: []string{"", "second"}},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []http.Header
			router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a", Ranks: 2}}, warmroute.WithDebugHeaders(true))
			require.NoError(t, err)
			defer router.Close()
			transport := router.Transport(base(func(r *http.Request) (*http.Response, error) {
				sent = append(sent, r.Header)
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
			}))
			var outcomes []string
			for range 2 {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model/v1/chat/completions", strings.NewReader("{}"))
				require.NoError(t, err)
				if test.header != nil {
					r.Header["X-Session-Id"] = test.header
				}
				resp, err := transport.RoundTrip(r)
				require.NoError(t, err)
				outcomes = append(outcomes, resp.Header.Get(warmroute.OutcomeHeader))
				require.NoError(t, resp.Body.Close())
			}
			want := []string{"unkeyed", "unkeyed"}
			if test.keyed {
				want = []string{"placed", "sticky"}
			}
			assert.Equal(t, want, outcomes)
			for _, h := range sent {
				assert.Equal(t, test.header, h["X-Session-Id"])
				delete(h, "X-Session-Id")
				assert.Len(t, h, 1, "the rank, and nothing that came out of the key: %v", h)
			}
			var saved bytes.Buffer
			require.NoError(t, router.Save(&saved))
			other, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a", Ranks: 2}})
			require.NoError(t, err)
			defer other.Close()
			n, err := other.Restore(&saved)
			require.NoError(t, err)
			assert.Equal(t, router.Stats().Pools[0].Sessions, n, "any key can be saved")
		})
	}
}

// base is a base transport made of a function.
type base func(*http.Request) (*http.Response, error)

func (f base) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Of two rank headers, by whatever name they come, one leaves.
func TestTwoRankHeaders(t *testing.T) {
	for _, header := range []http.Header{
		{"X-Data-Parallel-Rank": {"1", "0"}},
		{"X-Data-Parallel-Rank": {"1"}, "x-data-parallel-rank": {"0"}},
	} {
		var sent http.Header
		router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a", Ranks: 2}})
		require.NoError(t, err)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model/v1/chat/completions", strings.NewReader("{}"))
		require.NoError(t, err)
		r.Header = header.Clone()
		_, err = router.Transport(base(func(r *http.Request) (*http.Response, error) {
			sent = r.Header
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
		})).RoundTrip(r)
		require.NoError(t, err)
		assert.Equal(t, http.Header{"X-Data-Parallel-Rank": {"1"}}, sent)
		assert.Equal(t, header, r.Header, "the caller's is as it was")
		require.NoError(t, router.Close())
	}
}

// filler is a body of any size that takes no memory.
type filler struct {
	head string
	left int64
	tail string
}

func (f *filler) Read(p []byte) (int, error) {
	if f.head != "" {
		n := copy(p, f.head)
		f.head = f.head[n:]
		return n, nil
	}
	if f.left > 0 {
		n := int(min(int64(len(p)), f.left))
		for i := range p[:n] {
			p[i] = 'x'
		}
		f.left -= int64(n)
		return n, nil
	}
	n := copy(p, f.tail)
	f.tail = f.tail[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (f *filler) Close() error { return nil }

// A body of 100 MB passes, and no more of it is held than the peek limit and
// what the JSON scanner may keep of a field.
func TestABodyOf100MB(t *testing.T) {
	const size = 100 << 20
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a"}})
	require.NoError(t, err)
	defer router.Close()
	for name, body := range map[string]*filler{
		"one long string": {head: `{"messages":"`, left: size, tail: `"}`},
		"no JSON":         {left: size},
		"a long key":      {head: `{"`, left: size, tail: `":1}`},
		"a long user":     {head: `{"metadata":{"user_id":"`, left: size, tail: `"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			want := int64(len(body.head)) + body.left + int64(len(body.tail))
			var got int64
			before := heap()
			var peak uint64
			transport := router.Transport(base(func(r *http.Request) (*http.Response, error) {
				buf := make([]byte, 32<<10)
				for {
					n, err := r.Body.Read(buf)
					if got == 0 || got%(10<<20) < int64(n) {
						peak = max(peak, heap())
					}
					got += int64(n)
					if err == io.EOF {
						break
					}
					if err != nil {
						return nil, err
					}
				}
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, r.Body.Close()
			}))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model/v1/chat/completions", body)
			require.NoError(t, err)
			_, err = transport.RoundTrip(r)
			require.NoError(t, err)
			assert.Equal(t, want, got)
			assert.Less(t, int64(peak)-int64(before), int64(40<<20))
		})
	}
}

// Nesting costs no stack and no more than linear time.
func TestDeeplyNestedJSON(t *testing.T) {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a"}})
	require.NoError(t, err)
	defer router.Close()
	const deep = 4 << 20
	for name, body := range map[string]string{
		"arrays":           `{"messages":` + strings.Repeat("[", deep),
		"objects":          strings.Repeat(`{"a":`, deep/4),
		"metadata":         `{"metadata":` + strings.Repeat(`{"user_id":`, deep/8),
		"closed ones":      `{"a":` + strings.Repeat("[", deep/2) + strings.Repeat("]", deep/2) + `,"metadata":{"user_id":"user_a_account__session_1"}}`,
		"of wrong closers": `{"a":` + strings.Repeat("[}", deep/2),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			var sent int
			transport := router.Transport(base(func(r *http.Request) (*http.Response, error) {
				b, err := io.ReadAll(r.Body)
				sent = len(b)
				return &http.Response{StatusCode: 400, Header: http.Header{}, Body: http.NoBody}, errors.Join(err, r.Body.Close())
			}))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model/v1/chat/completions", strings.NewReader(body))
			require.NoError(t, err)
			_, err = transport.RoundTrip(r)
			require.NoError(t, err)
			assert.Equal(t, len(body), sent)
			assert.Less(t, time.Since(began), 10*time.Second)
		})
	}
}
