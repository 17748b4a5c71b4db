package warmroute_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
)

// TestRoutersThatHashConversationsAgree has two routers, as two gateways are.
func TestRoutersThatHashConversationsAgree(t *testing.T) {
	endpoints := []warmroute.Endpoint{{URL: "http://a"}, {URL: "http://b"}, {URL: "http://c"}, {URL: "http://d"}}
	var routers []*warmroute.Router
	for range 2 {
		r, err := warmroute.New(endpoints, warmroute.WithPicker(balance.Rendezvous), warmroute.WithHashSeed(7))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, r.Close()) })
		routers = append(routers, r)
	}
	used := map[string]bool{}
	for i := range 50 {
		var names [2]string
		for j, r := range routers {
			lease := route(t, r, warmroute.Request{Session: fmt.Sprint("conversation ", i)})
			names[j] = lease.Replica().Name()
			lease.Done(warmroute.Result{})
		}
		assert.Equal(t, names[0], names[1])
		used[names[0]] = true
	}
	assert.Len(t, used, len(endpoints))
}
