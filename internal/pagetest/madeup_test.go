package pagetest

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/feed"
	"github.com/warmroute/warmroute/internal/livepage"
	"github.com/warmroute/warmroute/replica"
)

// madeUp serves the page with stats and a history that are made up, so that
// what takes an hour, or does not happen to good engines, can be looked at. The
// stats may be changed while it serves; it answers with the page's address.
func madeUp(t *testing.T, stats *atomic.Pointer[warmroute.Stats], history warmroute.History) string {
	t.Helper()
	f, err := feed.New(feed.Config{
		Snapshot: func(seq uint64) ([]byte, error) {
			tail := warmroute.History{Step: history.Step, Pools: []warmroute.PoolHistory{}}
			for _, p := range history.Pools {
				tail.Pools = append(tail.Pools, warmroute.PoolHistory{Model: p.Model, Points: p.Points[max(0, len(p.Points)-3):]})
			}
			return json.Marshal(warmroute.Event{Seq: seq, Time: time.Now(), Stats: *stats.Load(), History: tail})
		},
		Interval: 200 * time.Millisecond, MaxViewers: 8, WriteTimeout: time.Second,
	})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	mux := http.NewServeMux()
	livepage.Register(mux)
	mux.HandleFunc("GET /{$}", livepage.Serve)
	mux.Handle("GET /events", f)
	mux.HandleFunc("GET /history", func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, json.NewEncoder(w).Encode(history))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(f.Close) // before the server, which waits for what is watched
	return server.URL + "/"
}

// anHour is traffic with an ebb, ten minutes without a router in it.
func anHour(model string) warmroute.PoolHistory {
	h := warmroute.PoolHistory{Model: model}
	end := time.Now().Truncate(5 * time.Second)
	for i := range 720 {
		if i >= 300 && i < 420 {
			continue
		}
		swing := 1 + 0.4*math.Sin(float64(i)/70) + 0.1*math.Sin(float64(i)*1.7)
		share := 0.93 - 0.25*math.Exp(-math.Pow(float64(i)-560, 2)/900)
		prompt := 5 * 180_000 * swing
		p50, p95 := 0.18/share*swing, 0.9/share*swing
		h.Points = append(h.Points, warmroute.HistoryPoint{
			End: end.Add(time.Duration(i-719) * 5 * time.Second), Seconds: 5,
			PromptCached: uint64(prompt * share), PromptComputed: uint64(prompt * (1 - share)), Completion: uint64(5 * 4200 * swing),
			FirstByteP50: &p50, FirstByteP95: &p95,
		})
	}
	return h
}

const hostile = `<img src="http://elsewhere.invalid/x" onerror="window.broken=1"><script>window.broken=1</script>`

// strangeStates are all that a replica can be shown in, and one of a later version.
var strangeStates = []replica.State{
	replica.Up, replica.Up, replica.Draining, replica.Suspect, replica.Probing, replica.Down, replica.Wedged, "hibernating",
	replica.Foreign, replica.Open, replica.Held, replica.Asleep,
}

var (
	longHost    = strings.Repeat("name", 30)
	strangeRows = len(strangeStates) + 2
)

// strangeStats has what is rare: large numbers, unknown ones, states of later
// versions, names that are HTML.
func strangeStats() warmroute.Stats {
	s := warmroute.Stats{Since: time.Now().Add(-26*time.Hour - 12*time.Minute), UnknownModel: 1234}
	big := warmroute.PoolStats{
		Model: "meta-llama/Llama-3.3-70B-Instruct", Affinity: true, Spill: warmroute.Threshold{Value: 32, Source: warmroute.SpillServerInfo},
		InFlight: 99, Sessions: 48_211, StickyShare: new(0.9432), VerifiedShare: new(0.981),
		Requests: warmroute.RequestStats{Sticky: 8_123_456, Placed: 234_567, Spilled: 12_345, Failed: 17, Refused: 3},
		Tokens:   warmroute.TokenStats{CachedShareLastHour: new(0.9138)},
		Queue:    warmroute.QueueStats{Residency: warmroute.ResidencyAuto, Active: true, Waiting: 12, MaxWaiting: 10_000, Longest: 41.7, MaxWait: 300, Overloaded: 2},
		Problems: []string{"http://10.0.0.3:8000 ignores the rank header on /v1/responses: vLLM honours it there since 0.33.0"},
	}
	for i, state := range strangeStates {
		r := warmroute.ReplicaStats{
			Name: "10.0.0.3:8000@" + strconv.Itoa(i), State: state, InFlight: 9 + i, Sessions: 6_000 + i, Residents: new(900 + i),
			Sticky: 1_015_432, Placed: 29_320, SpilledIn: 1_543, Running: new(8), Waiting: new(0), KVUsage: new(0.42 + 0.04*float64(i)),
			PrefixHitRate: new(0.89), VerifiedShare: new(0.981), ScrapedAgo: new(0.4),
		}
		switch i {
		case 0:
			r.Name = "vllm-llama-0.vllm-llama.inference.svc.cluster.local:8000@0"
		case 1:
			r.InFlight, r.Waiting, r.Failed = 41, new(7), 17
		case 2: // by an operator, who did not know of the other
			r.Finding = &warmroute.FindingStats{State: replica.Suspect, Source: "dcgm", Reason: "dcgm: XID 79 on GPU 3"}
		case 3:
			r.Finding = &warmroute.FindingStats{State: replica.Suspect, Source: "dcgm", Reason: "dcgm: XID 79 on GPU 3"}
		case 4: // its last page was long ago
			r.KVUsage, r.Waiting, r.ScrapedAgo, r.Stale = new(0.99), new(50), new(200.), true
		case 5: // nothing is known of it
			r.Residents, r.Running, r.Waiting, r.KVUsage, r.PrefixHitRate, r.VerifiedShare = nil, nil, nil, nil, nil, nil
			r.InFlight, r.ScrapedAgo, r.Stale = 0, new(73.2), true
		}
		big.Replicas = append(big.Replicas, r)
	}
	bad := warmroute.PoolStats{
		Model: hostile, Spill: warmroute.Threshold{Value: 64, Source: hostile}, Problems: []string{hostile, strings.Repeat("long", 100)},
		Replicas: []warmroute.ReplicaStats{{Name: hostile, State: hostile, Stale: true}, {Name: longHost + "@12", State: replica.Up, Stale: true}},
	}
	empty := warmroute.PoolStats{Model: "", Affinity: true, Problems: []string{}, Replicas: []warmroute.ReplicaStats{}}
	s.Pools = []warmroute.PoolStats{big, bad, empty}
	return s
}

func TestStrangeThingsAreShownAsText(t *testing.T) {
	for name, size := range map[string]screen{"1280": desktop, "390": phone} {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(name+"-"+scheme, func(t *testing.T) {
				var stats atomic.Pointer[warmroute.Stats]
				stats.Store(new(strangeStats()))
				b := openTab(t, madeUp(t, &stats, warmroute.History{Step: 5, Pools: []warmroute.PoolHistory{anHour("meta-llama/Llama-3.3-70B-Instruct")}}), size, scheme)
				b.until(`document.querySelectorAll("tbody tr").length === ` + strconv.Itoa(strangeRows) + ` && document.querySelector(".legend b").textContent.endsWith("/s")`)
				is := eval[shown](b, read)
				for i, p := range stats.Load().Pools[:2] {
					for j, r := range p.Replicas {
						assert.Equal(t, rowOf(r), is.Pools[i].Rows[j])
					}
				}
				assert.Equal(t, hostile, is.Pools[1].Fields["model"])
				assert.Equal(t, "affinity off", is.Pools[1].Fields["affinity"])
				assert.Equal(t, "Default pool", is.Pools[2].Fields["model"])
				assert.Equal(t, "no replica", is.Pools[2].Fields["hottest"])
				assert.Equal(t, "12", is.Pools[0].Fields["waiting"])
				assert.Equal(t, "longest 41.7 s, at most 5 min", is.Pools[0].Fields["longest"])
				assert.Equal(t, "over its threshold of 32", is.Pools[0].Fields["hottest-spill"])
				assert.Equal(t, "counting for 1 d 2 h; 1,234 refused for an unknown model", eval[string](b, `document.querySelector("#uptime").textContent`))
				assert.Equal(t, []string{
					"takes no new conversations; dcgm: XID 79 on GPU 3", "dcgm: XID 79 on GPU 3", "failed; now tried again; metrics from 3 min ago",
					"could not be reached; metrics from 1 min ago", "makes no progress", "serves another model now", "fails; gets none for now",
					"asked for nothing new", "its engine sleeps", "no metrics yet", "no metrics yet",
				}, eval[[]string](b, `[...document.querySelectorAll(".why")].map((e) => e.textContent).filter(Boolean)`))
				assert.Equal(t, "up:good up:good draining:warn suspect:warn probing:warn down:bad wedged:bad hibernating:other foreign:bad open:bad held:warn asleep:warn",
					eval[string](b, `[...document.querySelectorAll(".pool:first-child td[data-key=state] b")].map((e) => e.textContent + ":" + e.dataset.kind).join(" ")`))
				assert.Equal(t, "2 of 12 up", is.Pools[0].Fields["replicas"])
				assert.Equal(t, "no replica", is.Pools[2].Fields["replicas"])
				assert.Equal(t, "queued in engines: 7", is.Pools[0].Fields["queued"], "what waited long ago is not counted")
				assert.Equal(t, "queued in engines: "+unknown, is.Pools[1].Fields["queued"])
				assert.Equal(t, []string{"true", ""}, eval[[]string](b, `(({ old, level }) => [old, level])(document.querySelectorAll("tbody tr")[4].querySelector("[data-key=kv_usage]").dataset)`))
				assert.True(t, eval[bool](b, `[...document.querySelectorAll("tbody th")].every((th) => {
					const [rank, cell] = [th.querySelector(".rank").getBoundingClientRect(), th.getBoundingClientRect()];
					return rank.right <= cell.right + 0.5 && (rank.width > 0 || !/@\d+$/.test(th.textContent));
				})`), "the rank is to be seen however long the name")
				assert.False(t, eval[bool](b, `"broken" in window`), "a name was run")
				assert.Zero(t, eval[int](b, `document.querySelectorAll("main img, main script").length`))
				assert.True(t, eval[bool](b, `(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)(document.querySelector(".scroll"))`), "the usual is seen whole")
				b.noOverflow()
				b.contrast()
				b.shoot("strange-" + name + "-" + scheme)
			})
		}
	}
}

func TestReplicasAndPoolsComeAndGo(t *testing.T) {
	var stats atomic.Pointer[warmroute.Stats]
	whole := strangeStats()
	stats.Store(&whole)
	b := openTab(t, madeUp(t, &stats, warmroute.History{Step: 5, Pools: []warmroute.PoolHistory{}}), desktop, "light")
	b.until(`document.querySelectorAll("tbody tr").length === ` + strconv.Itoa(strangeRows))
	b.do(mark)
	fewer := whole
	fewer.Pools = []warmroute.PoolStats{whole.Pools[2], whole.Pools[0]}
	fewer.Pools[1].Replicas = []warmroute.ReplicaStats{whole.Pools[0].Replicas[7], whole.Pools[0].Replicas[2]}
	stats.Store(&fewer)
	b.until(`document.querySelectorAll("tbody tr").length === 2`)
	is := eval[shown](b, read)
	require.Len(t, is.Pools, 2)
	assert.Empty(t, is.Pools[0].Model)
	assert.Equal(t, []string{"10.0.0.3:8000@7", "10.0.0.3:8000@2"}, []string{is.Pools[1].Rows[0]["name"], is.Pools[1].Rows[1]["name"]})
	assert.Equal(t, 2, eval[int](b, `[...document.querySelectorAll("tbody tr")].filter((row) => row.marked).length`), "rows that stay are the same elements")
	assert.Equal(t, "nothing recorded yet", is.Pools[1].Fields["when"])
	stats.Store(&whole)
	b.until(`document.querySelectorAll("tbody tr").length === ` + strconv.Itoa(strangeRows))
}

// What failed long ago is told and no alarm.
func TestFailuresAlarmWhileTheyHappen(t *testing.T) {
	var stats atomic.Pointer[warmroute.Stats]
	before := strangeStats()
	stats.Store(&before)
	b := openTab(t, madeUp(t, &stats, warmroute.History{Step: 5, Pools: []warmroute.PoolHistory{}}), desktop, "light")
	const levels = `["failed", "refused", "overloaded"].map((f) => document.querySelector(` + "`[data-field=${f}]`" + `).dataset.level).join() + " " +
		[...document.querySelectorAll(".pool:first-child td[data-key=failed]")].map((e) => e.dataset.level).join("")`
	b.until(`Number(document.querySelector("main").dataset.seq) > 2`)
	assert.Equal(t, ",, ", eval[string](b, levels))
	after := strangeStats()
	after.Pools[0].Requests.Failed++
	after.Pools[0].Queue.Overloaded++
	after.Pools[0].Replicas[1].Failed++
	stats.Store(&after)
	b.until(`document.querySelector("[data-field=failed]").textContent === "18"`)
	assert.Equal(t, "warn,,warn warn", eval[string](b, levels))
	seq := eval[string](b, `document.querySelector("main").dataset.seq`)
	b.until(`Number(document.querySelector("main").dataset.seq) > ` + seq + ` + 2`)
	assert.Equal(t, "warn,,warn warn", eval[string](b, levels), "for a while")
}

func TestChartTellsTheStepUnderThePointer(t *testing.T) {
	var stats atomic.Pointer[warmroute.Stats]
	stats.Store(new(strangeStats()))
	h := anHour("meta-llama/Llama-3.3-70B-Instruct")
	b := openTab(t, madeUp(t, &stats, warmroute.History{Step: 5, Pools: []warmroute.PoolHistory{h}}), desktop, "light")
	b.until(`document.querySelector('[data-chart="completion"] .legend b')?.textContent.endsWith("/s")`)
	assert.Equal(t, "last hour", eval[string](b, `document.querySelector('[data-chart="completion"] [data-field="when"]').textContent`))
	point := eval[struct{ X, Y float64 }](b, `(() => {
		document.querySelector('[data-chart="completion"]').scrollIntoView({ block: "center" });
		const r = document.querySelector('[data-chart="completion"] .u-over').getBoundingClientRect();
		return { x: r.left + r.width * 0.9, y: r.top + r.height / 2 };
	})()`)
	b.do(hover(point.X, point.Y))
	b.until(`/^\d\d:\d\d:\d\d$/.test(document.querySelector('[data-chart="completion"] [data-field="when"]').textContent)`)
	told := eval[struct {
		When, Completion, Prompt string
		Width                    float64
	}](b, `({
		width: document.querySelector('[data-chart="completion"] .plot').clientWidth,
		when: document.querySelector('[data-chart="completion"] [data-field="when"]').textContent,
		completion: document.querySelector('[data-chart="completion"] .legend b').textContent,
		prompt: document.querySelector('[data-chart="prompt"] [data-field="when"]').textContent,
	})`)
	assert.Equal(t, told.When, told.Prompt, "the charts of a pool point at the same step")
	steps := int(math.Ceil(720 / math.Floor(told.Width/2)))
	i := slices.IndexFunc(h.Points, func(p warmroute.HistoryPoint) bool { return p.End.Local().Format("15:04:05") == told.When })
	require.Positive(t, i, "there is a step that ended at %s", told.When)
	sum := uint64(0)
	for _, p := range h.Points[i-steps+1 : i+1] {
		sum += p.Completion
	}
	assert.Equal(t, compactRate(float64(sum)/5/float64(steps)), told.Completion, "%d steps are one point", steps)
}
