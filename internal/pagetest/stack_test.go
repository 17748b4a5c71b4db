package pagetest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// stack is a router of two pools of simulated engines, with its pages on a
// server of their own.
type stack struct {
	router *warmroute.Router
	server *httptest.Server
	page   string // its address
}

const prefix = "/debug/warmroute"

// newStack starts engines, router and server. The caches of the second pool
// are too small for what startTraffic brings, so that turns wait.
func newStack(t *testing.T) *stack {
	t.Helper()
	var endpoints []warmroute.Endpoint
	for _, c := range []fakevllm.Config{
		{Model: "llama-3.3-70b", Ranks: 3, PrefillRate: 20_000, StepTime: 12 * time.Millisecond},
		{Model: "llama-3.3-70b", Ranks: 1, PrefillRate: 20_000, StepTime: 12 * time.Millisecond},
		{Model: "qwen3-coder", Ranks: 2, Blocks: 300, PrefillRate: 8_000, StepTime: 20 * time.Millisecond},
	} {
		engine, err := fakevllm.New(c)
		require.NoError(t, err)
		server := httptest.NewServer(engine)
		t.Cleanup(func() {
			assert.NoError(t, engine.Close())
			server.Close()
		})
		endpoints = append(endpoints, warmroute.Endpoint{URL: server.URL, Model: c.Model, Ranks: c.Ranks})
	}
	router, err := warmroute.New(endpoints)
	require.NoError(t, err)
	require.NoError(t, router.Scrape(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, router.Run(context.Background())) })
	t.Cleanup(running.Wait)
	t.Cleanup(func() { assert.NoError(t, router.Close()) })
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, router.Handler()))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &stack{router, server, server.URL + prefix + "/"}
}

// startTraffic keeps conversations going until the test ends.
func (s *stack) startTraffic(t *testing.T) {
	t.Helper()
	client := &http.Client{Transport: s.router.Transport(nil)}
	ctx, cancel := context.WithCancel(context.Background())
	var talking sync.WaitGroup
	t.Cleanup(talking.Wait)
	t.Cleanup(cancel)
	for model, conversations := range map[string]int{"llama-3.3-70b": 12, "qwen3-coder": 10} {
		for i := range conversations {
			talking.Go(func() {
				for round := 0; ctx.Err() == nil; round++ {
					err := converse(ctx, client, model, fmt.Sprintf("%s-%d-%d", model, i, round), 8)
					if ctx.Err() == nil {
						assert.NoError(t, err)
					}
				}
			})
		}
	}
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// converse has a conversation of some turns, each with the whole history.
func converse(ctx context.Context, client *http.Client, model, session string, turns int) error {
	var history []message
	for turn := range turns {
		history = append(history, message{"user", strings.Repeat(fmt.Sprintf("%s turn %d. ", session, turn), 24)})
		body, err := json.Marshal(map[string]any{
			"model": model, "messages": history, "max_tokens": 24, "stream": true,
			"stream_options": map[string]bool{"include_usage": true},
		})
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://router/v1/chat/completions", strings.NewReader(string(body)))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Session-Id", session)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", resp.Status)
		}
		history = append(history, message{"assistant", "Understood."})
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(150 * time.Millisecond):
		}
	}
	return nil
}

// witness watches the same events as the page.
type witness struct {
	mu     sync.Mutex
	events map[uint64]warmroute.Event
}

func (s *stack) watch(t *testing.T) *witness {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.page+"events", nil)
	require.NoError(t, err)
	resp, err := s.server.Client().Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	w := &witness{events: map[uint64]warmroute.Event{}}
	var watching sync.WaitGroup
	watching.Go(func() {
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var e warmroute.Event
			if !assert.NoError(t, json.Unmarshal([]byte(data), &e)) {
				return
			}
			w.mu.Lock()
			w.events[e.Seq] = e
			w.mu.Unlock()
		}
	})
	t.Cleanup(watching.Wait)
	t.Cleanup(cancel)
	return w
}

func (w *witness) event(seq uint64) (warmroute.Event, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.events[seq]
	return e, ok
}
