package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/bench/internal/minengine"
)

// measured is what a client has seen of a load.
type measured struct {
	first    []time.Duration // from sending a request to its first chunk
	delays   []time.Duration // from the engine's writing a chunk to its arrival
	failures int
	failure  error // one of them
}

// play sends the load and calls full when all streams are open.
func (l load) play(ctx context.Context, url string, full func()) measured {
	transport := &http.Transport{MaxIdleConnsPerHost: l.streams}
	defer transport.CloseIdleConnections()
	var (
		all  sync.WaitGroup
		open atomic.Int64
		mu   sync.Mutex
		out  measured
	)
	for i := range l.streams {
		all.Go(func() {
			timer := time.NewTimer(l.ramp * time.Duration(i) / time.Duration(l.streams))
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
			first, delays, err := l.stream(ctx, transport, url, i, func() {
				if open.Add(1) == int64(l.streams) {
					full()
				}
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				out.failures++
				out.failure = err
				return
			}
			out.first = append(out.first, first)
			out.delays = append(out.delays, delays...)
		})
	}
	all.Wait()
	slices.Sort(out.first)
	slices.Sort(out.delays)
	return out
}

// stream is one of them.
func (l load) stream(ctx context.Context, transport http.RoundTripper, url string, i int, began func()) (first time.Duration, delays []time.Duration, err error) {
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("some words ", 100) + `"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Session-Id", fmt.Sprint("stream-", i))
	sent := time.Now()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	delays = make([]time.Duration, 0, l.chunks)
	done := false
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 1024), 1<<16)
	for lines.Scan() {
		if string(lines.Bytes()) == "data: [DONE]" {
			done = true
		}
		at, ok := minengine.Stamp(lines.Bytes())
		if !ok {
			continue
		}
		now := time.Now()
		if len(delays) == 0 {
			first = now.Sub(sent)
			began()
		}
		delays = append(delays, time.Duration(now.UnixNano()-at))
	}
	switch {
	case lines.Err() != nil:
		return 0, nil, lines.Err()
	case !done || len(delays) != l.chunks:
		return 0, nil, errors.New("the stream is not complete")
	}
	return first, delays, nil
}

// quantile of sorted values, 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
