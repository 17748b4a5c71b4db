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
	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// A tenant that comes late has its turn in the next round, however many of
// another wait already; without a tenant it is the order of arrival.
func TestTenantsAreServedInTurn(t *testing.T) {
	for _, tenants := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := tight(t, at("http://a"))
			served := make(chan string, 100)
			wait := func(tenant, session string) {
				req := large(session)
				if tenants {
					req.Tenant = tenant
				}
				go func() {
					lease, err := r.Route(t.Context(), req)
					if assert.NoError(t, err) {
						served <- session
						time.Sleep(time.Second)
						serve(lease, 0)
					}
				}()
				synctest.Wait()
			}
			first := route(t, r, large("first"))
			for i := range 10 {
				wait("many", fmt.Sprint("many", i))
			}
			wait("few", "few0")
			wait("few", "few1")
			serve(first, 0)
			time.Sleep(30 * time.Second)
			require.Len(t, served, 12)
			var order []string
			for range 12 {
				order = append(order, <-served)
			}
			if tenants {
				assert.Less(t, slices.Index(order, "few1"), 4, "%v", order)
			} else {
				assert.Equal(t, 11, slices.Index(order, "few1"), "%v", order)
			}
			assert.Less(t, slices.Index(order, "many0"), slices.Index(order, "many1"))
			idleAgain(t, r)
		})
	}
}

func TestPriorityOrdersTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a"))
		first := route(t, r, large("first"))
		late := large("late")
		late.Priority = 5
		urgent := large("urgent")
		urgent.Priority = -1
		waiting := []*routing{begin(t.Context(), t, r, late), begin(t.Context(), t, r, large("normal")), begin(t.Context(), t, r, urgent)}
		serve(first, 0)
		for _, i := range []int{2, 1, 0} {
			time.Sleep(time.Second)
			for j, w := range waiting {
				assert.Equal(t, j < i, w.waits(), "%d while %d is next", j, i)
			}
			serve(waiting[i].went(), 0)
		}
		idleAgain(t, r)
	})
}

// What the transport finds in requests: whose they are, and how urgent.
func TestTenantAndPriorityOfARequest(t *testing.T) {
	for on, want := range map[bool][]string{false: {"a1", "b1", "a2"}, true: {"b1", "a2", "a1"}} {
		synctest.Test(t, func(t *testing.T) {
			opts := []warmroute.Option{warmroute.WithTenant(affinity.Header("Authorization")), warmroute.WithRequestPriority(on)}
			r := tight(t, at("http://a"), opts...)
			served := make(chan string, 10)
			transport := r.Transport(roundTripper(func(q *http.Request) (*http.Response, error) {
				served <- q.Header.Get("X-Session-Id")
				time.Sleep(time.Second)
				return answer(200, io.NopCloser(strings.NewReader("{}"))), nil
			}))
			first := route(t, r, large("first"))
			for _, c := range []struct{ session, key, priority string }{{"a1", "A", "9"}, {"a2", "A", "1"}, {"b1", "B", `-3`}} {
				go func() {
					body := `{"priority":` + c.priority + `,"x":"` + strings.Repeat("x", 3600) + `"}`
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://m/v1/chat/completions", strings.NewReader(body))
					assert.NoError(t, err)
					req.Header.Set("X-Session-Id", c.session)
					req.Header.Set("Authorization", "Bearer "+c.key)
					resp, err := transport.RoundTrip(req)
					if assert.NoError(t, err) {
						_, err = io.Copy(io.Discard, resp.Body)
						assert.NoError(t, err)
						assert.NoError(t, resp.Body.Close())
					}
				}()
				synctest.Wait()
			}
			require.Equal(t, 3, queue(r).Waiting)
			serve(first, 0)
			time.Sleep(20 * time.Second)
			var got []string
			for range want {
				got = append(got, <-served)
			}
			assert.Equal(t, want, got)
			idleAgain(t, r)
		})
	}
}

// firstBytes are times to the first byte, by tenant.
type firstBytes struct {
	mu sync.Mutex
	of map[string][]time.Duration
}

func (f *firstBytes) add(tenant string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[tenant] = append(f.of[tenant], d)
}

func mean(all []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	return sum / time.Duration(max(1, len(all)))
}

// sharedBy has one tenant keep a hundred conversations going and another two, on
// engines that hold some eight, for four minutes.
func sharedBy(t *testing.T, opts ...warmroute.Option) (f *firstBytes) {
	f = &firstBytes{of: map[string][]time.Duration{}}
	synctest.Test(t, func(t *testing.T) {
		engines, err := fakevllm.New(fakevllm.Config{Ranks: 2, Blocks: 1000, PrefillRate: 4000})
		require.NoError(t, err)
		scrape := warmroute.WithScrapeClient(&http.Client{Transport: engines})
		r := newRouter(t, at("http://engines"), append(opts, scrape, warmroute.WithMaxWait(time.Hour))...)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { assert.NoError(t, r.Run(ctx)) })
		require.NoError(t, r.Scrape(ctx))
		client := &http.Client{Transport: r.Transport(engines)}
		for i := range 102 {
			tenant := "many"
			if i >= 100 {
				tenant = "few"
			}
			all.Go(func() {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
				for n := 0; ctx.Err() == nil; n++ {
					converse(ctx, t, client, f, tenant, fmt.Sprint(tenant, i, "-", n))
				}
			})
		}
		time.Sleep(4 * time.Minute)
		cancel()
		all.Wait()
		assert.NoError(t, engines.Close())
		synctest.Wait() // for what a context's end has begun
		idleAgain(t, r)
	})
	return f
}

// converse is a conversation of four turns, each some 700 tokens longer than the
// one before.
func converse(ctx context.Context, t *testing.T, client *http.Client, f *firstBytes, tenant, session string) {
	var history []string
	for turn := range 4 {
		history = append(history, fmt.Sprintf(`{"role":"user","content":"%s"}`, strings.Repeat(fmt.Sprint(session, " turn ", turn, " "), 150)))
		body := fmt.Sprintf(`{"stream":true,"stream_options":{"include_usage":true},"max_tokens":40,"messages":[%s]}`, strings.Join(history, ","))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://m/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Session-Id", session)
		req.Header.Set("X-Tenant", tenant)
		start := time.Now()
		resp, err := client.Do(req)
		if ctx.Err() == nil && assert.NoError(t, err) && assert.Equal(t, 200, resp.StatusCode) {
			_, err = io.ReadFull(resp.Body, make([]byte, 1))
			if err == nil {
				f.add(tenant, time.Since(start))
				_, err = io.Copy(io.Discard, resp.Body)
			}
			if ctx.Err() == nil {
				assert.NoError(t, err)
			}
		}
		if err == nil {
			_ = resp.Body.Close() // in memory
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// One tenant's hundred conversations do not starve another's two.
func TestTenantsHaveFairShares(t *testing.T) {
	alike, fair := sharedBy(t), sharedBy(t, warmroute.WithTenant(affinity.Header("X-Tenant")))
	for name, f := range map[string]*firstBytes{"without WithTenant": alike, "with WithTenant": fair} {
		for _, tenant := range []string{"many", "few"} {
			of := f.of[tenant]
			t.Logf("%s, %s: %d turns, first byte after %.1f s on average, %.1f s at most", name, tenant, len(of), mean(of).Seconds(), slices.Max(of).Seconds())
		}
	}
	assert.Greater(t, len(fair.of["few"]), 2*len(alike.of["few"]))
	assert.Less(t, mean(fair.of["few"]), mean(alike.of["few"])/2)
	assert.Less(t, mean(fair.of["few"]), mean(fair.of["many"])/2)
	total := func(f *firstBytes) int { return len(f.of["many"]) + len(f.of["few"]) }
	assert.InEpsilon(t, total(alike), total(fair), 0.1, "and it costs the others next to nothing")
}
