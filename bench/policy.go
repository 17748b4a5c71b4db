package bench

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/replica"
)

// Policy is one way to bring requests to replicas.
type Policy struct {
	// Name is what the table calls it.
	Name string
	// Connect makes a gateway with this policy in front of the site's
	// endpoints, at the beginning of a run. A workload with several gateways
	// calls it once for each.
	Connect func(Site) (Gateway, error)
}

// Site is what a gateway stands in front of.
type Site struct {
	Endpoints []warmroute.Endpoint
	// Base is what reaches the endpoints. It ignores a connection's settings. A
	// gateway should pass the context of the client's request on to it: what comes
	// back at the same moment is ordered by that, so that a run can be repeated.
	Base http.RoundTripper
	// MaxNumSeqs is the engines' --max-num-seqs.
	MaxNumSeqs int
	// Random is the gateway's own source of chance, so that a run can be
	// repeated.
	Random *rand.Rand

	order *order // nil outside of a simulation
}

// Gateway is what clients send through.
type Gateway struct {
	// Transport takes requests to any host and brings each to a replica.
	Transport http.RoundTripper
	// Close ends all that the gateway started. It may be nil.
	Close func() error
}

// Off has no router: requests name no rank, so that the engine's own balancing
// decides. Several endpoints take turns.
func Off() Policy {
	return Policy{Name: "off", Connect: func(s Site) (Gateway, error) {
		set := &turns{base: s.Base}
		for _, e := range s.Endpoints {
			r, err := http.NewRequest(http.MethodGet, e.URL, nil)
			if err != nil {
				return Gateway{}, err
			}
			set.hosts = append(set.hosts, r.URL.Host)
		}
		return Gateway{Transport: set}, nil
	}}
}

// turns sends requests to hosts in turn.
type turns struct {
	base  http.RoundTripper
	hosts []string
	next  atomic.Uint64
}

func (t *turns) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.URL.Host = t.hosts[(t.next.Add(1)-1)%uint64(len(t.hosts))]
	out.Host = ""
	return t.base.RoundTrip(out)
}

// Affinity is plain affinity: conversations stay at home, new ones go to the
// least loaded replica, and more than a quarter of max_num_seqs in flight make a
// turn spill. No turn waits for room in a prefix cache.
func Affinity() Policy { return Options("affinity", plain) }

func plain() []warmroute.Option {
	return []warmroute.Option{warmroute.WithResidency(warmroute.ResidencyOff)}
}

// Residents is the library as it comes: affinity, and where the conversations do
// not all fit into the prefix caches turns wait for room.
func Residents() Policy { return Options("residents", nil) }

// Turnover is [Residents] with warmroute.WithTurnover.
func Turnover(name string, turnover float64) Policy {
	return Options(name, func() []warmroute.Option {
		return []warmroute.Option{warmroute.WithTurnover(turnover)}
	})
}

// Picker is [Affinity] with another picker for requests that have no home to go
// to, or for all if it is a [balance.HomePicker]. The function is called once a
// gateway. For a picker that knows no homes use [Options] with
// warmroute.WithAffinity(false).
func Picker(name string, picker func() balance.Picker) Policy {
	return Options(name, func() []warmroute.Option {
		return append(plain(), warmroute.WithPicker(picker))
	})
}

// Scorers is [Affinity] with conversations placed by balance.Weighted of the
// given scorers. Runs share the scorers and go on at the same time, so they
// must be safe for concurrent use; those of package balance are.
func Scorers(name string, scorers ...balance.WeightedScorer) Policy {
	return Options(name, func() []warmroute.Option {
		return append(plain(), warmroute.WithScorers(scorers...))
	})
}

// jitter depends on the seed and the moment alone: those of several endpoints that
// ask at the same moment do so in no order.
func jitter(seed uint64) func() float64 {
	return func() float64 {
		return rand.New(rand.NewPCG(seed, uint64(time.Now().UnixNano()))).Float64()
	}
}

// Options is a router with the given options, made anew for each gateway. They
// come after warmroute.WithMaxNumSeqs with the engines' figure and may change
// that.
func Options(name string, options func() []warmroute.Option) Policy {
	return Policy{Name: name, Connect: func(s Site) (Gateway, error) {
		random := jitter(s.Random.Uint64())
		opts := []warmroute.Option{
			warmroute.WithMaxNumSeqs(s.MaxNumSeqs),
			warmroute.WithScrapeClient(&http.Client{Transport: s.Base}),
			warmroute.WithScrapeJitter(random),
			warmroute.WithBreaker(replica.BreakerConfig{Jitter: random}),
			warmroute.WithRetry(warmroute.RetryPolicy{Jitter: random}),
		}
		if s.order != nil {
			opts = append(opts, warmroute.WithHooks(s.order))
		}
		if options != nil {
			opts = append(opts, options()...)
		}
		return connect(s, opts)
	}}
}
