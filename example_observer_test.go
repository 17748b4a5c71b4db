package warmroute_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/warmroute/warmroute"
)

// A program that has its own client and server routes with Inspect, Route,
// Target and Observe, and does all input and output itself.
func ExampleLease_Observe() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000", Ranks: 2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()

	// What came from the client.
	req, err := http.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"stream":true}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("X-Session-Id", "my-conversation")

	route, err := router.Inspect(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err := router.Route(req.Context(), route)
	if err != nil {
		fmt.Println(err)
		return
	}
	target, header := lease.Target(req)
	fmt.Println(target, "rank", header.Get("X-Data-Parallel-Rank"))

	// ... sent there, it is answered:
	answer := lease.Observe(req, http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}})
	for _, piece := range []string{
		`data: {"choices":[{"delta":{"content":"Hello"}}]}` + "\n\n",
		`data: {"choices":[],"usage":{"prompt_tokens":64,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":48}}}` + "\n\n",
		"data: [DONE]\n\n",
	} {
		if _, err := answer.Write([]byte(piece)); err != nil { // and to the client
			fmt.Println(err)
			return
		}
	}
	answer.End(nil)

	pool := router.Stats().Pools[0]
	fmt.Println("in flight", pool.InFlight, "cached", pool.Tokens.PromptCached, "computed", pool.Tokens.PromptComputed)
	// Output:
	// http://10.0.0.1:8000/v1/chat/completions rank 0
	// in flight 0 cached 48 computed 16
}

// What the engine counted is read from the bytes as they pass to the client.
func ExampleObserver_Reader() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "/v1/completions", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err := router.Route(req.Context(), warmroute.Request{Session: "my-conversation"})
	if err != nil {
		fmt.Println(err)
		return
	}

	engine := io.NopCloser(strings.NewReader(`{"usage":{"prompt_tokens":64,"completion_tokens":1}}`))
	answer := lease.Observe(req, http.StatusOK, http.Header{"Content-Type": {"application/json"}}).Reader(engine)
	if _, err := io.Copy(io.Discard, answer); err != nil { // to the client
		fmt.Println(err)
		return
	}
	if err := answer.Close(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("unmeasured", router.Stats().Pools[0].Tokens.UnmeasuredRequests)
	// Output: unmeasured 1
}

// The answer that a client gets when there is no replica for its request.
func ExampleErrorResponse() {
	req, err := http.NewRequest(http.MethodPost, "/v1/messages", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer := warmroute.ErrorResponse(req, warmroute.ErrOverloaded)
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Status, "Retry-After", answer.Header.Get("Retry-After"))
	fmt.Println(string(body))
	// Output:
	// 429 Too Many Requests Retry-After 1
	// {"type":"error","error":{"type":"RateLimitError","message":"Too many requests are waiting. Try again later."}}
}
