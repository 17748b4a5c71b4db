package config

import (
	"fmt"
	"reflect"
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

// Config is a configuration that has been checked. What the text does not say is
// zero or nil here, and has the default of the option that it is for.
type Config struct {
	// Listen is the address that the gateway serves on.
	Listen string `json:"listen"`
	// Endpoints are the engines. There must be one, or a Discovery.
	Endpoints []Endpoint `json:"endpoints"`
	// Discovery finds further ones; of those found twice the first is taken, of
	// Endpoints before Discovery.
	Discovery []Discovery `json:"discovery"`
	// Defaults holds for every pool, Pools for the one of a model after it. The empty
	// model is the default pool.
	Defaults Pool            `json:"defaults"`
	Pools    map[string]Pool `json:"pools"`
	Sessions Sessions        `json:"sessions"`
	Clients  Clients         `json:"clients"`
	Timeouts Timeouts        `json:"timeouts"`
	// Failover is [warmroute.WithFailover].
	Failover *bool   `json:"failover"`
	Retry    Retry   `json:"retry"`
	Breaker  Breaker `json:"breaker"`
	// SlowStart is [warmroute.WithSlowStart].
	SlowStart *Duration `json:"slow_start"`
	Health    Health    `json:"health"`
	// PeekLimit is [warmroute.WithPeekLimit], in bytes.
	PeekLimit *int64 `json:"peek_limit"`
	// StreamUsage is [warmroute.WithStreamUsage].
	StreamUsage bool `json:"stream_usage"`
	// DebugHeaders is [warmroute.WithDebugHeaders].
	DebugHeaders bool `json:"debug_headers"`
	// ScrapeInterval is [warmroute.WithScrapeInterval].
	ScrapeInterval *Duration `json:"scrape_interval"`

	file string
	root *Node
}

// Endpoint is a [warmroute.Target] but for its key.
type Endpoint struct {
	URL      string `json:"url"`
	Model    string `json:"model"`
	Ranks    *int   `json:"ranks"`
	Engine   string `json:"engine"`
	Host     string `json:"host"`
	APIKey   Secret `json:"api_key"`
	Draining bool   `json:"draining"`
}

// Secret says where a secret is: in a file, whose white space at both ends is left
// out, or in an environment variable. One of them, or none for no secret.
type Secret struct {
	File string `json:"file"`
	Env  string `json:"env"`
}

// Discovery is one way to find endpoints: exactly one of the fields.
type Discovery struct {
	DNS  *DNS  `json:"dns"`
	SRV  *SRV  `json:"srv"`
	File *File `json:"file"`
}

// DNS is a [discovery.DNSConfig].
type DNS struct {
	Endpoint Endpoint  `json:"endpoint"`
	Network  string    `json:"network"`
	Interval *Duration `json:"interval"`
	Timeout  *Duration `json:"timeout"`
}

// SRV is a [discovery.SRVConfig].
type SRV struct {
	Name     string    `json:"name"`
	Endpoint Endpoint  `json:"endpoint"`
	Interval *Duration `json:"interval"`
	Timeout  *Duration `json:"timeout"`
}

// File is a [discovery.FileConfig].
type File struct {
	Path     string    `json:"path"`
	Interval *Duration `json:"interval"`
	APIKey   Secret    `json:"api_key"`
}

// Pool is the options of one pool, or of all: see the [warmroute.PoolOption] of each
// name. Affinity and Spill can be changed while the gateway runs. Of the pickers none
// but that of a pool without a Picker makes use of SharedPrefix: not even default, by
// its name, does.
type Pool struct {
	Affinity     *bool                `json:"affinity"`
	Spill        *warmroute.Spill     `json:"spill"`
	MaxNumSeqs   *int                 `json:"max_num_seqs"`
	Picker       *Picker              `json:"picker"`
	Adapters     []string             `json:"adapters"`
	Residency    *warmroute.Residency `json:"residency"`
	Turnover     *float64             `json:"turnover"`
	MaxWait      *Duration            `json:"max_wait"`
	MaxQueue     *int                 `json:"max_queue"`
	SharedPrefix *bool                `json:"shared_prefix"`
}

// Sessions is how conversations are recognized and remembered.
type Sessions struct {
	// Headers are looked at before all else: [warmroute.WithSessionHeader].
	Headers []string `json:"headers"`
	// Fingerprint has a conversation without a key be known by what it began with:
	// [affinity.Fingerprint], behind [affinity.Default].
	Fingerprint bool `json:"fingerprint"`
	// ScopeHeader names the header by whose value keys are kept apart, those of
	// Headers and fingerprints too: [affinity.Scoped].
	ScopeHeader string `json:"scope_header"`
	// TTL is [warmroute.WithSessionTTL], Max [warmroute.WithMaxSessions].
	TTL *Duration `json:"ttl"`
	Max *int      `json:"max"`
	// ResponseChains is [warmroute.WithResponseChains].
	ResponseChains *int `json:"response_chains"`
	// File is where the gateway saves which conversation is where.
	File string `json:"file"`
}

// Clients is what clients may do.
type Clients struct {
	// Untrusted is [warmroute.WithUntrustedClients].
	Untrusted bool `json:"untrusted"`
	// Rank is "honour", "drop" or "refuse": [warmroute.WithClientRank].
	Rank string `json:"rank"`
	// TenantHeader names the header by whose value those who wait are served in turn:
	// [warmroute.WithTenant].
	TenantHeader string `json:"tenant_header"`
	// Priority is [warmroute.WithRequestPriority].
	Priority bool `json:"priority"`
}

// Timeouts are [warmroute.WithResponseHeaderTimeout] and
// [warmroute.WithIdleTimeout].
type Timeouts struct {
	ResponseHeader *Duration `json:"response_header"`
	Idle           *Duration `json:"idle"`
}

// Retry is a [warmroute.RetryPolicy].
type Retry struct {
	MaxAttempts int      `json:"max_attempts"`
	RetrySent   bool     `json:"retry_sent"`
	Budget      float64  `json:"budget"`
	Backoff     Duration `json:"backoff"`
}

// Breaker is a [replica.BreakerConfig].
type Breaker struct {
	Off          bool     `json:"off"`
	Consecutive  int      `json:"consecutive"`
	FailureShare float64  `json:"failure_share"`
	MinRequests  int      `json:"min_requests"`
	Window       Duration `json:"window"`
	OpenFor      Duration `json:"open_for"`
	MaxOpenFor   Duration `json:"max_open_for"`
	Probes       int      `json:"probes"`
}

func (b Breaker) config() replica.BreakerConfig {
	return replica.BreakerConfig{Off: b.Off, Consecutive: b.Consecutive, FailureShare: b.FailureShare, MinRequests: b.MinRequests,
		Window: time.Duration(b.Window), OpenFor: time.Duration(b.OpenFor), MaxOpenFor: time.Duration(b.MaxOpenFor), Probes: b.Probes}
}

// Duration is written as Go does: "1h", "2.5s", "250ms".
type Duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler]. A number without a unit is
// refused, but 0.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return &warmroute.ConfigError{Value: string(text), Field: "duration", Allowed: `a duration with its unit, such as "250ms", "30s" or "1h"`}
	}
	*d = Duration(v)
	return nil
}

// String is as it may be written.
func (d Duration) String() string { return time.Duration(d).String() }

// Parse reads JSON with comments and checks it: the notation, every field's name,
// kind and range, and the endpoints' URLs. file is what errors name the text by, and
// its folder is where relative paths in it begin. The error joins up to 20 [*Error].
func Parse(file string, text []byte) (*Config, error) {
	root, err := ParseJSON(file, text)
	if err != nil {
		return nil, err
	}
	return FromNode(file, root)
}

// FromNode is [Parse] for a text that has been read into nodes.
func FromNode(file string, root *Node) (*Config, error) {
	if root == nil {
		return nil, fmt.Errorf("config: %s: no configuration", file)
	}
	c := &Config{file: file, root: root}
	m := &mistakes{file: file}
	m.decode(root, nil, reflect.ValueOf(c).Elem())
	if len(m.all) == 0 {
		c.check(m)
	}
	if err := m.err(); err != nil {
		return nil, err
	}
	return c, nil
}
