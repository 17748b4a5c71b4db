package health

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/replica"
)

// Defaults of the configuration.
const (
	DefaultProbePath     = "/health"
	DefaultProbeInterval = 5 * time.Second
	DefaultProbeTimeout  = 2 * time.Second
	DefaultRise          = 2
	DefaultFall          = 3

	DefaultDCGMInterval = 10 * time.Second
	DefaultDCGMTimeout  = 5 * time.Second
	DefaultHold         = 5 * time.Minute
	DefaultThrottledFor = time.Minute
)

// Config says what a [Monitor] watches: at least one of both.
type Config struct {
	Probe *Probe // nil: endpoints are not probed
	DCGM  *DCGM  // nil: GPUs are not looked at

	// Jitter gives the numbers, 0 to 1, by which the pauses between requests vary by
	// a tenth. It must be safe for concurrent use. Default math/rand/v2.Float64.
	Jitter func() float64
}

// Probe is how endpoints are probed. The zero value of every field is its
// default.
type Probe struct {
	// Path is what is asked for with GET, below the endpoint's URL. A 2xx is a
	// success. A 5xx, no answer within Timeout and no connection are failures.
	// Whatever else is answered says nothing. Default "/health": vLLM (0.8.5 to
	// 0.33) has its engine's word there. SGLang's generates a token for it, so give
	// it an Interval to match.
	Path string
	// Interval is the pause between two probes of an endpoint. Default 5 s.
	Interval time.Duration
	// Timeout bounds a probe, its connection included. Default 2 s, or Interval if
	// that is less.
	Timeout time.Duration
	// Fall is how many probes in a row must fail for the endpoint to be down, Rise
	// how many must succeed for it not to be any more. Default 3 and 2.
	Fall, Rise int
	// Client sends the probes. The default uses no proxy and no credentials; vLLM's
	// --api-key wants none for /health.
	Client *http.Client
}

// DCGM is how the pages of dcgm-exporters are read. But for GPUs, the zero value
// of every field is its default.
type DCGM struct {
	// GPUs names the exporters and says whose GPUs they show.
	GPUs []GPUs
	// Map, if it is set, says alone whether a replica runs on a GPU; GPUs only
	// names the exporters then. It is called often and must neither block nor
	// depend on anything but its arguments.
	Map func(GPU, *replica.Replica) bool
	// Interval is the pause between two readings of a page. Default 10 s; the
	// exporter itself collects every 30 s unless its --collect-interval says
	// otherwise.
	Interval time.Duration
	// Timeout bounds a reading. Default 5 s, or Interval if that is less.
	Timeout time.Duration
	// StaleAfter is how long a page may not have been read before that is a
	// problem, and readings are not compared over such a time. Default four times
	// Interval, at least Interval.
	StaleAfter time.Duration
	// Hold is how long a finding stays after its last sign. Default 5 min.
	Hold time.Duration
	// Rules says what each sign means.
	Rules Rules
	// Client reads the pages. The default uses no proxy and no credentials.
	Client *http.Client
}

// GPUs says which GPUs on an exporter's page are those of which replicas. If only
// Exporter is set, all of them are those of every endpoint on the exporter's host:
// one that has the host name of its URL, or that of the label Hostname. Names are
// compared and not looked up: in Kubernetes, where an exporter and an engine have
// addresses of their own, name the Replica or set [DCGM.Map].
type GPUs struct {
	// Exporter is the URL of a dcgm-exporter's page. A URL without a path is
	// completed with /metrics. User info, query and fragment are refused: the
	// Client may add what is needed.
	Exporter string
	// Replica is the name of a replica, or the URL of an endpoint for all its ranks,
	// as in [replica.Replica.Is]. Empty, it is every endpoint on the exporter's host.
	Replica string
	// Ranks are the data-parallel ranks that are meant, nil for all. An endpoint
	// whose ranks are not known, or cannot be addressed, is on the GPUs of all.
	Ranks []int
	// GPU are the GPUs by their index, UUID, device ("nvidia3") or PCI bus id, as
	// labelled on the page. nil is all.
	GPU []string
}

// Rules says what to make of each sign on a dcgm-exporter's page. The zero value
// of every field is its default. Signs marked with * are on the page only if their
// line is in the exporter's counters: its etc/default-counters.csv (of 3.x and 4.x)
// has them commented out, or not at all.
type Rules struct {
	// XIDs is what the codes of DCGM_FI_DEV_XID_ERRORS, and of
	// DCGM_EXP_XID_ERRORS_COUNT * (since dcgm-exporter#239), mean, above
	// [DefaultXIDs]; [Ignore] takes a code out. The first is the last code that the
	// GPU had, for ever: it goes back to zero when the exporter, or the driver,
	// starts anew (dcgm-exporter#500). A code other than [DrainUntilReset] therefore
	// counts when it appears, and its repetition is seen in the second only.
	XIDs map[int]Action

	// DoubleBitECC is what DoubleBitErrors more in DCGM_FI_DEV_ECC_DBE_VOL_TOTAL *
	// or DCGM_FI_DEV_ECC_DBE_AGG_TOTAL * within Hold mean. Default [Drain], 1.
	DoubleBitECC    Action
	DoubleBitErrors int

	// RowRemapFailure is what DCGM_FI_DEV_ROW_REMAP_FAILURE above zero means: the
	// GPU is to be replaced. Default [DrainUntilReset].
	RowRemapFailure Action

	// RemappedRows is what RemappedRowsMin more in
	// DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS within Hold mean. Default [Suspect], 1.
	RemappedRows    Action
	RemappedRowsMin int

	// Throttled is what a clock that has been held down for ThrottledFor means: that
	// every page showed one of the ThrottleReasons in
	// DCGM_FI_DEV_CLOCKS_EVENT_REASONS * (DCGM_FI_DEV_CLOCK_THROTTLE_REASONS * before
	// DCGM 3.3), or that DCGM_FI_DEV_THERMAL_VIOLATION * or
	// DCGM_FI_DEV_POWER_VIOLATION * grew by more than a share of the time. Default
	// [Suspect], 1 min.
	Throttled    Action
	ThrottledFor time.Duration
	// ThrottleReasons is a mask of NVML's clocks event reasons. Default
	// [HWThermal]|[SWThermal]|[HWPowerBrake].
	ThrottleReasons uint64
	// ThermalViolation and PowerViolation are the shares of time, above 0 to 1; 1 is
	// never exceeded. The counters are in nanoseconds, whatever the exporter's
	// help texts said before dcgm-exporter#589. Default 0.5 and 1: a power cap
	// holds a busy GPU down as a matter of course.
	ThermalViolation, PowerViolation float64
}

// Clocks event reasons of NVML (nvmlClocksEventReasons), for
// [Rules.ThrottleReasons].
const (
	SWPowerCap   uint64 = 0x4
	HWSlowdown   uint64 = 0x8 // set beside HWThermal and HWPowerBrake, and when too much power is drawn
	SWThermal    uint64 = 0x20
	HWThermal    uint64 = 0x40
	HWPowerBrake uint64 = 0x80
)

// reasonBits is how many bits of a mask of clocks event reasons are looked at.
const reasonBits = 16

// withDefaults returns the configuration checked and filled in.
func (c Config) withDefaults() (Config, error) {
	if c.Probe == nil && c.DCGM == nil {
		return c, refuse("health", "nothing", "a Probe, DCGM or both")
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	if c.Probe != nil {
		p := *c.Probe
		if err := p.complete(); err != nil {
			return c, err
		}
		c.Probe = &p
	}
	if c.DCGM != nil {
		d := *c.DCGM
		if err := d.complete(); err != nil {
			return c, err
		}
		c.DCGM = &d
	}
	return c, nil
}

func (p *Probe) complete() error {
	if p.Path == "" {
		p.Path = DefaultProbePath
	}
	if !strings.HasPrefix(p.Path, "/") || strings.ContainsAny(p.Path, "?#% ") || path.Clean(p.Path) != p.Path {
		return refuse("health.probe.path", p.Path, "a clean path that begins with / and has no query")
	}
	return firstOf(
		duration("health.probe.interval", &p.Interval, DefaultProbeInterval),
		duration("health.probe.timeout", &p.Timeout, min(DefaultProbeTimeout, p.Interval)),
		count("health.probe.fall", &p.Fall, DefaultFall),
		count("health.probe.rise", &p.Rise, DefaultRise),
	)
}

func (d *DCGM) complete() error {
	err := firstOf(
		duration("health.dcgm.interval", &d.Interval, DefaultDCGMInterval),
		duration("health.dcgm.timeout", &d.Timeout, min(DefaultDCGMTimeout, d.Interval)),
		duration("health.dcgm.stale-after", &d.StaleAfter, 4*d.Interval),
		duration("health.dcgm.hold", &d.Hold, DefaultHold),
	)
	if err != nil {
		return err
	}
	if d.StaleAfter < d.Interval {
		return refuse("health.dcgm.stale-after", d.StaleAfter.String(), "at least the interval, "+d.Interval.String())
	}
	if len(d.GPUs) == 0 {
		return refuse("health.dcgm.gpus", "none", "at least one exporter")
	}
	gpus := make([]GPUs, 0, len(d.GPUs))
	for _, g := range d.GPUs {
		u, err := exporterURL(g.Exporter)
		if err != nil {
			return err
		}
		g.Exporter = u.String()
		for _, rank := range g.Ranks {
			if rank < 0 || rank >= replica.MaxRanks {
				return refuse("health.dcgm.gpus.ranks", strconv.Itoa(rank), fmt.Sprintf("0 to %d", replica.MaxRanks-1))
			}
		}
		for _, name := range g.GPU {
			if name == "" {
				return refuse("health.dcgm.gpus.gpu", "", "an index, UUID, device or PCI bus id")
			}
		}
		gpus = append(gpus, g)
	}
	d.GPUs = gpus
	return d.Rules.complete()
}

func (r *Rules) complete() error {
	xids := DefaultXIDs()
	for code, action := range r.XIDs {
		if code < 1 || code > maxXID {
			return refuse("health.dcgm.rules.xids", strconv.Itoa(code), fmt.Sprintf("codes of 1 to %d", maxXID))
		}
		if action < Ignore || action > DrainUntilReset {
			return refuse("health.dcgm.rules.xids", fmt.Sprintf("XID %d: %d", code, action), actions)
		}
		xids[code] = action
	}
	r.XIDs = xids
	if r.ThrottleReasons == 0 {
		r.ThrottleReasons = HWThermal | SWThermal | HWPowerBrake
	}
	if r.ThrottleReasons >= 1<<reasonBits {
		return refuse("health.dcgm.rules.throttle-reasons", strconv.FormatUint(r.ThrottleReasons, 16), fmt.Sprintf("a mask of %d bits", reasonBits))
	}
	return firstOf(
		choice("health.dcgm.rules.double-bit-ecc", &r.DoubleBitECC, Drain),
		count("health.dcgm.rules.double-bit-errors", &r.DoubleBitErrors, 1),
		choice("health.dcgm.rules.row-remap-failure", &r.RowRemapFailure, DrainUntilReset),
		choice("health.dcgm.rules.remapped-rows", &r.RemappedRows, Suspect),
		count("health.dcgm.rules.remapped-rows-min", &r.RemappedRowsMin, 1),
		choice("health.dcgm.rules.throttled", &r.Throttled, Suspect),
		duration("health.dcgm.rules.throttled-for", &r.ThrottledFor, DefaultThrottledFor),
		share("health.dcgm.rules.thermal-violation", &r.ThermalViolation, 0.5),
		share("health.dcgm.rules.power-violation", &r.PowerViolation, 1),
	)
}

// exporterURL is the URL of an exporter's page in a form in which two spellings
// of one are the same.
func exporterURL(raw string) (*url.URL, error) {
	const allowed = "http(s)://host[:port][/path] without user info, query or fragment"
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Opaque != "":
		if strings.ContainsAny(raw, "@?") {
			raw = "a URL that cannot be read" // it may hold a secret
		}
		return nil, refuse("health.dcgm.gpus.exporter", raw, allowed)
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		shown := *u
		shown.User, shown.RawQuery, shown.Fragment = nil, "", ""
		return nil, refuse("health.dcgm.gpus.exporter", shown.String()+" with user info, a query or a fragment", allowed)
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, refuse("health.dcgm.gpus.exporter", raw, allowed)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/metrics"
	}
	return u, nil
}

func refuse(field, value, allowed string) error {
	return &replica.ConfigError{Field: field, Value: value, Allowed: allowed}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// maxDuration keeps sums of durations in range.
const maxDuration = 10 * 365 * 24 * time.Hour

func duration(field string, d *time.Duration, byDefault time.Duration) error {
	if *d == 0 {
		*d = byDefault
	}
	if *d < 0 || *d > maxDuration {
		return refuse(field, d.String(), "more than 0, ten years at the most")
	}
	return nil
}

func count(field string, n *int, byDefault int) error {
	if *n == 0 {
		*n = byDefault
	}
	if *n < 0 {
		return refuse(field, strconv.Itoa(*n), "at least 1")
	}
	return nil
}

func choice(field string, a *Action, byDefault Action) error {
	if *a == ByDefault {
		*a = byDefault
	}
	if *a < Ignore || *a > DrainUntilReset {
		return refuse(field, strconv.Itoa(int(*a)), actions)
	}
	return nil
}

func share(field string, v *float64, byDefault float64) error {
	if *v == 0 {
		*v = byDefault
	}
	if math.IsNaN(*v) || *v <= 0 || *v > 1 {
		return refuse(field, strconv.FormatFloat(*v, 'g', -1, 64), "above 0 to 1")
	}
	return nil
}
