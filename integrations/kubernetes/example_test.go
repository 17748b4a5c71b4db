package kubernetes_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/integrations/kubernetes"
	"github.com/warmroute/warmroute/replica"
)

func ExampleNew() {
	// In a pod: rest.InClusterConfig and kubernetes.NewForConfig of client-go.
	client := fake.NewClientset(slice("vllm-1", four, endpoint("vllm-0", "10.0.0.1", ready), endpoint("vllm-1", "10.0.0.2", leaving)))
	found, err := kubernetes.New(kubernetes.Config{
		Client: client, Namespace: "ai", Service: "vllm", Port: "http",
		Endpoint: replica.Endpoint{Model: "qwen"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = found.Watch(ctx, func(targets []warmroute.Target, err error) { // warmroute.WithDiscovery(found) in a router
		for _, t := range targets {
			fmt.Println(t, t.Draining)
		}
		cancel()
	})
	fmt.Println(err)
	// Output:
	// http://10.0.0.1:8000,model=qwen false
	// http://10.0.0.2:8000,model=qwen true
	// <nil>
}
