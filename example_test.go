package warmroute_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/balance"
)

// answering is an engine that says which rank it was asked for.
func answering() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "rank %s", r.Header.Get("X-Data-Parallel-Rank"))
	}))
}

func ExampleRouter_Transport() {
	engine := answering()
	defer engine.Close()

	router, err := warmroute.New([]warmroute.Endpoint{{URL: engine.URL, Ranks: 4}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	client := &http.Client{Transport: router.Transport(nil)}

	seen := map[string]bool{}
	for range 10 {
		req, _ := http.NewRequest(http.MethodPost, "http://vllm/v1/chat/completions", strings.NewReader("{}"))
		req.Header.Set("X-Session-Id", "my-conversation")
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		seen[string(answer)] = true
	}
	fmt.Println("ranks that saw the conversation:", len(seen))
	// Output: ranks that saw the conversation: 1
}

// A reverse proxy is a gateway with one line more.
func ExampleRouter_Transport_reverseProxy() {
	engine := answering()
	defer engine.Close()
	router, err := warmroute.New([]warmroute.Endpoint{{URL: engine.URL, Ranks: 4}}, warmroute.WithDebugHeaders(true))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()

	gateway := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetXForwarded(); r.Out.Host = "" },
		Transport:    router.Transport(nil),
		ErrorHandler: warmroute.ErrorHandler,
	})
	defer gateway.Close()

	for range 3 {
		req, _ := http.NewRequest(http.MethodGet, gateway.URL+"/v1/models", nil)
		req.Header.Set("X-Session-Id", "my-conversation")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.Header.Get(warmroute.OutcomeHeader))
	}
	// Output:
	// placed
	// sticky
	// sticky
}

// A program that does its own I/O asks where to send a request, and says when
// it is finished.
func ExampleRouter_Route() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000", Ranks: 2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()

	for range 2 {
		lease, err := router.Route(context.Background(), warmroute.Request{Session: "my-conversation"})
		if err != nil {
			fmt.Println(err)
			return
		}
		rank, _ := lease.RankHeader()
		fmt.Println(lease.Outcome(), lease.Replica().URL(), "rank", rank, "in flight", lease.Replica().InFlight())
		// ... send it there; when the answer has begun and is no error:
		lease.Answered()
		// ... and at its end:
		lease.Done(warmroute.Result{Usage: warmroute.Usage{
			Prompt: 5125, Cached: 5120, Completion: 16, Known: true, Measured: true,
		}})
	}
	tokens := router.Stats().Pools[0].Tokens
	fmt.Println("cached", tokens.PromptCached, "computed", tokens.PromptComputed)
	// Output:
	// placed http://10.0.0.1:8000 rank 0 in flight 1
	// sticky http://10.0.0.1:8000 rank 0 in flight 1
	// cached 10240 computed 10
}

// Where the conversations do not all fit into the prefix caches, Route waits for
// room and TryRoute refuses.
func ExampleRouter_TryRoute() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000"}},
		warmroute.WithResidency(8000)) // KV cache tokens; auto takes the engine's own figure
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	turn := func(session string) warmroute.Request {
		return warmroute.Request{Session: session, PromptTokens: 6000, MaxTokens: 500}
	}
	done := func(lease warmroute.Lease) {
		lease.Answered()
		lease.Done(warmroute.Result{Usage: warmroute.Usage{Prompt: 6000, Completion: 500, Known: true, Measured: true}})
	}
	for range 70 { // nobody waits before it is known what turns are like
		lease, err := router.TryRoute(turn(""))
		if err != nil {
			fmt.Println(err)
			return
		}
		done(lease)
	}

	one, err := router.Route(context.Background(), turn("one"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = router.TryRoute(turn("two"))
	fmt.Println(err, errors.Is(err, warmroute.ErrOverloaded))

	go done(one)
	two, err := router.Route(context.Background(), turn("two"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("in flight", two.Replica().InFlight())
	done(two)
	// Output:
	// overloaded: no replica has room true
	// in flight 1
}

// Keys are looked for where your clients put them.
func ExampleWithKey() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000"}},
		warmroute.WithSessionHeader("X-Chat-Id"), // first
		warmroute.WithKey(affinity.First( // then these
			affinity.JSONPath("metadata.chat_id"),
			affinity.Default(),
		)),
	)
	fmt.Println(router != nil, err)
	// Output: true <nil>
}

// Placement by scorers, among them one of your own.
func ExampleWithScorers() {
	even := balance.ScorerFunc(func(_ *balance.Request, candidates []balance.Candidate, scores []float64) {
		for i := range candidates {
			if candidates[i].Replica.Rank()%2 == 0 {
				scores[i] = 1
			}
		}
	})
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000", Ranks: 4}},
		warmroute.WithScorers(balance.Weight(balance.InFlight(), 1), balance.Weight(even, 0.1)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	for range 4 {
		lease, err := router.Route(context.Background(), warmroute.Request{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(lease.Replica().Rank(), " ")
	}
	// Output: 0 2 1 3
}

func ExampleParseEndpoint() {
	e, err := warmroute.ParseEndpoint("http://10.0.0.1:8000,ranks=4,model=qwen3")
	fmt.Printf("%+v %v\n", e, err)
	// Output: http://10.0.0.1:8000,ranks=4,model=qwen3 <nil>
}
