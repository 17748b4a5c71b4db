package warmroute_test

import (
	"fmt"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/discovery"
)

func ExampleWithDiscovery() {
	found, err := discovery.DNS(discovery.DNSConfig{Endpoint: warmroute.Endpoint{URL: "http://vllm.example:8000"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	router, err := warmroute.New(nil, warmroute.WithDiscovery(found)) // router.Run looks the name up
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	fmt.Println(len(router.Replicas()), "before Run")
	// Output: 0 before Run
}

func ExampleRouter_SetEndpoints() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000"}, {URL: "http://10.0.0.2:8000"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	err = router.SetEndpoints([]warmroute.Target{
		{Endpoint: warmroute.Endpoint{URL: "http://10.0.0.2:8000"}, Draining: true},
		{Endpoint: warmroute.Endpoint{URL: "http://10.0.0.3:8000"}},
	})
	for _, m := range router.Replicas() {
		fmt.Println(m, m.Draining())
	}
	fmt.Println(err)
	// Output:
	// 10.0.0.2:8000 true
	// 10.0.0.3:8000 false
	// <nil>
}
