package config_test

import (
	"fmt"
	"os"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/config"
)

func ExampleParse() {
	c, err := config.Parse("gateway.json", []byte(`{
		"endpoints": [{"url": "http://10.0.0.1:8000", "model": "qwen"}], // more to come
		"pools": {"qwen": {"spill": 64, "picker": "least-loaded"}}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	settings, err := c.Build(config.Sources{ReadFile: os.ReadFile, LookupEnv: os.LookupEnv})
	if err != nil {
		fmt.Println(err)
		return
	}
	router, err := warmroute.New(settings.Endpoints(), settings.RouterOptions()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	fmt.Println(router.Stats().Pools[0].Spill.Value)
	// Output: 64
}

func ExampleError() {
	_, err := config.Parse("gateway.json", []byte("{\n  \"endpoints\": [{\"url\": \"10.0.0.1:8000\"}]\n}"))
	fmt.Println(err)
	// Output: gateway.json:2:25: endpoints[0].url: "10.0.0.1:8000" refused; allowed: http(s)://host[:port][/prefix] without user info, query or fragment
}

// Two engines share a node whose exporter has another address, as in Kubernetes:
// each is told its own GPUs.
func ExampleHealth() {
	c, err := config.Parse("gateway.json", []byte(`{
		"endpoints": [{"url": "http://vllm-0:8000"}, {"url": "http://vllm-1:8000"}],
		"sessions": {"fingerprint": true, "scope_header": "X-Tenant-Id"}, // keys of two tenants are never the same
		"health": {
			"probe": {"interval": "5s", "fall": 3},
			"dcgm": {"gpus": [
				{"exporter": "http://dcgm:9400", "replica": "http://vllm-0:8000", "gpu": ["0", "1"]},
				{"exporter": "http://dcgm:9400", "replica": "http://vllm-1:8000", "gpu": ["2", "3"]}
			]}
		}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	settings, err := c.Build(config.Sources{})
	if err != nil {
		fmt.Println(err)
		return
	}
	router, err := warmroute.New(settings.Endpoints(), settings.RouterOptions()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close() // router.Run is what watches
	fmt.Println(*c.Health.Probe.Interval, len(c.Health.DCGM.GPUs))
	// Output: 5s 2
}
