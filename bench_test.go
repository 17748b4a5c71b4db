package warmroute_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// eight are the ranks of two endpoints.
func eight(tb testing.TB, opts ...warmroute.Option) *warmroute.Router {
	tb.Helper()
	r, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a", Ranks: 4}, {URL: "http://b", Ranks: 4}}, opts...)
	require.NoError(tb, err)
	return r
}

func bind(tb testing.TB, r *warmroute.Router, session string) {
	tb.Helper()
	lease, err := r.Route(context.Background(), warmroute.Request{Session: session})
	require.NoError(tb, err)
	lease.Answered()
	lease.Done(warmroute.Result{})
}

func BenchmarkRouteSticky(b *testing.B) {
	router := eight(b)
	for i := range 1000 {
		bind(b, router, fmt.Sprint("conversation-", i))
	}
	ctx := context.Background()
	req := warmroute.Request{Session: "conversation-7"}
	b.ReportAllocs()
	for b.Loop() {
		lease, err := router.Route(ctx, req)
		if err != nil || lease.Outcome() != warmroute.Sticky {
			b.Fatal(lease.Outcome(), err)
		}
		lease.Done(warmroute.Result{})
	}
}

// The same with residents and without, on one replica and on many.
func BenchmarkRouteResident(b *testing.B) {
	for _, replicas := range []int{1, 8, 64} {
		for name, residency := range map[string]warmroute.Residency{"on": 1 << 30, "off": warmroute.ResidencyOff} {
			b.Run(fmt.Sprintf("replicas=%d/residents=%s", replicas, name), func(b *testing.B) {
				router, req := residents(b, replicas, residency)
				ctx := context.Background()
				b.ReportAllocs()
				for b.Loop() {
					lease, err := router.Route(ctx, req)
					if err != nil || lease.Outcome() != warmroute.Sticky {
						b.Fatal(lease.Outcome(), err)
					}
					lease.Done(warmroute.Result{})
				}
			})
		}
	}
}

// residents is a router that a thousand conversations are at home with, and a
// request of one of them.
func residents(tb testing.TB, replicas int, residency warmroute.Residency) (*warmroute.Router, warmroute.Request) {
	tb.Helper()
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a", Ranks: replicas}}, warmroute.WithResidency(residency))
	require.NoError(tb, err)
	learn(tb, router)
	for i := range 1000 {
		bind(tb, router, fmt.Sprint("conversation-", i))
	}
	return router, warmroute.Request{Session: "conversation-7"}
}

// The same from several goroutines, each with conversations of its own.
func BenchmarkRouteStickyParallel(b *testing.B) {
	router := eight(b)
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("conversation-", i)
		bind(b, router, keys[i])
	}
	ctx := context.Background()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i += 7 {
			lease, err := router.Route(ctx, warmroute.Request{Session: keys[i%len(keys)]})
			if err != nil {
				b.Error(err)
				return
			}
			lease.Done(warmroute.Result{})
		}
	})
}

// A request without a session, placed among eight replicas.
func BenchmarkRoutePlace(b *testing.B) {
	router := eight(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		lease, err := router.Route(ctx, warmroute.Request{})
		if err != nil {
			b.Fatal(err)
		}
		lease.Done(warmroute.Result{})
	}
}

// A new conversation each time, bound and forgotten.
func BenchmarkRoutePlaceSession(b *testing.B) {
	router := eight(b)
	ctx := context.Background()
	req := warmroute.Request{Session: "conversation"}
	b.ReportAllocs()
	for b.Loop() {
		lease, err := router.Route(ctx, req)
		if err != nil || lease.Outcome() != warmroute.Placed {
			b.Fatal(lease.Outcome(), err)
		}
		lease.Done(warmroute.Result{}) // not answered: the binding goes
	}
}

// BenchmarkTransport is the cost of the transport over a base that does
// nothing, beside that base alone.
func BenchmarkTransport(b *testing.B) {
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}}
	base := roundTripper(func(*http.Request) (*http.Response, error) {
		resp := *response
		resp.Body = &emptyBody
		return &resp, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model/v1/chat/completions", nil)
	require.NoError(b, err)
	for _, h := range []string{"Accept", "Content-Type", "User-Agent", "Authorization"} {
		req.Header.Set(h, "value")
	}
	req.Header.Set("X-Claude-Code-Session-Id", "0f3c9f6e-2a3b-4c5d-8e9f-001122334455")
	router := eight(b)
	for name, transport := range map[string]http.RoundTripper{"bare": base, "warmroute": router.Transport(base)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resp, err := transport.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				if err := resp.Body.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// emptyBody is a body that is not http.NoBody.
var emptyBody failAfter

func TestAllocations(t *testing.T) {
	router := eight(t)
	bind(t, router, "s")
	ctx := context.Background()
	assertAllocs(t, 0, "sticky", func() {
		lease, err := router.Route(ctx, warmroute.Request{Session: "s"})
		if err != nil || lease.Outcome() != warmroute.Sticky {
			t.Fatal(lease.Outcome(), err)
		}
		lease.Done(warmroute.Result{})
	})
	assertAllocs(t, 0, "unkeyed", func() {
		lease, err := router.Route(ctx, warmroute.Request{})
		if err != nil {
			t.Fatal(err)
		}
		lease.Done(warmroute.Result{})
	})
	assertAllocs(t, 1, "new conversation", func() {
		lease, err := router.Route(ctx, warmroute.Request{Session: "new"})
		if err != nil {
			t.Fatal(err)
		}
		lease.Done(warmroute.Result{})
	})

	resident, req7 := residents(t, 8, 1<<30)
	assertAllocs(t, 0, "resident", func() {
		lease, err := resident.Route(ctx, req7)
		if err != nil || lease.Outcome() != warmroute.Sticky {
			t.Fatal(lease.Outcome(), err)
		}
		lease.Done(warmroute.Result{Usage: warmroute.Usage{Prompt: 900, Cached: 890, Completion: 50, Known: true, Measured: true}})
	})
	assertAllocs(t, 1, "unkeyed with residents", func() {
		lease, err := resident.Route(ctx, warmroute.Request{})
		if err != nil {
			t.Fatal(err)
		}
		lease.Done(warmroute.Result{})
	})

	ended, cancel := context.WithCancel(ctx)
	defer cancel()
	req := post(t, nil).WithContext(ended)
	req.Header.Set("X-Session-Id", "s")
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
	transport := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
		response.Body = &emptyBody
		return response, nil
	}))
	assertAllocs(t, 6, "transport", func() {
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	})
}

func assertAllocs(t *testing.T, most float64, name string, f func()) {
	t.Helper()
	// The race detector makes sync.Pool drop entries at random.
	if n := testing.AllocsPerRun(1000, f); n > most && !raceEnabled {
		t.Errorf("%s: %v allocations, want at most %v", name, n, most)
	}
}
