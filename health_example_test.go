package warmroute_test

import (
	"fmt"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/health"
)

// Two machines, each with a dcgm-exporter beside its vLLM.
func ExampleWithHealth() {
	router, err := warmroute.New(
		[]warmroute.Endpoint{{URL: "http://10.0.0.1:8000"}, {URL: "http://10.0.0.2:8000"}},
		warmroute.WithHealth(health.Config{
			Probe: &health.Probe{},
			DCGM: &health.DCGM{
				GPUs:  []health.GPUs{{Exporter: "http://10.0.0.1:9400"}, {Exporter: "http://10.0.0.2:9400"}},
				Rules: health.Rules{Throttled: health.Ignore},
			},
		}),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	// go router.Run(ctx) watches them.
	for _, m := range router.Stats().Pools[0].Replicas {
		fmt.Println(m.Name, m.State, m.Finding == nil)
	}
	// Output:
	// 10.0.0.1:8000 up true
	// 10.0.0.2:8000 up true
}
