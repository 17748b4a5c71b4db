package pagetest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

// shown is what the page shows at one moment.
type shown struct {
	Seq   string
	Pools []struct {
		Model  string
		Fields map[string]string
		Rows   []map[string]string // by data-key
	}
}

const read = `(() => {
	const text = (e) => e.textContent;
	return {
		seq: document.querySelector("main").dataset.seq,
		pools: [...document.querySelectorAll(".pool")].map((pool) => ({
			model: pool.dataset.model,
			fields: Object.fromEntries([...pool.querySelectorAll("[data-field]")].map((e) => [e.dataset.field, text(e)])),
			rows: [...pool.querySelectorAll("tbody tr")].map((row) => Object.fromEntries([...row.children].map((cell) =>
				[cell.dataset.key, text(cell.querySelector(".value, b") ?? cell)]))),
		})),
	};
})()`

const unknown = "–"

// count has three digits from a million on.
func count[N int | uint64](n N) string {
	if n >= 1_000_000 {
		return strconv.FormatFloat(float64(n)/1e6, 'g', 3, 64) + "M"
	}
	s := strconv.FormatUint(uint64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func maybeCount(n *int) string {
	if n == nil {
		return unknown
	}
	return count(*n)
}

// percent rounds ties up, as JavaScript does; Go rounds them to even.
func percent(v *float64) string {
	if v == nil {
		return unknown
	}
	x := *v * 100
	if part := x - math.Trunc(x); part == 0.25 || part == 0.75 {
		x += 0.01
	}
	return fmt.Sprintf("%.1f%%", x)
}

// rowOf is how a replica is to be shown.
func rowOf(r warmroute.ReplicaStats) map[string]string {
	return map[string]string{
		"name": r.Name, "state": string(r.State), "in_flight": count(r.InFlight),
		"running": maybeCount(r.Running), "waiting": maybeCount(r.Waiting), "kv_usage": percent(r.KVUsage),
		"prefix_hit_rate": percent(r.PrefixHitRate), "verified_share": percent(r.VerifiedShare),
		"sessions": count(r.Sessions), "residents": maybeCount(r.Residents),
		"sticky": count(r.Sticky), "placed": count(r.Placed), "spilled_in": count(r.SpilledIn),
		"pinned": count(r.Pinned), "unkeyed": count(r.Unkeyed), "failed": count(r.Failed),
	}
}

func TestPageShowsWhatTheRouterSays(t *testing.T) {
	s := newStack(t)
	w := s.watch(t)
	s.startTraffic(t)
	for _, size := range []screen{desktop, phone} {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(fmt.Sprintf("%d-%s", size.width, scheme), func(t *testing.T) {
				b := openTab(t, s.page, size, scheme)
				b.until(`document.querySelector("#status").dataset.state === "live" && document.querySelectorAll(".u-over").length === 6`)
				compared := map[string]bool{}
				for end := time.Now().Add(20 * time.Second); len(compared) < 4 && time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
					is := eval[shown](b, read)
					seq, err := strconv.ParseUint(is.Seq, 10, 64)
					require.NoError(t, err)
					e, ok := w.event(seq)
					if !ok || compared[is.Seq] {
						continue // the witness is behind
					}
					compared[is.Seq] = true
					compare(t, e, is)
				}
				assert.Len(t, compared, 4, "events that the page showed")
				b.noOverflow()
				b.contrast()
				b.until(`[...document.querySelectorAll(".pool")].every(p => p.querySelector('[data-chart="prompt"] .legend b').textContent.endsWith("/s"))`)
				b.shoot(fmt.Sprintf("live-%d-%s", size.width, scheme))
			})
		}
	}
	h := s.router.History()
	for _, p := range h.Pools {
		var tokens uint64
		for _, point := range p.Points {
			tokens += point.PromptCached + point.PromptComputed
		}
		assert.Positive(t, tokens, p.Model)
	}
}

func up(p warmroute.PoolStats) int {
	n := 0
	for _, r := range p.Replicas {
		if r.State == replica.Up {
			n++
		}
	}
	return n
}

// compare holds what is shown against the event that it is to show.
func compare(t *testing.T, e warmroute.Event, is shown) {
	t.Helper()
	require.Len(t, is.Pools, len(e.Stats.Pools))
	for i, p := range e.Stats.Pools {
		pool := is.Pools[i]
		assert.Equal(t, p.Model, pool.Model)
		for field, want := range map[string]string{
			"model": p.Model, "affinity": "affinity on",
			"replicas":     fmt.Sprintf("%d of %d up", up(p), len(p.Replicas)),
			"spill":        fmt.Sprintf("spills above %d in flight (%s)", p.Spill.Value, p.Spill.Source),
			"cached-hour":  percent(p.Tokens.CachedShareLastHour),
			"sticky-share": percent(p.StickyShare),
			"waiting":      count(p.Queue.Waiting),
			"max-waiting":  "of " + count(p.Queue.MaxWaiting),
			"in-flight":    count(p.InFlight),
			"sessions":     count(p.Sessions),
			"requests":     count(p.Requests.Sticky + p.Requests.Placed + p.Requests.Spilled + p.Requests.Pinned + p.Requests.Unkeyed),
			"spilled":      count(p.Requests.Spilled),
			"failed":       count(p.Requests.Failed),
			"refused":      count(p.Requests.Refused),
			"overloaded":   count(p.Queue.Overloaded),
		} {
			assert.Equal(t, want, pool.Fields[field], "%s of event %d", field, e.Seq)
		}
		require.Len(t, pool.Rows, len(p.Replicas))
		for j, r := range p.Replicas {
			assert.Equal(t, rowOf(r), pool.Rows[j], "event %d", e.Seq)
		}
	}
}

func TestKeyboard(t *testing.T) {
	s := newStack(t)
	b := openTab(t, s.page, desktop, "light")
	b.until(`document.querySelectorAll("tbody tr").length === 6`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	var order []string
	for range 7 {
		b.do(chromedp.KeyEvent("\t"))
		order = append(order, eval[string](b, `document.activeElement.textContent.trim()`))
		outline := eval[string](b, `getComputedStyle(document.activeElement).outlineStyle + " " + getComputedStyle(document.activeElement).outlineWidth`)
		assert.Equal(t, "solid 2px", outline, "the focus on %q is to be seen", order[len(order)-1])
		assert.True(t, eval[bool](b, `(() => { const r = document.activeElement.getBoundingClientRect(); return r.width > 0 && r.top >= 0 && r.bottom <= innerHeight; })()`),
			"%q is to be on the screen", order[len(order)-1])
	}
	assert.Equal(t, []string{"Skip to the pools", "Theme: system", "stats", "history", "metrics", "table", "uPlot (MIT)"}, order)

	b.do(chromedp.Focus(chromedp.ID("theme")), chromedp.KeyEvent("\r"))
	assert.Equal(t, "Theme: light", eval[string](b, `document.querySelector("#theme").textContent`))
	light := eval[string](b, `getComputedStyle(document.body).backgroundColor`)
	b.do(chromedp.KeyEvent(" "))
	assert.Equal(t, "Theme: dark", eval[string](b, `document.querySelector("#theme").textContent`))
	assert.NotEqual(t, light, eval[string](b, `getComputedStyle(document.body).backgroundColor`))
	b.contrast()
	b.do(chromedp.Reload())
	b.until(`document.querySelectorAll("tbody tr").length === 6`)
	assert.Equal(t, "Theme: dark", eval[string](b, `document.querySelector("#theme").textContent`), "it is remembered")
	b.do(chromedp.Click(chromedp.ID("theme")))
	assert.Equal(t, light, eval[string](b, `getComputedStyle(document.body).backgroundColor`), "the system's again")
}

func TestNarrowTableIsReachedByKeyboard(t *testing.T) {
	s := newStack(t)
	b := openTab(t, s.page, screen{800, 800, false}, "light")
	b.until(`document.querySelectorAll('.scroll[tabindex="0"][role="region"]').length === 2`)
	b.noOverflow()
}

func TestConnectionLost(t *testing.T) {
	s := newStack(t)
	b := openTab(t, s.page, desktop, "light")
	b.until(`document.querySelector("#status").dataset.state === "live"`)
	b.until(`Number(document.querySelector("main").dataset.seq) > 1`)
	// What was open breaks, and nothing answers for a while.
	gone := make(chan struct{})
	handler := s.server.Config.Handler
	s.server.Config.Handler = holding{handler, gone}
	s.server.CloseClientConnections()
	b.until(`document.querySelector("#status").dataset.state === "lost"`)
	assert.Equal(t, "Connection lost. Trying again.", eval[string](b, `document.querySelector("#status").textContent`))
	b.until(`document.querySelector("#age").textContent.startsWith("numbers from ")`)
	b.shoot("lost-1280-light")
	before := eval[string](b, `document.querySelector("main").dataset.seq`)
	close(gone)
	b.until(`document.querySelector("#status").dataset.state === "live"`)
	assert.NotEqual(t, before, eval[string](b, `document.querySelector("main").dataset.seq`))
	assert.Empty(t, strings.TrimSpace(eval[string](b, `document.querySelector("#age").textContent`)))
	b.forget() // it has reported the failures, as it should
}

// compactRate is a rate of 1,000 to 999,499 tokens a second, in three digits.
func compactRate(v float64) string {
	s := strconv.FormatFloat(v/1000, 'g', 3, 64)
	return s + "K/s"
}
