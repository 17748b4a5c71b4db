package replica_test

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute/replica"
)

func ExampleBreaker() {
	breaker, err := replica.NewBreaker(replica.BreakerConfig{
		Consecutive: 2,
		Jitter:      func() float64 { return 0 },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(0, 0)
	for range 2 {
		pass, _ := breaker.Begin(now)
		breaker.Failed(pass, now)
	}
	fmt.Println(breaker.State(now))

	now = now.Add(time.Second)
	fmt.Println(breaker.State(now))
	probe, ok := breaker.Begin(now)
	fmt.Println(ok, breaker.Allows(now))
	breaker.Succeeded(probe, now)
	fmt.Println(breaker.State(now))
	// Output:
	// open
	// half-open
	// true false
	// closed
}
