package health_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/health"
	"github.com/warmroute/warmroute/replica"
)

// Whose GPUs are whose: GPU 1 of the exporter on host a has failed.
func TestMapping(t *testing.T) {
	const exporter, uuid = "http://a:9400", "GPU-a8394b51-c086-568a-9f1a-c1e1c934c44c"
	ranks := []replica.Endpoint{{URL: "http://a:8000", Ranks: 2}, {URL: "http://b:8000"}}
	all := []string{"a:8000@0", "a:8000@1"}
	for name, tc := range map[string]struct {
		gpus      []health.GPUs
		byFunc    func(health.GPU, *replica.Replica) bool
		endpoints []replica.Endpoint
		hostname  string
		want      []string // that are drained
	}{
		"by host":                 {gpus: []health.GPUs{{Exporter: exporter}}, want: all},
		"by the page's host name": {gpus: []health.GPUs{{Exporter: exporter}}, hostname: "B", want: []string{"a:8000@0", "a:8000@1", b}},
		"another host":            {gpus: []health.GPUs{{Exporter: exporter}}, endpoints: two()[1:]},
		"replica":                 {gpus: []health.GPUs{{Exporter: exporter, Replica: "a:8000@1"}}, want: all[1:]},
		"endpoint":                {gpus: []health.GPUs{{Exporter: exporter, Replica: "HTTP://A:8000/"}}, want: all},
		"endpoint elsewhere":      {gpus: []health.GPUs{{Exporter: exporter, Replica: "http://b:8000"}}, want: []string{b}},
		"rank":                    {gpus: []health.GPUs{{Exporter: exporter, Ranks: []int{0}}}, want: all[:1]},
		"ranks that are not known": {gpus: []health.GPUs{{Exporter: exporter, Ranks: []int{7}}},
			endpoints: two(), want: []string{a}},
		"index":         {gpus: []health.GPUs{{Exporter: exporter, Ranks: []int{0}, GPU: []string{"0", "1"}}, {Exporter: exporter, Ranks: []int{1}, GPU: []string{"2", "3"}}}, want: all[:1]},
		"UUID":          {gpus: []health.GPUs{{Exporter: exporter, GPU: []string{"gpu-A8394B51-c086-568a-9f1a-c1e1c934c44c"}}}, want: all},
		"device":        {gpus: []health.GPUs{{Exporter: exporter, GPU: []string{"nvidia1"}}}, want: all},
		"PCI bus id":    {gpus: []health.GPUs{{Exporter: exporter, GPU: []string{"00000000:1b:00.0"}}}, want: all},
		"another GPU":   {gpus: []health.GPUs{{Exporter: exporter, GPU: []string{"0", "11"}}}},
		"none":          {gpus: []health.GPUs{{Exporter: exporter, GPU: []string{}}}},
		"full spelling": {gpus: []health.GPUs{{Exporter: "HTTP://A:9400/metrics", Replica: "a:8000@0"}}, want: all[:1]},
		"function": {gpus: []health.GPUs{{Exporter: exporter, Replica: "http://a:8000"}}, want: []string{b},
			byFunc: func(g health.GPU, r *replica.Replica) bool {
				return g.Index == "1" && g.UUID == uuid && g.Exporter == "http://a:9400/metrics" && r.Name() == b
			}},
	} {
		t.Run(name, func(t *testing.T) {
			endpoints := tc.endpoints
			if endpoints == nil {
				endpoints = ranks
			}
			endpoints = append(endpoints[:len(endpoints):len(endpoints)], replica.Endpoint{URL: "http://spare"})
			watch(t, health.Config{DCGM: &health.DCGM{GPUs: tc.gpus, Map: tc.byFunc}}, endpoints, func(w *watched) {
				w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-0"} 0`,
					`DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="`+uuid+`",device="nvidia1",pci_bus_id="00000000:1B:00.0",Hostname="`+tc.hostname+`"} 79`)
				time.Sleep(time.Second)
				var got []string
				for _, r := range w.set.Replicas() {
					if r.Found(replica.Draining) {
						got = append(got, r.Name())
					}
				}
				assert.Equal(t, tc.want, got)
			})
		})
	}
}

// Every machine has an exporter of its own, and each replica the GPUs of one.
func TestSeveralExporters(t *testing.T) {
	cfg := health.Config{DCGM: &health.DCGM{GPUs: []health.GPUs{{Exporter: "http://a:9400"}, {Exporter: "http://b:9400/dcgm"}}}}
	watch(t, cfg, append(two(), replica.Endpoint{URL: "http://c:8000"}), func(w *watched) {
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 13`)
		w.answer("http://b:9400/dcgm", http.StatusOK, `DCGM_FI_DEV_XID_ERRORS{gpu="0"} 79`)
		time.Sleep(time.Second)
		w.is(a, replica.Suspect, "dcgm: XID 13 on GPU 0")
		w.is(b, replica.Draining, "dcgm: XID 79 on GPU 0")
		w.is("c:8000", replica.Up, "")
		status := w.monitor.Status()
		require.Len(t, status.Exporters, 2)
		assert.Equal(t, "http://b:9400/dcgm", status.Exporters[1].URL)
		sign := status.Exporters[1].GPUs[0].Signs[0]
		assert.Equal(t, "XID 79", sign.What)
		assert.Equal(t, health.DrainUntilReset, sign.Action)
		assert.Equal(t, []int{79}, status.Exporters[1].GPUs[0].XIDs)
	})
}

// A replica that is added runs on GPUs that were known before it.
func TestReplicasThatCome(t *testing.T) {
	watch(t, dcgm(), two()[1:], func(w *watched) {
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 79`)
		time.Sleep(time.Minute)
		require.NoError(t, w.set.Add(replica.Endpoint{URL: "http://a:8000"}))
		time.Sleep(1100 * time.Millisecond)
		w.is(a, replica.Draining, "dcgm: XID 79 on GPU 0")
		require.NoError(t, w.set.Remove("http://a:8000"))
		time.Sleep(2 * time.Second)
		require.NoError(t, w.set.Add(replica.Endpoint{URL: "http://a:8000"}))
		time.Sleep(1100 * time.Millisecond)
		w.is(a, replica.Draining, "dcgm: XID 79 on GPU 0")
	})
}
