package warmroute_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
)

// teamBody is the body of a first turn with a system prompt of 12 KB.
func teamBody(team string) string {
	return `{"messages":[{"role":"system","content":"` + strings.Repeat(team+" ", 12<<10/(len(team)+1)) + `"},{"role":"user","content":"hi"}],"model":"m"}`
}

// first routes, answers and ends the first turn of a team's conversation.
func first(t *testing.T, r *warmroute.Router, session, team string) string {
	t.Helper()
	lease := route(t, r, warmroute.Request{Session: session, Body: []byte(teamBody(team)), PromptTokens: 3000})
	assert.Contains(t, []warmroute.Outcome{warmroute.Placed, warmroute.Unkeyed}, lease.Outcome())
	lease.Answered()
	lease.Done(warmroute.Result{Usage: warmroute.Usage{Prompt: 3000, Completion: 10, Known: true, Measured: true}})
	return lease.Replica().Name()
}

// settings are those that placements go another way under.
func settings() map[string][]warmroute.Option {
	return map[string][]warmroute.Option{
		"residents": {warmroute.WithSharedPrefix(true), warmroute.WithResidency(1 << 20)},
		"affinity":  {warmroute.WithSharedPrefix(true), warmroute.WithResidency(warmroute.ResidencyOff)},
	}
}

func TestTeamsArePlacedApart(t *testing.T) {
	for name, opts := range settings() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRouter(t, four(), opts...)
				on := map[string]map[string]int{"a": {}, "b": {}}
				for i := range 80 {
					team := "ab"[i%2 : i%2+1]
					on[team][first(t, r, fmt.Sprint("s", i), team)]++
					time.Sleep(3 * time.Second)
				}
				assert.Len(t, on["a"], 2, on)
				assert.Len(t, on["b"], 2, on)
				for replica, n := range on["a"] {
					assert.NotContains(t, on["b"], replica)
					assert.InDelta(t, 20, n, 3)
				}
			})
		})
	}
}

func TestOneTeamIsSpread(t *testing.T) {
	for name, opts := range settings() {
		for _, session := range []string{"s", ""} {
			t.Run(fmt.Sprintf("%s, key %q", name, session), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRouter(t, four(), opts...)
					on := map[string]int{}
					for i := range 40 {
						key := session
						if key != "" {
							key += fmt.Sprint(i)
						}
						on[first(t, r, key, "a")]++
						time.Sleep(20 * time.Second)
					}
					require.Len(t, on, 4, on)
					for _, n := range on {
						assert.InDelta(t, 10, n, 1, on)
					}
				})
			})
		}
	}
}

// The picker is told what is known.
func TestWhatAPickerIsToldOfBeginnings(t *testing.T) {
	p := new(seen)
	r := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}},
		warmroute.WithPicker(newSeen(p)), warmroute.WithSharedPrefix(true), warmroute.WithAdapters("sql"))
	body := []byte(teamBody("a"))
	send := func(req warmroute.Request) (balance.Request, []balance.Candidate) {
		n := len(p.requests)
		lease := route(t, r, req)
		lease.Answered()
		lease.Done(warmroute.Result{})
		if len(p.requests) == n {
			return balance.Request{}, nil
		}
		return p.requests[n], p.candidates
	}
	req, candidates := send(warmroute.Request{Session: "1", Body: body})
	assert.True(t, req.Prefix.Known())
	assert.InDelta(t, 12<<10, req.Prefix.Bytes, 10)
	assert.Zero(t, req.FamilyShare)
	for _, c := range candidates {
		assert.Zero(t, c.SharedTokens)
		assert.Zero(t, c.Family)
	}
	req, candidates = send(warmroute.Request{Session: "2", Body: body})
	assert.InDelta(t, 1, req.FamilyShare, 1e-6)
	assert.Zero(t, candidates[0].SharedTokens)
	assert.InDelta(t, 3072, candidates[1].SharedTokens, 10, "seen takes the last one")
	assert.InDelta(t, 1, candidates[1].Family, 1e-3)

	send(warmroute.Request{Session: "3"}) // nothing known of it
	req, candidates = send(warmroute.Request{Body: []byte(strings.Replace(teamBody("a"), "a ", "b ", 1))})
	assert.Zero(t, candidates[1].SharedTokens, "another beginning")
	assert.Zero(t, req.FamilyShare)
	req, candidates = send(warmroute.Request{Body: []byte(teamBody("a")[:6000])})
	assert.Equal(t, 1024, candidates[1].SharedTokens, "as much as is known of it")
	assert.InDelta(t, 0.5, req.FamilyShare, 1e-3)
	_, candidates = send(warmroute.Request{Session: "4", Model: "sql", Body: body})
	assert.Zero(t, candidates[1].SharedTokens, "an adapter's blocks are its own")

	_, candidates = send(warmroute.Request{Session: "1", Body: body})
	assert.Nil(t, candidates, "at home")
	req, _ = send(warmroute.Request{ClientRank: "1", Body: body})
	assert.False(t, req.Prefix.Known(), "the client's own choice")

	off := new(seen)
	r = newRouter(t, four(), warmroute.WithPicker(newSeen(off)))
	route(t, r, warmroute.Request{Body: body}).Done(warmroute.Result{})
	assert.False(t, off.requests[0].Prefix.Known(), "nobody asked")
}

// recorder notes where requests went, and which bodies came.
type recorder struct {
	mu     sync.Mutex
	ranks  []string
	bodies []string
}

func (s *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if err := r.Body.Close(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.ranks, s.bodies = append(s.ranks, r.Header.Get("X-Data-Parallel-Rank")), append(s.bodies, string(b))
	s.mu.Unlock()
	return answer(200, http.NoBody), nil
}

// unreadBody is a body that says whether it was read before the base had it.
type unreadBody struct {
	io.Reader
	reads int
}

func (u *unreadBody) Read(p []byte) (int, error) { u.reads++; return u.Reader.Read(p) }
func (u *unreadBody) Close() error               { return nil }

func TestBodiesOfNewConversationsAreLookedInto(t *testing.T) {
	send := func(r *warmroute.Router, base http.RoundTripper, path, session, body string) int {
		t.Helper()
		b := &unreadBody{Reader: strings.NewReader(body)}
		before := -1
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model"+path, b)
		require.NoError(t, err)
		if session != "" {
			req.Header.Set("X-Session-Id", session)
		}
		resp, err := r.Transport(roundTripper(func(out *http.Request) (*http.Response, error) {
			before = b.reads
			return base.RoundTrip(out)
		})).RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return before
	}
	const chat = "/v1/chat/completions"
	s := new(recorder)
	r := newRouter(t, four(), warmroute.WithSharedPrefix(true))
	for i := range 24 {
		team := "ab"[i%2 : i%2+1]
		assert.Positive(t, send(r, s, chat, fmt.Sprint(i), teamBody(team)), "its key is in a header, and it is new")
		assert.Equal(t, teamBody(team), s.bodies[i], "to the byte")
	}
	on := map[string]map[string]bool{"a": {}, "b": {}}
	for i, rank := range s.ranks {
		on["ab"[i%2:i%2+1]][rank] = true
	}
	for rank := range on["a"] {
		assert.NotContains(t, on["b"], rank)
	}
	assert.Zero(t, send(r, s, chat, "1", teamBody("b")), "it is known")
	assert.Zero(t, send(r, s, "/v1/embeddings", "new", teamBody("a")), "it has no prompt")
	off := newRouter(t, four())
	assert.Zero(t, send(off, s, chat, "new", teamBody("a")), "nobody asked")
	one := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Model: "m"}, {URL: "http://b", Model: "n"}}, warmroute.WithPool("n", warmroute.WithSharedPrefix(true)))
	b := teamBody("a")
	assert.Positive(t, send(one, s, chat, "new", `{"model":"m",`+b[1:strings.LastIndex(b, ",")]+"}"), "for its model")
	assert.Equal(t, `{"model":"m",`+b[1:strings.LastIndex(b, ",")]+"}", s.bodies[len(s.bodies)-1])
}

// A request's context may end while its body is read for this.
func TestABodyThatDoesNotComeIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter(t, four(), warmroute.WithSharedPrefix(true))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		body, writer := io.Pipe()
		defer writer.Close()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model/v1/messages", body)
		require.NoError(t, err)
		req.Header.Set("X-Session-Id", "s")
		_, err = r.Transport(new(recorder)).RoundTrip(req) //nolint:bodyclose // there is none
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		assert.Zero(t, inFlight(t, r))
	})
}

func TestOptionsOfSharedPrefixTogether(t *testing.T) {
	for name, opts := range map[string][]warmroute.Option{
		"before scorers": {warmroute.WithSharedPrefix(true), warmroute.WithScorers(balance.Weight(balance.SharedPrefix(), 1))},
		"after scorers":  {warmroute.WithScorers(balance.Weight(balance.SharedPrefix(), 1)), warmroute.WithSharedPrefix(true)},
		"of one pool":    {warmroute.WithPool("", warmroute.WithSharedPrefix(true))},
		"seeded":         {warmroute.WithHashSeed(7), warmroute.WithSharedPrefix(true)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRouter(t, four(), opts...)
			var names []string
			for _, team := range []string{"a", "b", "c", "d"} {
				names = append(names, first(t, r, team, team))
			}
			assert.Equal(t, names[0], first(t, r, "a2", "a"))
			slices.Sort(names)
			assert.Len(t, slices.Compact(names), 4)
		})
	}
	// The last one holds.
	p := new(seen)
	r := newRouter(t, four(), warmroute.WithSharedPrefix(true), warmroute.WithSharedPrefix(false), warmroute.WithPicker(newSeen(p)))
	first(t, r, "s", "a")
	assert.False(t, p.requests[0].Prefix.Known())
}

// A replica whose cache is gone has nothing of anybody's.
func TestARestartForgetsBeginnings(t *testing.T) {
	p := new(seen)
	opts := []warmroute.Option{warmroute.WithSharedPrefix(true), warmroute.WithPicker(newSeen(p))}
	simulate(t, 2, opts, func(t *testing.T, s *simulated) {
		shared := func() (tokens int) {
			first(t, s.router, "", "a")
			for _, c := range p.candidates {
				tokens += c.SharedTokens
			}
			return tokens
		}
		assert.Zero(t, shared())
		assert.Positive(t, shared())
		time.Sleep(2 * time.Second)
		assert.Positive(t, shared())
		s.restart()
		time.Sleep(2 * time.Second)
		assert.Zero(t, shared())
		assert.Positive(t, shared())
	})
}

func TestSharedPrefixFromManyThreads(t *testing.T) {
	for name, opts := range settings() {
		t.Run(name, func(t *testing.T) {
			r := newRouter(t, four(), opts...)
			var all sync.WaitGroup
			for g := range 8 {
				all.Go(func() {
					for i := range 50 {
						lease, err := r.Route(t.Context(), warmroute.Request{Session: fmt.Sprint(g, i), Body: []byte(teamBody("ab"[i%2 : i%2+1])), PromptTokens: 3000})
						if !assert.NoError(t, err) {
							return
						}
						lease.Answered()
						lease.Done(warmroute.Result{})
					}
				})
			}
			all.Wait()
			assert.Zero(t, inFlight(t, r))
		})
	}
}

func TestSharedPrefixAllocatesNothing(t *testing.T) {
	for name, opts := range settings() {
		r := newRouter(t, four(), opts...)
		bind(t, r, "s")
		body := []byte(teamBody("a"))
		assertAllocs(t, 0, name+", sticky", func() {
			lease, err := r.Route(t.Context(), warmroute.Request{Session: "s", Body: body, PromptTokens: 3000})
			if err != nil || lease.Outcome() != warmroute.Sticky {
				t.Fatal(lease.Outcome(), err)
			}
			lease.Done(warmroute.Result{})
		})
		assertAllocs(t, 0, name+", unkeyed", func() {
			lease, err := r.Route(t.Context(), warmroute.Request{Body: body, PromptTokens: 3000})
			if err != nil {
				t.Fatal(err)
			}
			lease.Done(warmroute.Result{})
		})
	}
}

// A request without a session, placed among eight replicas by its body of 12 KB.
func BenchmarkRoutePlaceSharedPrefix(b *testing.B) {
	router := eight(b, warmroute.WithSharedPrefix(true))
	ctx := context.Background()
	req := warmroute.Request{Body: []byte(teamBody("a"))}
	b.ReportAllocs()
	for b.Loop() {
		lease, err := router.Route(ctx, req)
		if err != nil {
			b.Fatal(err)
		}
		lease.Done(warmroute.Result{})
	}
}
