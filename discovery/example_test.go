package discovery_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/warmroute/warmroute/discovery"
	"github.com/warmroute/warmroute/replica"
)

// names is a resolver that knows one name.
type names struct{}

func (names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")}, nil
}

func (names) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", nil, net.ErrClosed
}

func ExampleDNS() {
	dns, err := discovery.DNS(discovery.DNSConfig{
		Endpoint: replica.Endpoint{URL: "https://vllm.example:8443", Model: "qwen"},
		Resolver: names{},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	own := discovery.Static(replica.Target{Endpoint: replica.Endpoint{URL: "http://127.0.0.1:8000"}})
	ctx, cancel := context.WithCancel(context.Background())
	err = discovery.Join(own, dns).Watch(ctx, func(targets []replica.Target, err error) {
		for _, t := range targets {
			fmt.Println(t, err)
		}
		cancel()
	})
	fmt.Println(err)
	// Output:
	// http://127.0.0.1:8000 <nil>
	// https://10.0.0.1:8443,model=qwen,host=vllm.example:8443 <nil>
	// https://10.0.0.2:8443,model=qwen,host=vllm.example:8443 <nil>
	// <nil>
}

func ExampleParseJSON() {
	targets, err := discovery.ParseJSON([]byte(`{"endpoints": [{"url": "http://10.0.0.1:8000", "ranks": 4}]}`))
	fmt.Println(targets[0], err)
	// Output: http://10.0.0.1:8000,ranks=4 <nil>
}
