package warmroute_test

import (
	"context"
	"fmt"

	"github.com/warmroute/warmroute"
)

// A gateway that does its own I/O says which response an answer is, and names
// the one that a request continues.
func ExampleLease_Produced() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000"}, {URL: "http://10.0.0.2:8000"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()

	turn := func(previous, id string) (*warmroute.Replica, error) {
		lease, err := router.Route(context.Background(), warmroute.Request{PreviousResponse: previous})
		if err != nil {
			return nil, err
		}
		lease.Answered()
		lease.Produced(id)
		lease.Done(warmroute.Result{API: "/v1/responses"})
		return lease.Replica(), nil
	}
	first, err := turn("", "resp_1")
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := turn("resp_1", "resp_2")
	fmt.Println(first == second, err)
	// Output: true <nil>
}
