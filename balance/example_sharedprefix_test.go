package balance_test

import (
	"fmt"

	"github.com/warmroute/warmroute/balance"
)

// A system prompt of 8 KB that one replica has served to others. As one of many
// it draws a new conversation there, but not at any load; as everybody's it draws
// nobody, so that the others come to have it too.
func ExampleSharedPrefix() {
	picker := balance.Weighted(
		balance.Weight(balance.InFlight(), 4),
		balance.Weight(balance.Sessions(), 1),
		balance.Weight(balance.SharedPrefix(), 3),
	)
	for _, share := range []float64{0.2, 1} {
		for _, inFlight := range []int{0, 2, 3} {
			fleet := candidates("a", "b", "c", "d")
			fleet[3].SharedTokens, fleet[3].Family = 2048, 5
			fleet[3].InFlight, fleet[3].Sessions = inFlight, 2
			request := &balance.Request{Session: 1, Home: -1, ParentHome: -1, FamilyShare: share}
			i, err := picker.Pick(request, fleet)
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Printf("%.0f %% of the conversations, %d in flight on d: %s\n", share*100, inFlight, fleet[i].Replica)
		}
	}
	// Output:
	// 20 % of the conversations, 0 in flight on d: d:8000
	// 20 % of the conversations, 2 in flight on d: d:8000
	// 20 % of the conversations, 3 in flight on d: a:8000
	// 100 % of the conversations, 0 in flight on d: a:8000
	// 100 % of the conversations, 2 in flight on d: a:8000
	// 100 % of the conversations, 3 in flight on d: a:8000
}
