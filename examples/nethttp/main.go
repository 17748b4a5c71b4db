// Nethttp wraps an http.Client, so that the turns of each conversation go to
// one replica.
//
//	go run ./examples/nethttp http://10.0.0.1:8000 http://10.0.0.2:8000
//
// Without an engine it talks to a simulated one in memory.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, urls []string, out io.Writer) error {
	var base http.RoundTripper // nil: a transport made for engines
	var options []warmroute.Option
	if len(urls) == 0 {
		engine, err := fakevllm.New(fakevllm.Config{Ranks: 4})
		if err != nil {
			return err
		}
		defer engine.Close()
		base, urls = engine, []string{"http://simulated"}
		options = append(options, warmroute.WithScrapeClient(&http.Client{Transport: engine}))
	}
	var endpoints []warmroute.Endpoint
	for _, u := range urls {
		endpoints = append(endpoints, warmroute.Endpoint{URL: u})
	}
	router, err := warmroute.New(endpoints, options...)
	if err != nil {
		return err
	}
	defer router.Close()
	if err := router.Scrape(ctx); err != nil { // finds the ranks; without it one replica each
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go router.Run(ctx) //nolint:errcheck // ends with ctx

	// From here on it is any HTTP client. The host of the URL does not matter.
	client := &http.Client{Transport: router.Transport(base)}
	for turn := range 3 {
		for conversation := range 4 {
			if err := ask(warmroute.WithSession(ctx, fmt.Sprint("conversation-", conversation)), client, turn); err != nil {
				return err
			}
		}
	}

	pool := router.Stats().Pools[0]
	fmt.Fprintf(out, "placed %d, sticky %d\n", pool.Requests.Placed, pool.Requests.Sticky)
	for _, r := range pool.Replicas {
		fmt.Fprintf(out, "%s: %d conversation(s)\n", r.Name, r.Sessions)
	}
	return nil
}

func ask(ctx context.Context, client *http.Client, turn int) error {
	body, err := json.Marshal(map[string]any{
		"model": "sim", "max_tokens": 4,
		"messages": []map[string]string{{"role": "user", "content": strings.Repeat("Tell me more. ", turn+1)}},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://vllm/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return nil
}
