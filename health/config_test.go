package health_test

import (
	"encoding"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/health"
	"github.com/warmroute/warmroute/replica"
)

func TestConfigRefuses(t *testing.T) {
	probe := func(change func(*health.Probe)) health.Config {
		var p health.Probe
		change(&p)
		return health.Config{Probe: &p}
	}
	dcgm := func(change func(*health.DCGM)) health.Config {
		c := dcgm()
		change(c.DCGM)
		return c
	}
	exporter := func(url string) health.Config {
		return dcgm(func(d *health.DCGM) { d.GPUs[0].Exporter = url })
	}
	rules := func(change func(*health.Rules)) health.Config {
		return dcgm(func(d *health.DCGM) { change(&d.Rules) })
	}
	for _, tc := range []struct {
		cfg          health.Config
		field, value string
	}{
		{health.Config{}, "health", "nothing"},
		{probe(func(p *health.Probe) { p.Path = "health" }), "health.probe.path", "health"},
		{probe(func(p *health.Probe) { p.Path = "/health?x=1" }), "health.probe.path", "/health?x=1"},
		{probe(func(p *health.Probe) { p.Path = "/../health" }), "health.probe.path", "/../health"},
		{probe(func(p *health.Probe) { p.Interval = -1 }), "health.probe.interval", "-1ns"},
		{probe(func(p *health.Probe) { p.Timeout = math.MaxInt64 }), "health.probe.timeout", time.Duration(math.MaxInt64).String()},
		{probe(func(p *health.Probe) { p.Fall = -1 }), "health.probe.fall", "-1"},
		{probe(func(p *health.Probe) { p.Rise = -2 }), "health.probe.rise", "-2"},
		{health.Config{DCGM: &health.DCGM{}}, "health.dcgm.gpus", "none"},
		{dcgm(func(d *health.DCGM) { d.Interval = -1 }), "health.dcgm.interval", "-1ns"},
		{dcgm(func(d *health.DCGM) { d.Timeout = -1 }), "health.dcgm.timeout", "-1ns"},
		{dcgm(func(d *health.DCGM) { d.Hold = -1 }), "health.dcgm.hold", "-1ns"},
		{dcgm(func(d *health.DCGM) { d.StaleAfter = time.Second }), "health.dcgm.stale-after", "1s"},
		{dcgm(func(d *health.DCGM) { d.GPUs[0].Ranks = []int{0, -1} }), "health.dcgm.gpus.ranks", "-1"},
		{dcgm(func(d *health.DCGM) { d.GPUs[0].GPU = []string{""} }), "health.dcgm.gpus.gpu", ""},
		{exporter(""), "health.dcgm.gpus.exporter", ""},
		{exporter("a:9400"), "health.dcgm.gpus.exporter", "a:9400"},
		{exporter("ftp://a"), "health.dcgm.gpus.exporter", "ftp://a"},
		{exporter("http://user:secret@a"), "health.dcgm.gpus.exporter", "http://a with user info, a query or a fragment"},
		{exporter("http://a/?token=secret"), "health.dcgm.gpus.exporter", "http://a/ with user info, a query or a fragment"},
		{exporter("http://secret\x00@a"), "health.dcgm.gpus.exporter", "a URL that cannot be read"},
		{rules(func(r *health.Rules) { r.XIDs = map[int]health.Action{0: health.Drain} }), "health.dcgm.rules.xids", "0"},
		{rules(func(r *health.Rules) { r.XIDs = map[int]health.Action{79: health.ByDefault} }), "health.dcgm.rules.xids", "XID 79: 0"},
		{rules(func(r *health.Rules) { r.XIDs = map[int]health.Action{79: 9} }), "health.dcgm.rules.xids", "XID 79: 9"},
		{rules(func(r *health.Rules) { r.DoubleBitECC = -1 }), "health.dcgm.rules.double-bit-ecc", "-1"},
		{rules(func(r *health.Rules) { r.DoubleBitErrors = -1 }), "health.dcgm.rules.double-bit-errors", "-1"},
		{rules(func(r *health.Rules) { r.RowRemapFailure = 5 }), "health.dcgm.rules.row-remap-failure", "5"},
		{rules(func(r *health.Rules) { r.RemappedRows = 5 }), "health.dcgm.rules.remapped-rows", "5"},
		{rules(func(r *health.Rules) { r.RemappedRowsMin = -1 }), "health.dcgm.rules.remapped-rows-min", "-1"},
		{rules(func(r *health.Rules) { r.Throttled = 5 }), "health.dcgm.rules.throttled", "5"},
		{rules(func(r *health.Rules) { r.ThrottledFor = -1 }), "health.dcgm.rules.throttled-for", "-1ns"},
		{rules(func(r *health.Rules) { r.ThrottleReasons = 1 << 16 }), "health.dcgm.rules.throttle-reasons", "10000"},
		{rules(func(r *health.Rules) { r.ThermalViolation = 1.1 }), "health.dcgm.rules.thermal-violation", "1.1"},
		{rules(func(r *health.Rules) { r.PowerViolation = math.NaN() }), "health.dcgm.rules.power-violation", "NaN"},
	} {
		m, err := health.New(tc.cfg)
		assert.Nil(t, m)
		var refused *replica.ConfigError
		require.ErrorAs(t, err, &refused, "%s %q", tc.field, tc.value)
		assert.Equal(t, tc.field, refused.Field)
		assert.Equal(t, tc.value, refused.Value)
		assert.NotEmpty(t, refused.Allowed)
		assert.NotContains(t, err.Error(), "secret")
	}
}

// A configuration belongs to its caller.
func TestConfigIsNotChanged(t *testing.T) {
	cfg := dcgm()
	cfg.Probe = &health.Probe{}
	cfg.DCGM.Rules.XIDs = map[int]health.Action{999: health.Drain}
	_, err := health.New(cfg)
	require.NoError(t, err)
	want := dcgm()
	want.Probe = &health.Probe{}
	want.DCGM.Rules.XIDs = map[int]health.Action{999: health.Drain}
	assert.Equal(t, want, cfg)
}

func TestActionText(t *testing.T) {
	for _, action := range []health.Action{health.ByDefault, health.Ignore, health.Suspect, health.Drain, health.DrainUntilReset} {
		text, err := encoding.TextMarshaler(action).MarshalText()
		require.NoError(t, err)
		var again health.Action
		require.NoError(t, again.UnmarshalText(text))
		assert.Equal(t, action, again)
	}
	var refused *replica.ConfigError
	require.ErrorAs(t, new(health.Action).UnmarshalText([]byte("kill")), &refused)
	assert.Equal(t, "kill", refused.Value)
	assert.Equal(t, "Action(7)", fmt.Sprint(health.Action(7)))
}

func TestDefaultXIDs(t *testing.T) {
	xids := health.DefaultXIDs()
	for code, want := range map[int]health.Action{
		13: health.Suspect, 31: health.Suspect, 48: health.DrainUntilReset, 64: health.DrainUntilReset, 74: health.DrainUntilReset,
		79: health.DrainUntilReset, 94: health.Drain, 95: health.DrainUntilReset, 119: health.DrainUntilReset, 154: health.Suspect,
	} {
		assert.Equal(t, want, xids[code], code)
	}
	for _, code := range []int{14, 43, 45, 63, 68, 106, 121} {
		assert.NotContains(t, xids, code)
	}
	xids[79] = health.Ignore
	assert.Equal(t, health.DrainUntilReset, health.DefaultXIDs()[79], "a map of its own")
}
