package pagetest

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// importModule makes one of the page's modules a global of the tab.
func importModule(t *testing.T, name string) *tab {
	t.Helper()
	var stats atomic.Pointer[warmroute.Stats]
	stats.Store(&warmroute.Stats{Pools: []warmroute.PoolStats{}})
	b := openTab(t, madeUp(t, &stats, warmroute.History{Step: 5, Pools: []warmroute.PoolHistory{}}), desktop, "light")
	eval[bool](b, fmt.Sprintf(`(import("./assets/%s.js").then((m) => { window.tested = m; }), true)`, name))
	b.until(`window.tested`)
	return b
}

func TestFormat(t *testing.T) {
	b := importModule(t, "format")
	for call, want := range map[string]string{
		`count(null)`: unknown, `count(undefined)`: unknown, `count(NaN)`: unknown, `count("<b>")`: unknown,
		`count(0)`: "0", `count(999)`: "999", `count(1000)`: "1,000", `count(999999)`: "999,999", `count(1000000)`: "1M", `count(8370368)`: "8.37M",
		`compact(0)`: "0", `compact(123.4)`: "123", `compact(1234)`: "1.23K", `compact(98765)`: "98.8K", `compact(null)`: unknown,
		`rate(0)`: "0/s", `rate(12345)`: "12.3K/s", `rate(undefined)`: unknown,
		`percent(0)`: "0.0%", `percent(1)`: "100.0%", `percent(0.91384)`: "91.4%", `percent(null)`: unknown,
		`duration(0)`: "0 s", `duration(0.0001)`: "1 ms", `duration(0.012)`: "12 ms", `duration(0.9994)`: "999 ms", `duration(0.9996)`: "1.00 s",
		`duration(3.456)`: "3.46 s", `duration(9.999)`: "10.0 s", `duration(41.73)`: "41.7 s", `duration(59.97)`: "1 min", `duration(125)`: "2 min 5 s",
		`duration(300)`: "5 min", `duration(3599.6)`: "1 h", `duration(3660)`: "1 h 1 min", `duration(86340)`: "23 h 59 min", `duration(86399)`: "1 d",
		`duration(93600)`: "1 d 2 h", `duration(null)`: unknown,
		`age(0.4)`: "0 s", `age(59.9)`: "59 s", `age(73.2)`: "1 min", `age(3599)`: "59 min", `age(7200)`: "2 h",
		`plural(1, "replica")`: "1 replica", `plural(0, "replica")`: "0 replicas", `plural(1234, "replica")`: "1,234 replicas",
	} {
		assert.Equal(t, want, eval[string](b, "tested."+call), call)
	}
}

func TestHistoryColumns(t *testing.T) {
	b := importModule(t, "history")
	const setup = `(() => {
		const point = (s, tokens) => ({ end: new Date(s * 1000).toISOString(), seconds: 5, prompt_cached: tokens, prompt_computed: 0, completion: 0, first_byte_p50_s: null });
		const history = (...points) => ({ step_s: 5, pools: [{ model: "m", points }] });
		const rate = (p) => p.prompt_cached / p.seconds;
		const h = new tested.History();
		%s
	})()`
	for name, tc := range map[string]struct{ script, want string }{
		"nothing known":                   {`return h.columns("m", 100e3, [rate], 9)`, `[[],[]]`},
		"another model":                   {`h.load(history(point(10, 5))); return h.columns("n", 100e3, [rate], 9)`, `[[],[]]`},
		"the last may not be over":        {`h.load(history(point(10, 5), point(15, 10))); return h.columns("m", 20.9e3, [rate], 99)`, `[[10,15],[1,2]]`},
		"a gap":                           {`h.load(history(point(10, 5), point(25, 10))); return h.columns("m", 25e3, [rate], 99)`, `[[10,15,20,25],[1,null,null,2]]`},
		"merged by time, not by place":    {`h.load(history(point(15, 10), point(20, 20), point(25, 30), point(30, 5))); return h.columns("m", 30e3, [rate], 2)`, `[[15,25,30],[2,5,1]]`},
		"a gap in what is merged":         {`h.load(history(point(10, 10), point(20, 20))); return h.columns("m", 24e3, [rate], 2)`, `[[15,20],[2,4]]`},
		"an hour at most":                 {`h.load(history(point(5, 1), point(3600, 5), point(3610, 5))); return h.columns("m", 3610e3, [rate], 999).map((c) => [c.length, c[0]])`, `[[3,3600],[3,1]]`},
		"the next steps leave no hole":    {`h.load(history(point(10, 1))); return h.add(history(point(10, 1), point(15, 2)))`, `true`},
		"steps were missed":               {`h.load(history(point(10, 1))); return [h.add(history(point(20, 1))), h.add(history(point(25, 1)))]`, `[false,true]`},
		"a first step is no hole":         {`return h.add(history(point(500, 1)))`, `true`},
		"a later load replaces":           {`h.load(history(point(10, 1))); h.load(history(point(20, 5))); return h.columns("m", 20e3, [rate], 9)`, `[[20],[1]]`},
		"the last minute":                 {`h.load(history(point(10, 1), point(70, 2), point(75, 4))); return h.minute("m", 75e3)`, `{"cached":6,"prompt":6}`},
		"the latest":                      {`h.load(history(point(10, 1), point(70, 2))); return [h.latest("m", 75e3).prompt_cached, h.latest("m", 131e3) === undefined, h.latest("n", 0) === undefined]`, `[2,true,true]`},
		"a pool without any steps":        {`h.load(history()); return [h.add(history()), h.columns("m", 1e3, [rate], 9)]`, `[true,[[],[]]]`},
		"a chart that has no width yet":   {`h.load(history(point(10, 5), point(15, 10))); return h.columns("m", 15e3, [rate], 0)`, `[[15],[1.5]]`},
		"as many points as there is room": {`h.load(history(...Array.from({ length: 720 }, (_, i) => point(5 * i + 5, 5)))); return h.columns("m", 3600e3, [rate], 200)[0].length`, `181`},
	} {
		raw := eval[json.RawMessage](b, fmt.Sprintf(setup, tc.script))
		require.NotEmpty(t, raw, name)
		assert.JSONEq(t, tc.want, string(raw), name)
	}
}
