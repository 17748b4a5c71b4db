package warmroute

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/health"
	"github.com/warmroute/warmroute/replica"
)

// Option configures a [Router].
type Option interface{ apply(*config) }

// PoolOption configures the pools of a router. Given to [New] it holds for
// every pool; given to [WithPool] it holds for that one.
type PoolOption interface {
	Option
	applyPool(*poolConfig)
}

type config struct {
	pool           poolConfig
	pools          map[string][]PoolOption
	key            affinity.KeyFunc
	sessionHeaders []string
	peekLimit      int64
	ttl            time.Duration
	maxSessions    int
	clientRank     ClientRank
	debugHeaders   bool
	failover       bool
	retry          RetryPolicy
	breaker        replica.BreakerConfig
	headerTimeout  time.Duration // 0: none
	idleTimeout    time.Duration // 0: none
	slowStart      time.Duration // 0: none
	untrusted      bool
	hashSeed       *uint64 // nil: a random one
	streamUsage    bool
	responseChains int
	tenant         affinity.KeyFunc // nil: all are one tenant's
	priority       bool
	scrapeInterval time.Duration
	scrapeJitter   func() float64
	scrapeClient   *http.Client
	logger         *slog.Logger
	health         *health.Monitor // nil: nothing is watched beside the requests
	hooks          hooks
	discoverer     Discoverer // nil: none
	err            error      // the first refused option
}

type poolConfig struct {
	affinity   bool
	spill      Spill
	maxNumSeqs int
	shared     bool // SharedPrefix
	picker     func() balance.Picker
	ownPicker  bool // it was set
	adapters   []string
	residency  Residency
	admission  balance.AdmissionConfig
	err        error
}

func (c *config) refuse(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *poolConfig) refuse(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Defaults of the options.
const (
	DefaultSessionTTL     = affinity.DefaultTTL
	DefaultMaxSessions    = affinity.DefaultMaxSessions
	DefaultPeekLimit      = 8 << 20
	DefaultScrapeInterval = time.Second
)

func defaults() config {
	return config{
		pool: poolConfig{
			affinity:  true,
			spill:     Auto,
			picker:    balance.Default,
			residency: ResidencyAuto,
		},
		pools:          map[string][]PoolOption{},
		key:            affinity.Default(),
		peekLimit:      DefaultPeekLimit,
		ttl:            DefaultSessionTTL,
		maxSessions:    DefaultMaxSessions,
		responseChains: DefaultResponseChains,
		failover:       true,
		retry:          RetryPolicy{Budget: DefaultRetryBudget, Backoff: DefaultRetryBackoff},
		slowStart:      DefaultSlowStart,
		scrapeInterval: DefaultScrapeInterval,
		logger:         slog.New(slog.DiscardHandler),
	}
}

type option func(*config)

func (o option) apply(c *config) { o(c) }

type poolOption func(*poolConfig)

func (o poolOption) apply(c *config)         { o(&c.pool) }
func (o poolOption) applyPool(c *poolConfig) { o(c) }
func positive(field string, value int64) error {
	if value > 0 {
		return nil
	}
	return &ConfigError{Field: field, Value: strconv.FormatInt(value, 10), Allowed: "more than 0"}
}

func positiveDuration(field string, value time.Duration) error {
	if value > 0 {
		return nil
	}
	return &ConfigError{Field: field, Value: value.String(), Allowed: "more than 0"}
}

// WithAffinity switches staying at home on or off. Off, every request is
// placed by load. It can be changed live with [Router.SetAffinity]. Default on.
func WithAffinity(on bool) PoolOption {
	return poolOption(func(c *poolConfig) { c.affinity = on })
}

// WithSpill sets the spill threshold: [Auto], or a number of requests in flight
// of at least 1. It can be changed live with [Router.SetSpill]. Default [Auto].
func WithSpill(s Spill) PoolOption {
	return poolOption(func(c *poolConfig) {
		if err := s.validate(); err != nil {
			c.refuse(err)
			return
		}
		c.spill = s
	})
}

// WithMaxNumSeqs tells the engines' --max-num-seqs, of one rank, which no
// metric gives away (vLLM 0.8.5 to 0.33). [Auto] is a quarter of it.
func WithMaxNumSeqs(n int) PoolOption {
	return poolOption(func(c *poolConfig) {
		if err := positive("max-num-seqs", int64(n)); err != nil {
			c.refuse(err)
			return
		}
		c.maxNumSeqs = n
	})
}

// WithAdapters names LoRA adapters that the engines of a pool serve beside its
// model: requests for them belong to the pool, each adapter with conversations
// of its own, since its prefixes are of no use to another. [balance.LoRA] prefers
// replicas that have the adapter in use.
//
// While [Router.Run] goes on the adapters of vLLM and SGLang are found without it:
// the entries of /v1/models that have a parent, read once a minute, and those that
// vllm:lora_requests_info shows. A request for such a one goes only to endpoints
// that have it; one that is named here may go to any endpoint of the pool, as
// engines need that load adapters when they are first asked for.
func WithAdapters(names ...string) PoolOption {
	return poolOption(func(c *poolConfig) {
		for _, n := range names {
			if n == "" {
				c.refuse(&ConfigError{Field: "adapters", Value: "", Allowed: "an adapter's name"})
				return
			}
		}
		c.adapters = append(c.adapters[:len(c.adapters):len(c.adapters)], names...)
	})
}

// WithPicker sets how a replica is chosen for a request that has no home to go
// to. The function is called once per pool, since a picker belongs to one pool
// and is called under its lock: WithPicker(balance.LeastLoaded). Default
// [balance.Default].
func WithPicker(picker func() balance.Picker) PoolOption {
	return poolOption(func(c *poolConfig) {
		if picker == nil {
			c.refuse(&ConfigError{Field: "picker", Value: "nil", Allowed: "a function that returns a balance.Picker"})
			return
		}
		c.picker, c.ownPicker = picker, true
	})
}

// WithScorers sets the picker to [balance.Weighted] of the given scorers. The
// scorers are shared by all pools it is given to, and must then be safe for
// concurrent use; those of package balance are.
func WithScorers(scorers ...balance.WeightedScorer) PoolOption {
	return poolOption(func(c *poolConfig) {
		if len(scorers) == 0 {
			c.refuse(&ConfigError{Field: "scorers", Value: "none", Allowed: "at least one scorer"})
			return
		}
		for _, s := range scorers {
			if err := s.Validate(); err != nil {
				c.refuse(err)
				return
			}
		}
		c.picker, c.ownPicker = func() balance.Picker { return balance.Weighted(scorers...) }, true
	})
}

// WithPool sets options for the pool of one model, after those for every pool.
// The empty model is the default pool. A pool that no endpoint belongs to yet
// may be named.
func WithPool(model string, opts ...PoolOption) Option {
	return option(func(c *config) { c.pools[model] = append(c.pools[model], opts...) })
}

// WithSessionHeader puts a header before every other place in which a session
// key is looked for; given several times, they are looked at in that order. Its
// value must be one per conversation, not one per user or request.
func WithSessionHeader(name string) Option {
	return option(func(c *config) {
		if !validHeaderName(name) {
			c.refuse(&ConfigError{Field: "session-header", Value: name, Allowed: "a header's name"})
			return
		}
		c.sessionHeaders = append(c.sessionHeaders, name)
	})
}

// WithKey replaces where session keys are looked for, after the context and
// [WithSessionHeader]: affinity.First combines several. Default
// [affinity.Default].
func WithKey(key affinity.KeyFunc) Option {
	return option(func(c *config) {
		if key == nil {
			c.refuse(&ConfigError{Field: "key", Value: "nil", Allowed: "an affinity.KeyFunc"})
			return
		}
		c.key = key
	})
}

// WithSessionTTL sets how long a conversation without a request is remembered,
// from the end of its last one; ten years at the most. Default
// [DefaultSessionTTL].
func WithSessionTTL(ttl time.Duration) Option {
	return option(func(c *config) {
		if err := positiveDuration("session-ttl", ttl); err != nil {
			c.refuse(err)
			return
		}
		c.ttl = ttl
	})
}

// WithMaxSessions sets how many conversations are remembered per pool. When
// there are more, the one idle longest is forgotten. Default
// [DefaultMaxSessions].
func WithMaxSessions(n int) Option {
	return option(func(c *config) {
		if err := positive("max-sessions", int64(n)); err != nil {
			c.refuse(err)
			return
		}
		c.maxSessions = n
	})
}

// WithPeekLimit sets how many bytes of a request body are read, and held until
// they are sent and the answer has begun, to find its model and session key
// there. A body is read only
// if no header names the session, or if the router has a pool with a name. A
// body that is longer is routed by what was found before. Default
// [DefaultPeekLimit].
func WithPeekLimit(bytes int64) Option {
	return option(func(c *config) {
		if err := positive("peek-limit", bytes); err != nil {
			c.refuse(err)
			return
		}
		c.peekLimit = bytes
	})
}

// ClientRank says what is done with a data-parallel rank that a client sends.
type ClientRank int

const (
	// HonourClientRank sends the request to that rank and counts it as pinned.
	// It is ignored where no server has more than one rank.
	HonourClientRank ClientRank = iota
	// DropClientRank removes it, as if the client had not sent it.
	DropClientRank
	// RefuseClientRank answers such a request with [ErrClientRank].
	RefuseClientRank
)

// WithClientRank sets what is done with a rank that a client sends. Default
// [HonourClientRank].
func WithClientRank(policy ClientRank) Option {
	return option(func(c *config) {
		if policy < HonourClientRank || policy > RefuseClientRank {
			c.refuse(&ConfigError{Field: "client-rank", Value: strconv.Itoa(int(policy)),
				Allowed: "HonourClientRank, DropClientRank or RefuseClientRank"})
			return
		}
		c.clientRank = policy
	})
}

// WithDebugHeaders adds X-Warmroute-Replica and X-Warmroute-Outcome to the
// header of every response, unless clients are untrusted ([WithUntrustedClients]):
// they show a client the fleet's addresses. Default off.
func WithDebugHeaders(on bool) Option {
	return option(func(c *config) { c.debugHeaders = on })
}

// WithFailover says whether the transport sends a request to another replica
// when no connection to the chosen one could be made, so that nothing of it was
// sent. Every endpoint is tried once, within the request's context. Off, there is
// one attempt, whatever [WithRetry] says. Default on.
func WithFailover(on bool) Option {
	return option(func(c *config) { c.failover = on })
}

// WithStreamUsage says whether the transport asks for the usage of streamed
// chat and text completions on behalf of clients that do not, which are
// unmeasured otherwise. It adds stream_options.include_usage to such requests,
// up to the peek limit, and takes the chunk that this brings out of the answer;
// every other byte is as it came. The client loses nothing but the
// system_fingerprint, which vLLM (0.26) moves into that chunk. Leave it off
// where the server runs with --enable-force-include-usage, which does the same
// for everybody but does not take the chunk out. Default off.
func WithStreamUsage(on bool) Option {
	return option(func(c *config) { c.streamUsage = on })
}

// WithScrapeInterval sets how often each endpoint's metrics page is read by
// [Router.Run]. A request for it ends after one interval, at most 5 seconds,
// and its values lose their vote when they are five intervals old. Default
// [DefaultScrapeInterval].
func WithScrapeInterval(interval time.Duration) Option {
	return option(func(c *config) {
		if err := positiveDuration("scrape-interval", interval); err != nil {
			c.refuse(err)
			return
		}
		c.scrapeInterval = interval
	})
}

// WithScrapeJitter sets where the numbers, 0 to 1, come from by which the
// pauses between scrapes vary by a tenth, so that a simulation can be repeated.
// The function must be safe for concurrent use. Default math/rand/v2.Float64.
func WithScrapeJitter(random func() float64) Option {
	return option(func(c *config) { c.scrapeJitter = random })
}

// WithScrapeClient sets the HTTP client for metrics pages, /version, /v1/models
// and /server_info, for endpoints that want a transport of their own there, or
// credentials that are no [Endpoint].APIKey. It must not be one whose
// transport is the router's.
func WithScrapeClient(client *http.Client) Option {
	return option(func(c *config) {
		if client == nil {
			c.refuse(&ConfigError{Field: "scrape-client", Value: "nil", Allowed: "an *http.Client"})
			return
		}
		c.scrapeClient = client
	})
}

// WithHooks adds hooks, called in the order given: see [Hook].
func WithHooks(hooks ...Hook) Option {
	return option(func(c *config) {
		for _, h := range hooks {
			if err := c.hooks.add(h); err != nil {
				c.refuse(err)
			}
		}
	})
}

// WithLogger sets where the router logs. Default nowhere.
func WithLogger(logger *slog.Logger) Option {
	return option(func(c *config) {
		if logger == nil {
			logger = slog.New(slog.DiscardHandler)
		}
		c.logger = logger
	})
}

// validHeaderName reports whether name is an HTTP token (RFC 9110, 5.6.2).
func validHeaderName(name string) bool {
	const symbols = "!#$%&'*+-.^_`|~"
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if letter || '0' <= c && c <= '9' {
			continue
		}
		found := false
		for j := range len(symbols) {
			found = found || symbols[j] == c
		}
		if !found {
			return false
		}
	}
	return name != ""
}
