package health_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/warmroute/warmroute/health"
	"github.com/warmroute/warmroute/replica"
)

// A machine with eight GPUs serves two ranks with four GPUs each.
func ExampleGPUs() {
	_, err := health.New(health.Config{DCGM: &health.DCGM{
		GPUs: []health.GPUs{
			{Exporter: "http://10.0.0.1:9400", Replica: "http://10.0.0.1:8000", Ranks: []int{0}, GPU: []string{"0", "1", "2", "3"}},
			{Exporter: "http://10.0.0.1:9400", Replica: "http://10.0.0.1:8000", Ranks: []int{1}, GPU: []string{"4", "5", "6", "7"}},
			{Exporter: "http://10.0.0.2:9400"}, // all of them are those of the endpoints on 10.0.0.2
		},
		Rules: health.Rules{
			XIDs:      map[int]health.Action{31: health.Ignore},
			Throttled: health.Ignore,
		},
	}})
	fmt.Println(err)
	_, err = health.New(health.Config{DCGM: &health.DCGM{GPUs: []health.GPUs{{Exporter: "10.0.0.1:9400"}}}})
	fmt.Println(err)
	// Output:
	// <nil>
	// warmroute: health.dcgm.gpus.exporter: "10.0.0.1:9400" refused; allowed: http(s)://host[:port][/path] without user info, query or fragment
}

func ExampleParsePage() {
	all, err := health.ParsePage([]byte(`
DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-a8394b51",err_code="79",err_msg="GPU has fallen off the bus"} 79
DCGM_FI_DEV_GPU_TEMP{gpu="3",UUID="GPU-a8394b51"} 61
`))
	fmt.Println(all[0].GPU, all[0].XIDs, all[0].Temperature.Value, all[0].RowRemapFailure.OK, err)
	// Output: GPU 3 [79] 61 false <nil>
}

// printed is a fleet that prints what is found.
type printed struct {
	*replica.Set
	found chan struct{}
}

func (p printed) Usable(r *replica.Replica) bool { return !r.Draining() }

func (p printed) Found(r *replica.Replica, before, now replica.Finding) {
	if now.State != replica.Up {
		fmt.Println(now.State, "-", now.Reason)
		close(p.found)
	}
}

// A gateway of another kind can have its replicas watched too.
func ExampleMonitor() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable) // the engine is dead
	}))
	defer engine.Close()
	set, err := replica.NewSet(replica.Endpoint{URL: engine.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	monitor, err := health.New(health.Config{Probe: &health.Probe{Fall: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	fleet := printed{set, make(chan struct{})}
	go func() {
		<-fleet.found
		cancel()
	}()
	fmt.Println(monitor.Run(ctx, fleet))
	// Output:
	// down - probe: /health answers 503 Service Unavailable
	// <nil>
}
