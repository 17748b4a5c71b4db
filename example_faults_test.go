package warmroute_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

// A replica that answers with a 503 is passed over at once, and left alone once
// it has done so often.
func ExampleWithRetry() {
	router, err := warmroute.New(
		[]warmroute.Endpoint{{URL: "http://one"}, {URL: "http://two"}},
		warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true}),
		warmroute.WithBreaker(replica.BreakerConfig{Consecutive: 3}),
		warmroute.WithResponseHeaderTimeout(30*time.Second),
		warmroute.WithIdleTimeout(2*time.Minute),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	engines := roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.URL.Host == "one" {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	client := &http.Client{Transport: router.Transport(engines)}
	for range 10 {
		resp, err := client.Post("http://model/v1/chat/completions", "application/json", strings.NewReader(`{}`))
		if err != nil || resp.StatusCode != http.StatusOK {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	one := router.Stats().Pools[0].Replicas[0]
	fmt.Println(one.Name, one.State, "after", one.Failed, "failures")
	// Output: one:80 open after 3 failures
}

// A program that does its own I/O tells what its requests say of the replica.
func ExampleResult() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://one", Ranks: 2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	for range 5 {
		lease, err := router.TryRoute(warmroute.Request{})
		if err != nil {
			fmt.Println(err)
			return
		}
		lease.Done(warmroute.Result{Err: errors.New("status 503"), Endpoint: true, NoTokens: true})
	}
	for _, m := range router.Stats().Pools[0].Replicas {
		fmt.Println(m.Name, m.State)
	}
	// Output:
	// one:80@0 open
	// one:80@1 open
}
