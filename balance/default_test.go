package balance_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/balance"
)

func TestDefaultSpreads(t *testing.T) {
	unscraped := func(c *balance.Candidate) { c.Running, c.Waiting, c.KVUsage = unknown, unknown, unknown }
	tests := []struct {
		name   string
		n      int
		start  func(*balance.Candidate)
		times  int
		placed func(*balance.Candidate)
		want   int // each
	}{
		{"one after another on an idle fleet", 4, nothing, 40, session, 10},
		{"one after another, nothing scraped", 4, unscraped, 40, session, 10},
		{"one after another, not bound", 4, nothing, 40, nothing, 10},
		{"one after another over seven", 7, nothing, 70, session, 10},
		{"burst", 4, nothing, 200, inFlight, 50},
		{"burst, nothing scraped", 4, unscraped, 200, inFlight, 50},
		{"burst of bound ones", 4, nothing, 200, func(c *balance.Candidate) { c.InFlight++; c.Sessions++ }, 50},
		{"burst on a busy fleet", 4, func(c *balance.Candidate) { c.InFlight, c.Others, c.Sessions = 90, 20, 300 }, 200, inFlight, 50},
		{"burst beside a frozen scrape", 4, func(c *balance.Candidate) { c.Running, c.Waiting, c.KVUsage = 9, 3, 0.4 }, 200, inFlight, 50},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			candidates := fleet(t, tt.n)
			for i := range candidates {
				tt.start(&candidates[i])
			}
			for i, got := range spread(t, balance.Default(), candidates, tt.times, tt.placed) {
				assert.Equal(t, tt.want, got, "candidate %d", i)
			}
		})
	}
}

func TestDefaultWeighs(t *testing.T) {
	const parent = 2 // the candidate that is the parent's home, where there is one
	type load struct {
		inFlight, sessions int
		kv                 float64
	}
	tests := []struct {
		name   string
		loads  []load
		parent bool
		want   int
	}{
		{"fewest sessions between requests", []load{{0, 12, 0}, {0, 11, 0}, {0, 12, 0}}, false, 1},
		{"fewest in flight", []load{{2, 5, 0}, {1, 5, 0}, {2, 5, 0}}, false, 1},

		{"twice the load outweighs sessions", []load{{4, 0, 0}, {2, 40, 0}, {4, 0, 0}}, false, 1},
		{"twice the load outweighs sessions on a busy fleet", []load{{80, 0, 0}, {40, 500, 0}, {80, 0, 0}}, false, 1},
		{"a third more load outweighs sessions", []load{{40, 0, 0}, {29, 500, 0}, {40, 0, 0}}, false, 1},
		{"a little more load does not", []load{{40, 500, 0}, {38, 500, 0}, {40, 0, 0}}, false, 2},

		{"a full cache costs more than a request", []load{{0, 5, 0.97}, {1, 5, 0.3}, {1, 6, 0.3}}, false, 1},
		{"also when the fleet is busy", []load{{20, 5, 0.95}, {21, 5, 0.3}, {21, 6, 0.3}}, false, 1},
		{"a full cache is not used although it has fewer sessions", []load{{1, 4, 0.97}, {1, 8, 0.3}, {2, 8, 0.3}}, false, 1},
		{"usage that differs a little costs less than a request", []load{{1, 5, 0.3}, {0, 5, 0.4}, {1, 5, 0.3}}, false, 1},
		{"an unknown cache is not taken for an empty one", []load{{0, 5, unknown}, {0, 5, 0.1}, {0, 5, 0.9}}, false, 1},

		{"sub-agent on an idle fleet", []load{{0, 3, 0}, {0, 3, 0}, {0, 3, 0}}, true, parent},
		{"sub-agent, its parent has a request in flight", []load{{0, 3, 0}, {0, 3, 0}, {1, 3, 0}}, true, parent},
		{"sub-agent, two requests more", []load{{0, 3, 0}, {0, 3, 0}, {2, 3, 0}}, true, parent},
		{"sub-agent, one request more and most sessions", []load{{0, 0, 0}, {0, 0, 0}, {1, 30, 0}}, true, parent},
		{"sub-agent, a little busier on a busy fleet", []load{{40, 50, 0}, {40, 50, 0}, {45, 50, 0}}, true, parent},
		{"sub-agent, clearly busier", []load{{0, 3, 0}, {1, 3, 0}, {3, 3, 0}}, true, 0},
		{"sub-agent, clearly busier on a busy fleet", []load{{40, 50, 0}, {12, 50, 0}, {40, 50, 0}}, true, 1},
		{"sub-agent, busier and its cache is full", []load{{1, 3, 0.2}, {0, 3, 0.2}, {2, 3, 0.97}}, true, 1},
		{"no sub-agent goes by load", []load{{0, 3, 0}, {1, 3, 0}, {1, 3, 0}}, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			candidates := fleet(t, len(tt.loads))
			for i, l := range tt.loads {
				candidates[i].InFlight, candidates[i].Sessions, candidates[i].KVUsage = l.inFlight, l.sessions, l.kv
			}
			req := request(1)
			if tt.parent {
				req.Parent, req.ParentHome = 9, parent
			}
			p := balance.Default()
			for range 3 {
				assert.Equal(t, tt.want, pick(t, p, req, candidates))
			}
		})
	}
}

func TestDefaultSpreadsTheSubAgentsOfOneParent(t *testing.T) {
	candidates, p := fleet(t, 4), balance.Default()
	req := request(1)
	req.Parent, req.ParentHome = 9, 0
	counts := make([]int, len(candidates))
	for range 40 {
		i := pick(t, p, req, candidates)
		candidates[i].InFlight++
		counts[i]++
	}
	assert.Equal(t, []int{19, 7, 7, 7}, counts)
}
