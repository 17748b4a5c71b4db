package balance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/replica"
)

// A version is recognized by what its rule does with these: the fewest of its
// own in flight is 0, the fewest waiting 1, the lowest waiting*4+running 2,
// and the lowest max(in flight, waiting+running) 3.
func probe(t *testing.T) []balance.Candidate {
	candidates := fleet(t, 4)
	for i, c := range []balance.Candidate{
		{InFlight: 0, Waiting: 9, Running: 9},
		{InFlight: 9, Waiting: 0, Running: 30},
		{InFlight: 20, Waiting: 1, Running: 9},
		{InFlight: 6, Waiting: 5, Running: 1},
	} {
		c.Replica = candidates[i].Replica
		candidates[i] = c
	}
	return candidates
}

func TestEngineLBVersions(t *testing.T) {
	versions := [][]string{
		{"0.8.5", "0.8.5.post1", "0.9.0", "0.9.0.1", "v0.9", "0.9.0rc2"},
		{"0.9.1", "0.9.2", "0.10.0", "v0.10", "0.10.0+cu126", "0.9.1.dev3+g1a2b3c4"},
		{"0.10.1", "0.10.1.1", "0.10.2", "0.11.0", "0.26.0", "v0.26.0", "0.26", "0.26.0+cpu", "0.26.1.post2", "0.26.99"},
		{"0.27.0", "v0.27", "0.27.1rc1", "0.27.0rc1.dev12+gabc.d20260101", "0.33.0", "0.100.0", "1.0", "v1.2.3", "12.0.0"},
	}
	for want, list := range versions {
		for _, version := range list {
			t.Run(version, func(t *testing.T) {
				p, err := balance.EngineLB(version)
				require.NoError(t, err)
				assert.Equal(t, want, pick(t, p, request(1), probe(t)))
			})
		}
	}
	for _, version := range []string{"", "latest", "v", "0", "27", "0.", ".27", "0.x", "0.27.", "0.27.x", "-0.27", "0.27 ", "0.27.0-cpu",
		"0.27.0+", "0,27", "vv0.27", "0.27rc", "99999999999999999999.1", "0.99999999999999999999", "0.27\n"} {
		t.Run("refused "+version, func(t *testing.T) {
			p, err := balance.EngineLB(version)
			var refused *replica.ConfigError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, replica.ConfigError{Field: "version", Value: version, Allowed: "a vLLM version such as 0.26.0"}, *refused)
			assert.Nil(t, p)
		})
	}
}

func engine(tb testing.TB, version string) balance.Picker {
	tb.Helper()
	p, err := balance.EngineLB(version)
	require.NoError(tb, err)
	return p
}

func TestEngineLBRules(t *testing.T) {
	type c = balance.Candidate
	tests := []struct {
		name, version string
		candidates    []c
		want          []int // consecutive picks within one report
	}{
		{"0.9.0: ties go to the first", "0.9.0", []c{{}, {}, {}}, []int{0, 0, 0}},
		{"0.9.0: in flight of this process alone", "0.9.0", []c{{InFlight: 2}, {InFlight: 1, Others: 9}, {InFlight: 3}}, []int{1, 1}},

		{"0.10.0: waiting before running", "0.10.0", []c{{Waiting: 1}, {Running: 50}, {Running: 51}}, []int{1, 1, 2, 1, 2}},
		{"0.10.0: one picked while some wait is added to them", "0.10.0", []c{{Waiting: 1, Running: 9}, {Waiting: 2}}, []int{0, 1, 0, 1}},

		{"0.24.0: one waiting is four running", "0.24.0", []c{{Waiting: 1}, {Running: 3}, {Running: 5}}, []int{1, 0, 2, 1}},
		{"0.24.0: ties go to the first", "0.24.0", []c{{}, {}, {}}, []int{0, 1, 2, 0, 1, 2}},
		{"0.24.0: in flight does not count", "0.24.0", []c{{InFlight: 50}, {Running: 1}}, []int{0, 1, 0, 1}},

		{"0.26.0: the start of the search moves on", "0.26.0", []c{{}, {}, {}}, []int{0, 1, 2, 0, 1, 2}},
		{"0.26.0: score before start", "0.26.0", []c{{Running: 1}, {Running: 8}, {Running: 1}}, []int{0, 2, 2, 0, 1}},

		{"0.27.0: in flight is a floor", "0.27.0", []c{{InFlight: 9}, {Running: 7}, {Running: 8}}, []int{1, 1, 2, 0}},
		{"0.27.0: waiting is no worse than running", "0.27.0", []c{{Waiting: 5}, {Running: 6}}, []int{0, 1, 0, 1}},
		{"0.27.0: unless the cache is more than half full", "0.27.0", []c{{Waiting: 5, KVUsage: 1}, {Running: 19}, {Running: 99}}, []int{1, 1, 0}},
		{"0.27.0: a full cache without a queue costs nothing", "0.27.0", []c{{Running: 5, KVUsage: 1}, {Running: 6}}, []int{0}},
		{"0.27.0: half full costs nothing", "0.27.0", []c{{Waiting: 5, KVUsage: 0.5}, {Running: 6}}, []int{0}},
		{"0.27.0: an empty cache earns nothing", "0.27.0", []c{{Running: 5}, {Waiting: 6, KVUsage: 0.1}}, []int{0}},
		{"0.27.0: an unknown cache costs nothing", "0.27.0", []c{{Waiting: 5, KVUsage: unknown}, {Running: 6}}, []int{0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, candidates := engine(t, tt.version), fleet(t, len(tt.candidates))
			for i, c := range tt.candidates {
				c.Replica = candidates[i].Replica
				candidates[i] = c
			}
			got := make([]int, len(tt.want))
			for k := range got {
				got[k] = pick(t, p, request(1), candidates)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

// The start of the search is what tells the two versions apart when each
// report is new: one sends every tie to the first rank (vllm#47420).
func TestEngineLBTiesAcrossReports(t *testing.T) {
	for version, want := range map[string][]int{"0.24.0": {12, 0, 0, 0}, "0.25.0": {3, 3, 3, 3}, "0.27.0": {3, 3, 3, 3}} {
		p, candidates, counts := engine(t, version), fleet(t, 4), make([]int, 4)
		req := request(1)
		for range 12 {
			req.Now = req.Now.Add(100 * time.Millisecond)
			counts[pick(t, p, req, candidates)]++
		}
		assert.Equal(t, want, counts, version)
	}
}

func TestEngineLBAddsItsPicksToTheReport(t *testing.T) {
	const scrape = time.Second
	p, candidates := engine(t, "0.24.0"), fleet(t, 2)
	candidates[1].Running = 8
	req := request(1)
	at := func(sinceScrape time.Duration) int {
		req.Now = now.Add(sinceScrape)
		for i := range candidates {
			candidates[i].Age = sinceScrape % scrape
		}
		return pick(t, p, req, candidates)
	}
	assert.Equal(t, 0, at(0))
	assert.Equal(t, 0, at(100*time.Millisecond))
	assert.Equal(t, 0, at(200*time.Millisecond), "8 against 8")
	assert.Equal(t, 1, at(300*time.Millisecond), "12 against 8")
	assert.Equal(t, 0, at(400*time.Millisecond), "12 against 12")
	assert.Equal(t, 0, at(scrape), "the new report forgets them")

	// One replica's report is new, the other's is not.
	req.Now = now.Add(scrape + 100*time.Millisecond)
	candidates[0].Age, candidates[1].Age = 0, 100*time.Millisecond
	assert.Equal(t, 0, pick(t, p, req, candidates))
	// Times that were taken a little apart are of one report.
	req.Now = req.Now.Add(20 * time.Microsecond)
	assert.Equal(t, 0, pick(t, p, req, candidates))
	assert.Equal(t, 0, pick(t, p, req, candidates))
	assert.Equal(t, 1, pick(t, p, req, candidates))
}

func TestEngineLBWithoutCountsGoesByInFlight(t *testing.T) {
	makeUnknown := map[string]func(c *balance.Candidate){
		"running unknown": func(c *balance.Candidate) { c.Running = unknown },
		"waiting unknown": func(c *balance.Candidate) { c.Waiting = unknown },
		"stale":           func(c *balance.Candidate) { c.Stale = true },
	}
	for _, version := range []string{"0.10.0", "0.24.0", "0.26.0", "0.27.0"} {
		for name, change := range makeUnknown {
			t.Run(version+"/"+name, func(t *testing.T) {
				p, candidates := engine(t, version), fleet(t, 4)
				for i := range candidates {
					change(&candidates[i])
				}
				assert.Equal(t, []int{50, 50, 50, 50}, spread(t, p, candidates, 200, inFlight))
			})
			t.Run(version+"/"+name+" of one", func(t *testing.T) {
				p, candidates := engine(t, version), fleet(t, 3)
				for i := range candidates {
					candidates[i].InFlight, candidates[i].Running, candidates[i].Waiting = 5-i, i, 3*i
				}
				change(&candidates[0])
				assert.Equal(t, 2, pick(t, p, request(1), candidates))
			})
		}
	}
}

func FuzzEngineLB(f *testing.F) {
	for _, s := range []string{"0.26.0", "v0.27", "0.26.0+cpu", "0.27.1rc1", "", "latest", "0.9.0.1"} {
		f.Add(s)
	}
	candidates := fleet(f, 3)
	f.Fuzz(func(t *testing.T, version string) {
		p, err := balance.EngineLB(version)
		if err != nil {
			var refused *replica.ConfigError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, version, refused.Value)
			return
		}
		pick(t, p, request(1), candidates)
	})
}
