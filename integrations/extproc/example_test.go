package extproc_test

import (
	"fmt"

	"google.golang.org/grpc"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/integrations/extproc"
)

// A processor beside whatever else a gRPC server of yours serves.
func ExampleNew() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000"}, {URL: "http://10.0.0.2:8000", Ranks: 4}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()                                    // and "go router.Run(ctx)", so that it reads the engines' metrics
	processor, err := extproc.New(router, extproc.Config{}) // as Envoy's defaults are
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	processor.Register(server) // and "server.Serve(listener)"
	for name := range server.GetServiceInfo() {
		fmt.Println(name)
	}
	// Output: envoy.service.ext_proc.v3.ExternalProcessor
}
