package health_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/health"
	"github.com/warmroute/warmroute/replica"
)

// watched is a fleet under a monitor in virtual time, and a network in which what
// is asked for by URL answers with a status and a body.
type watched struct {
	*testing.T
	set     *replica.Set
	monitor *health.Monitor

	mu       sync.Mutex
	answers  map[string]answer
	asked    map[string][]time.Duration // since the start
	begun    time.Time
	events   []event
	unusable map[string]bool
}

// answer is what a URL answers with; 0 is a connection that is refused, below 0
// none until the request ends.
type answer struct {
	status int
	body   string
}

// event is a change of what is found.
type event struct {
	after  time.Duration
	name   string
	state  replica.State
	reason string
}

func (w *watched) Replicas() []*replica.Replica { return w.set.Replicas() }

func (w *watched) Usable(r *replica.Replica) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.unusable[r.Name()] && !r.Draining()
}

func (w *watched) Found(r *replica.Replica, before, now replica.Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.NotEqual(w, before, now)
	w.events = append(w.events, event{time.Since(w.begun), r.Name(), now.State, now.Reason})
}

func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	url := r.URL.String()
	w.mu.Lock()
	a, ok := w.answers[url]
	w.asked[url] = append(w.asked[url], time.Since(w.begun))
	w.mu.Unlock()
	switch {
	case !ok || a.status == 0:
		return nil, errors.New("connection refused")
	case a.status < 0:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

func (w *watched) answer(url string, status int, body string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[url] = answer{status, body}
}

// page has the exporter of host a show lines.
func (w *watched) page(lines ...string) {
	w.answer("http://a:9400/metrics", http.StatusOK, strings.Join(lines, "\n")+"\n")
}

// state is that of a replica, with the reason for it.
func (w *watched) state(name string) (replica.State, string) {
	w.Helper()
	for _, r := range w.set.Replicas() {
		if r.Name() == name {
			f := r.Finding()
			return r.State(time.Now()), f.Reason
		}
	}
	require.Fail(w, "no such replica", name)
	return "", ""
}

// is asserts the state of a replica when all that happens by then has happened.
func (w *watched) is(name string, want replica.State, reason string) {
	w.Helper()
	synctest.Wait()
	state, why := w.state(name)
	assert.Equal(w, want, state, why)
	assert.Equal(w, reason, why)
}

func (w *watched) seen() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]event(nil), w.events...)
}

// watch runs a test beside a monitor of the given endpoints. The configuration's
// clients and jitter are those of the test.
func watch(t *testing.T, cfg health.Config, endpoints []replica.Endpoint, test func(w *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		set, err := replica.NewSet(endpoints...)
		require.NoError(t, err)
		w := &watched{T: t, set: set, answers: map[string]answer{}, asked: map[string][]time.Duration{}, unusable: map[string]bool{}, begun: time.Now().Add(time.Millisecond)}
		client := &http.Client{Transport: w}
		if cfg.Probe != nil {
			p := *cfg.Probe
			p.Client, cfg.Probe = client, &p
		}
		if cfg.DCGM != nil {
			d := *cfg.DCGM
			d.Client, cfg.DCGM = client, &d
		}
		cfg.Jitter = func() float64 { return 0.5 }
		w.monitor, err = health.New(cfg)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			time.Sleep(time.Millisecond) // the test says first what is there
			done <- w.monitor.Run(ctx, w)
		}()
		test(w)
		cancel()
		require.NoError(t, <-done)
		for _, r := range set.Replicas() {
			assert.Equal(t, replica.Up, r.Finding().State, "what was found is taken back")
		}
		assert.Equal(t, health.Status{}, w.monitor.Status())
	})
}

// two are the endpoints of two hosts, of which the exporter shows the first.
func two() []replica.Endpoint {
	return []replica.Endpoint{{URL: "http://a:8000"}, {URL: "http://b:8000"}}
}

func dcgm() health.Config {
	return health.Config{DCGM: &health.DCGM{GPUs: []health.GPUs{{Exporter: "http://a:9400"}}}}
}
