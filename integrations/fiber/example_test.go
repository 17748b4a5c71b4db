package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gofiber/fiber/v3"

	"github.com/warmroute/warmroute"
	gateway "github.com/warmroute/warmroute/integrations/fiber"
)

// A fiber.App of your own sends what it likes to the replicas.
func ExampleHandler() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "rank ", r.Header.Get("X-Data-Parallel-Rank"))
	}))
	defer engine.Close()
	router, err := warmroute.New([]warmroute.Endpoint{{URL: engine.URL, Ranks: 4}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close() // and "go router.Run(ctx)", so that it reads the engines' metrics

	app := fiber.New(fiber.Config{BodyLimit: 64 << 20, ErrorHandler: gateway.ErrorHandler})
	app.All("/v1/*", gateway.Handler(router, gateway.NewClient()))

	for range 3 {
		req := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader("{}"))
		req.Header.Set("X-Session-Id", "my-conversation")
		resp, err := app.Test(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	requests := router.Stats().Pools[0].Requests
	fmt.Println("placed", requests.Placed, "sticky", requests.Sticky)
	// Output:
	// 200
	// 200
	// 200
	// placed 1 sticky 2
}
