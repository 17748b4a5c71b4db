package balance_test

import (
	"fmt"

	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/replica"
)

// candidates is what a router makes before each pick.
func candidates(names ...string) []balance.Candidate {
	list := make([]balance.Candidate, len(names))
	for i, name := range names {
		set, err := replica.NewSet(replica.Endpoint{URL: "http://" + name + ":8000"})
		if err != nil {
			fmt.Println(err)
			continue
		}
		list[i].Replica = set.Replicas()[0]
	}
	return list
}

// A scorer of one's own: prefer the replica with the most room in its prefix
// cache, but not at any load.
func ExampleWeighted() {
	room := balance.ScorerFunc(func(_ *balance.Request, candidates []balance.Candidate, scores []float64) {
		for i := range candidates {
			if c := &candidates[i]; c.KVTokens > 0 {
				scores[i] = 1 - float64(c.Resident)/float64(c.KVTokens)
			}
		}
	})
	picker := balance.Weighted(
		balance.Weight(balance.InFlight(), 2),
		balance.Weight(room, 1),
	)

	fleet := candidates("a", "b")
	fleet[0].KVTokens, fleet[0].Resident = 400_000, 390_000
	fleet[1].KVTokens, fleet[1].Resident = 400_000, 100_000
	for _, inFlight := range []int{0, 1, 4} {
		fleet[1].InFlight = inFlight
		i, err := picker.Pick(&balance.Request{Session: 1, Home: -1, ParentHome: -1}, fleet)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d in flight on b: %s\n", inFlight, fleet[i].Replica)
	}
	// Output:
	// 0 in flight on b: b:8000
	// 1 in flight on b: b:8000
	// 4 in flight on b: a:8000
}

func ExampleLeastLoaded() {
	picker := balance.LeastLoaded()
	fleet := candidates("a", "b", "c")
	fleet[0].InFlight = 1
	for range 5 {
		i, err := picker.Pick(&balance.Request{Home: -1, ParentHome: -1}, fleet)
		if err != nil {
			fmt.Println(err)
			return
		}
		fleet[i].InFlight++
		fmt.Println(fleet[i].Replica)
	}
	// Output:
	// b:8000
	// c:8000
	// a:8000
	// b:8000
	// c:8000
}

// Requests of one conversation, all at once, on a fleet that is busy: they stay
// on the conversation's replica while it has room, then share the next one.
func ExampleBoundedLoad() {
	picker, err := balance.BoundedLoad(1.25)
	if err != nil {
		fmt.Println(err)
		return
	}
	fleet := candidates("a", "b", "c", "d")
	for i := range fleet {
		fleet[i].InFlight = 4
	}
	request := &balance.Request{Session: 42, Home: -1, ParentHome: -1}
	var chosen []*replica.Replica
	for range 8 {
		i, err := picker.Pick(request, fleet)
		if err != nil {
			fmt.Println(err)
			return
		}
		fleet[i].InFlight++
		chosen = append(chosen, fleet[i].Replica)
	}
	fmt.Println(chosen)

	_, err = balance.BoundedLoad(0.9)
	fmt.Println(err)
	// Output:
	// [b:8000 b:8000 c:8000 b:8000 c:8000 c:8000 b:8000 c:8000]
	// warmroute: factor: "0.9" refused; allowed: a finite number above 1
}

// A conversation whose home has more and more to compute before its next turn:
// 30,000 prompt tokens, 28,000 of them cached at home.
func ExampleSoftAffinity() {
	picker, err := balance.SoftAffinity(0.25)
	if err != nil {
		fmt.Println(err)
		return
	}
	fleet := candidates("home", "other")
	for i := range fleet {
		fleet[i].PrefillRate = 3000
	}
	request := &balance.Request{Session: 42, Home: 0, ParentHome: -1, PromptTokens: 30_000, HomeTokens: 28_000}
	for _, pending := range []int{0, 30_000, 60_000} {
		fleet[0].PendingPrefill = pending
		i, err := picker.Pick(request, fleet)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d tokens pending at home: %s\n", pending, fleet[i].Replica)
	}

	_, err = balance.SoftAffinity(1)
	fmt.Println(err)
	// Output:
	// 0 tokens pending at home: home:8000
	// 30000 tokens pending at home: home:8000
	// 60000 tokens pending at home: other:8000
	// warmroute: margin: "1" refused; allowed: 0 or more and below 1
}
