package selector_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/integrations/selector"
)

// endpointSelector is the interface of some gateway: pick, and done by callback.
type endpointSelector interface {
	Select(ctx context.Context, model string, header http.Header, body []byte) (url string, set http.Header, done func(status int, err error), err error)
}

// warm makes warmroute one of them.
type warm struct{ *selector.Selector }

func (w warm) Select(ctx context.Context, model string, header http.Header, body []byte) (string, http.Header, func(int, error), error) {
	sel, err := w.Selector.Select(ctx, selector.Request{Model: model, Header: header, Body: body})
	if err != nil {
		return "", nil, nil, err
	}
	return sel.URL.String(), sel.Set, func(status int, err error) {
		sel.Done(selector.Outcome{Status: status, Err: err})
	}, nil
}

func Example() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000", Ranks: 2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close() // and "go router.Run(ctx)", so that it reads the engines' metrics

	var gateway endpointSelector = warm{selector.New(router)}
	for range 2 {
		header := http.Header{"X-Session-Id": {"my-conversation"}}
		url, set, done, err := gateway.Select(context.Background(), "", header, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(url, set)
		// ... the gateway sends it there, and at the end of the answer:
		done(http.StatusOK, nil)
	}
	requests := router.Stats().Pools[0].Requests
	fmt.Println("placed", requests.Placed, "sticky", requests.Sticky)
	// Output:
	// http://10.0.0.1:8000/v1/chat/completions map[X-Data-Parallel-Rank:[0]]
	// http://10.0.0.1:8000/v1/chat/completions map[X-Data-Parallel-Rank:[0]]
	// placed 1 sticky 1
}
