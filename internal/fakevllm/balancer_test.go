package fakevllm_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

func TestDenseModelsAreBalancedBlindly(t *testing.T) {
	const busy = `{"stream":true,"messages":[{"role":"user","content":"busy"}],"max_tokens":5000}`
	tests := map[string]struct {
		cfg  fakevllm.Config
		want []int // requests of each rank, with 8 on the first to begin with
	}{
		"dense":         {fakevllm.Config{}, []int{8 + 4, 4, 4}},
		"MoE":           {fakevllm.Config{MoE: true}, []int{8, 6, 6}},
		"before 0.14":   {fakevllm.Config{Version: "0.13.2"}, []int{8, 6, 6}},
		"since 0.27":    {fakevllm.Config{Version: "0.27.0"}, []int{8, 6, 6}},
		"last of them":  {fakevllm.Config{Version: "0.26.1"}, []int{8 + 4, 4, 4}},
		"first of them": {fakevllm.Config{Version: "0.14.0"}, []int{8 + 4, 4, 4}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.cfg.Ranks = 3
				s := start(t, test.cfg)
				if test.cfg.Version == "0.13.2" {
					// The rank header does not count yet.
					test.want = []int{7, 7, 6}
				}
				for range 8 {
					stream(t, s, ask{rank: "0", body: busy})
					synctest.Wait()
				}
				for range 12 {
					stream(t, s, ask{body: busy})
					time.Sleep(time.Second)
				}
				assert.Equal(t, test.want, ranks(s, 3))
			})
		})
	}
}

func TestEachAPIServerTakesItsTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 400
		s := start(t, fakevllm.Config{Ranks: 4, APIServers: 4, LogSize: n})
		for i := range n {
			chat(t, s, "", 1, user(fmt.Sprint(i)))
		}
		counts := ranks(s, 4)
		for _, c := range counts {
			assert.InDelta(t, n/4, c, 4, "each gives out as many to each")
		}
		// One alone would never choose the same rank twice in a row.
		again := 0
		log := s.Log()
		for i := range n - 1 {
			if log[i].Rank == log[i+1].Rank {
				again++
			}
		}
		assert.InDelta(t, n/4, again, n/8)

		_, page := get(t, s, "/metrics")
		assert.Empty(t, started(page))
		assert.NotEmpty(t, lineWith(page, `vllm:num_requests_running{engine="3"`))
	})
}
