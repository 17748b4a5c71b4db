package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/bench/internal/minengine"
)

// soak is what is sent.
type soak struct {
	requests, clients, turns, sessions int
}

// sample is what is there when everything stands still.
type sample struct {
	requests    int
	rate        float64 // requests a second since the last one
	heap        uint64  // bytes in use
	goroutines  int
	descriptors int // -1 if not known
	sessions    int
	inFlight    int
	failed      uint64
}

const tenths = 10

// run sends the requests and returns a sample of each tenth.
func (s soak) run(ctx context.Context, stdout io.Writer) (samples []sample, err error) {
	engine, stopEngine, err := serve(&minengine.Engine{FailEvery: 100})
	if err != nil {
		return nil, err
	}
	defer stopEngine()
	router, err := warmroute.New([]warmroute.Endpoint{{URL: engine, Ranks: 1}}, warmroute.WithMaxSessions(s.sessions))
	if err != nil {
		return nil, err
	}
	defer router.Close()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() {
		if e := router.Run(ctx); e != nil && !errors.Is(e, warmroute.ErrClosed) {
			fmt.Fprintln(stdout, "router stopped:", e)
		}
	})
	transport := router.Transport(nil)
	gateway, stopGateway, err := serve(newHandler(router, transport))
	if err != nil {
		return nil, err
	}
	defer stopGateway()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.clients}}
	defer client.CloseIdleConnections()

	fmt.Fprintf(stdout, "%10s %10s %10s %10s %11s %9s %9s %9s\n", "requests", "requests/s", "heap KiB", "goroutines", "descriptors", "sessions", "in flight", "failed")
	var sent atomic.Int64
	for tenth := range tenths {
		began, before := time.Now(), sent.Load()
		goal := int64(s.requests) * int64(tenth+1) / tenths
		if err := s.send(ctx, client, gateway, &sent, goal); err != nil {
			return nil, err
		}
		took := time.Since(began)
		client.CloseIdleConnections()
		transport.CloseIdleConnections()
		now := still(router)
		now.requests = int(goal)
		now.rate = float64(goal-before) / took.Seconds()
		samples = append(samples, now)
		fmt.Fprintf(stdout, "%10d %10.0f %10d %10d %11d %9d %9d %9d\n", now.requests, now.rate, now.heap>>10, now.goroutines, now.descriptors, now.sessions, now.inFlight, now.failed)
	}
	return samples, nil
}

// send has the clients send requests until there are that many in all.
func (s soak) send(ctx context.Context, client *http.Client, url string, sent *atomic.Int64, goal int64) error {
	var all sync.WaitGroup
	failures := make(chan error, s.clients)
	for range s.clients {
		all.Go(func() {
			for {
				n := sent.Add(1)
				if n > goal {
					sent.Add(-1)
					return
				}
				if err := s.ask(ctx, client, url, n); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// ask sends the n-th request. One of seven is not streamed, and one of fifty is
// given up in the middle.
func (s soak) ask(ctx context.Context, client *http.Client, url string, n int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"words"}]}`
	if n%7 == 0 {
		body = strings.Replace(body, "true", "false", 1)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	// As many conversations at a time as clients, each of some turns.
	clients := int64(s.clients)
	req.Header.Set("X-Session-Id", fmt.Sprint("conversation-", n%clients, "-", n/clients/int64(s.turns)))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if n%50 == 0 {
		_, err = io.ReadFull(resp.Body, make([]byte, 10))
		return err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusInternalServerError {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// still waits until nothing goes on, up to a few seconds, and counts.
func still(router *warmroute.Router) (now sample) {
	for range 100 {
		p := router.Stats().Pools[0]
		goroutines := runtime.NumGoroutine()
		time.Sleep(20 * time.Millisecond)
		if p.InFlight == 0 && goroutines == runtime.NumGoroutine() {
			break
		}
	}
	runtime.GC()
	runtime.GC() // what pools keep goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p := router.Stats().Pools[0]
	return sample{
		heap: m.HeapAlloc, goroutines: runtime.NumGoroutine(), descriptors: descriptors(),
		sessions: p.Sessions, inFlight: p.InFlight, failed: p.Requests.Failed,
	}
}

// descriptors is the number of open files, -1 where the system does not tell.
func descriptors() int {
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return -1
	}
	return len(open)
}

// flat returns an error if the last sample has more than the second, by more than
// chance.
func flat(samples []sample) error {
	early, last := samples[1], samples[len(samples)-1]
	switch {
	case last.inFlight != 0:
		return fmt.Errorf("%d requests are in flight when none is", last.inFlight)
	case last.heap > early.heap+early.heap/10+1<<20:
		return fmt.Errorf("the heap has grown from %d to %d bytes", early.heap, last.heap)
	case last.goroutines > early.goroutines+10:
		return fmt.Errorf("goroutines have grown from %d to %d", early.goroutines, last.goroutines)
	case last.descriptors > early.descriptors+10:
		return fmt.Errorf("file descriptors have grown from %d to %d", early.descriptors, last.descriptors)
	}
	return nil
}

// newHandler is the gateway of examples/gateway.
func newHandler(router *warmroute.Router, transport *warmroute.Transport) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetXForwarded()
			r.Out.Host = ""
		},
		Transport:     transport,
		ErrorHandler:  warmroute.ErrorHandler,
		FlushInterval: -1,
	}
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.Handle("/debug/warmroute/", http.StripPrefix("/debug/warmroute", router.Handler()))
	return mux
}

// serve serves on a free port of loopback until stop is called.
func serve(h http.Handler) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		_ = server.Serve(l) // it always returns an error: that it was closed
		close(served)
	}()
	return "http://" + l.Addr().String(), func() {
		_ = server.Close()
		<-served
	}, nil
}
