package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/warmroute/warmroute"
	gateway "github.com/warmroute/warmroute/integrations/echo"
)

func ExampleNew() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "rank ", r.Header.Get("X-Data-Parallel-Rank"))
	}))
	defer engine.Close()
	router, err := warmroute.New([]warmroute.Endpoint{{URL: engine.URL, Ranks: 4}}, warmroute.WithDebugHeaders(true))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close() // and "go router.Run(ctx)", so that it reads the engines' metrics

	server := httptest.NewServer(gateway.New(router, 64<<20)) // in a program: http.Server
	defer server.Close()
	for range 3 {
		req, err := http.NewRequest(http.MethodPost, server.URL+"/v1/chat/completions", strings.NewReader("{}"))
		if err != nil {
			fmt.Println(err)
			return
		}
		req.Header.Set("X-Session-Id", "my-conversation")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode, resp.Header.Get(warmroute.OutcomeHeader))
	}
	// Output:
	// 200 placed
	// 200 sticky
	// 200 sticky
}
