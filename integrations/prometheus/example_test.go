package warmprom_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmroute/warmroute"
	warmprom "github.com/warmroute/warmroute/integrations/prometheus"
)

func ExampleCollector() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	registry := prometheus.NewRegistry()
	if err := registry.Register(warmprom.NewCollector(router)); err != nil {
		fmt.Println(err)
		return
	}

	lease, err := router.Route(context.Background(), warmroute.Request{Session: "my-conversation"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Done(warmroute.Result{})
	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, family := range families {
		if family.GetName() == "warmroute_in_flight" {
			fmt.Println(family.GetName(), family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output: warmroute_in_flight 1
}
