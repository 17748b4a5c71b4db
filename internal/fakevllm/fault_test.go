package fakevllm_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

const (
	streamed = `{"stream":true,"messages":[{"role":"user","content":"hi"}],"max_tokens":5}`
	whole    = `{"messages":[{"role":"user","content":"hi"}],"max_tokens":5}`
)

// faultCase is what a client sees of a fault.
type faultCase struct {
	fault fakevllm.Fault
	// body is sent; streamed if empty.
	body string
	// status is 0 if there is no answer.
	status int
	has    []string // in the body
	hasNot []string
	// err is met before the answer, or, with a status, in its body.
	err  func(error) bool
	seen int
	run  int
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func says(text string) func(error) bool {
	return func(err error) bool { return err != nil && strings.Contains(err.Error(), text) }
}

func faultCases() map[string]faultCase {
	return map[string]faultCase{
		"none":    {status: 200, has: []string{"data: [DONE]"}, seen: 1, run: 1},
		"refused": {fault: fakevllm.Fault{Kind: fakevllm.Refuse}, err: is(syscall.ECONNREFUSED)},
		"500": {
			fault:  fakevllm.Fault{Kind: fakevllm.Status, Status: 500},
			status: 500, has: []string{`"code":500`}, seen: 1,
		},
		"429": {
			fault:  fakevllm.Fault{Kind: fakevllm.Status, Status: 429, RetryAfter: 1500 * time.Millisecond},
			status: 429, has: []string{`"code":429`}, seen: 1,
		},
		"HTML":            {fault: fakevllm.Fault{Kind: fakevllm.HTML}, status: 200, has: []string{"<html>"}, seen: 1},
		"HTML and 502":    {fault: fakevllm.Fault{Kind: fakevllm.HTML, Status: 502}, status: 502, has: []string{"<html>"}, seen: 1},
		"endless headers": {fault: fakevllm.Fault{Kind: fakevllm.EndlessHeaders}, err: says("response headers exceeded"), seen: 1},
		"error event": {
			fault:  fakevllm.Fault{Kind: fakevllm.ErrorEvent},
			status: 200, has: []string{"is out of range", `"code":400`, "data: [DONE]"}, seen: 1,
		},
		"error event of a dead engine": {
			fault:  fakevllm.Fault{Kind: fakevllm.ErrorEvent, Status: 500},
			status: 200, has: []string{"EngineCore", `"code":500`, "data: [DONE]"}, seen: 1,
		},
		"error of a whole answer": {
			fault: fakevllm.Fault{Kind: fakevllm.ErrorEvent}, body: whole,
			status: 400, has: []string{"is out of range"}, seen: 1,
		},
		"abort": {
			fault:  fakevllm.Fault{Kind: fakevllm.Abort},
			status: 200, has: []string{`"finish_reason":"abort"`, `"content":""`, "data: [DONE]"}, seen: 1,
		},
		"abort of a whole answer": {
			fault: fakevllm.Fault{Kind: fakevllm.Abort}, body: whole,
			status: 200, has: []string{`"finish_reason":"abort"`, `"completion_tokens":0`}, seen: 1,
		},
		"reset early": {fault: fakevllm.Fault{Kind: fakevllm.ResetEarly}, err: is(syscall.ECONNRESET), seen: 1, run: 1},
		"reset early, whole": {
			fault: fakevllm.Fault{Kind: fakevllm.ResetEarly}, body: whole, err: is(syscall.ECONNRESET), seen: 1, run: 1,
		},
		"reset late": {
			fault:  fakevllm.Fault{Kind: fakevllm.ResetLate, After: 3},
			status: 200, hasNot: []string{"[DONE]"}, err: is(syscall.ECONNRESET), seen: 1, run: 1,
		},
		"reset late, whole": {
			fault: fakevllm.Fault{Kind: fakevllm.ResetLate}, body: whole,
			status: 200, hasNot: []string{"usage"}, err: is(syscall.ECONNRESET), seen: 1, run: 1,
		},
		"trickle": {
			fault:  fakevllm.Fault{Kind: fakevllm.Trickle, Every: time.Microsecond},
			status: 200, has: []string{"[DONE]"}, seen: 1, run: 1,
		},
		"no end mark": {
			fault:  fakevllm.Fault{Kind: fakevllm.NoEndMark},
			status: 200, has: []string{`"finish_reason":"length"`}, hasNot: []string{"[DONE]"}, seen: 1, run: 1,
		},
		"length too great": {
			fault: fakevllm.Fault{Kind: fakevllm.WrongLength, After: 10}, body: whole,
			status: 200, has: []string{"usage"}, err: is(io.ErrUnexpectedEOF), seen: 1, run: 1,
		},
		"length too small": {
			fault: fakevllm.Fault{Kind: fakevllm.WrongLength, After: -900}, body: whole,
			status: 200, hasNot: []string{"usage"}, seen: 1, run: 1,
		},
		"length of a stream": {
			fault:  fakevllm.Fault{Kind: fakevllm.WrongLength},
			status: 200, has: []string{"[DONE]"}, err: is(io.ErrUnexpectedEOF), seen: 1, run: 1,
		},
	}
}

// check sends a request through a transport and compares what comes of it.
func (c faultCase) check(t *testing.T, s *fakevllm.Server, base http.RoundTripper, url string) {
	t.Helper()
	body := c.body
	if body == "" {
		body = streamed
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", "one")
	resp, err := base.RoundTrip(req)
	if c.status == 0 {
		require.Error(t, err)
		assert.True(t, c.err(err), "%v", err)
	} else {
		require.NoError(t, err)
		assert.Equal(t, c.status, resp.StatusCode)
		if c.status == 429 {
			assert.Equal(t, "2", resp.Header.Get("Retry-After"), "whole seconds, none too few")
		}
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close())
		if c.err == nil {
			assert.NoError(t, err)
		} else {
			assert.True(t, c.err(err), "%v", err)
		}
		for _, part := range c.has {
			assert.Contains(t, string(got), part)
		}
		for _, part := range c.hasNot {
			assert.NotContains(t, string(got), part)
		}
	}
	assert.Equal(t, fakevllm.Delivery{Seen: c.seen, Run: c.run}, s.Delivery("one"))
}

func TestFaultsInMemory(t *testing.T) {
	for name, test := range faultCases() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, fakevllm.Config{CountHeader: "X-Request-Id"})
				require.NoError(t, s.SetFault(test.fault))
				test.check(t, s, s, "http://sim")
				if test.fault.Kind != fakevllm.Refuse {
					resp, _ := get(t, s, "/health")
					assert.Equal(t, http.StatusOK, resp.StatusCode, "the pages are as they were")
				}
			})
		})
	}
}

func TestFaultsOnASocket(t *testing.T) {
	for name, test := range faultCases() {
		t.Run(name, func(t *testing.T) {
			cfg := fast()
			cfg.CountHeader = "X-Request-Id"
			s := start(t, cfg)
			k, err := s.Listen()
			require.NoError(t, err)
			require.NoError(t, s.SetFault(test.fault))
			base := &http.Transport{}
			test.check(t, s, base, k.URL())
			base.CloseIdleConnections()
			require.NoError(t, s.SetFault(fakevllm.Fault{}))
			require.NoError(t, k.AwaitListening(5*time.Second))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, k.URL()+"/health", nil)
			require.NoError(t, err)
			resp, err := base.RoundTrip(r)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, 200, resp.StatusCode, "the fault has ended")
			base.CloseIdleConnections()
			require.NoError(t, k.Close())
			assert.Eventually(t, func() bool { return k.Connections() == 0 }, 5*time.Second, time.Millisecond)
			_, err = base.RoundTrip(r)
			assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		})
	}
}

func TestFaultsThatAreNone(t *testing.T) {
	s := start(t, fakevllm.Config{})
	require.Error(t, s.SetFault(fakevllm.Fault{Kind: fakevllm.Status}))
	require.Error(t, s.SetFault(fakevllm.Fault{Kind: fakevllm.Status, Status: 200}))
	require.Error(t, s.SetFault(fakevllm.Fault{Kind: "odd"}))
	require.NoError(t, s.SetFault(fakevllm.Fault{Kind: fakevllm.Status, Status: 503, Pages: true}))
	assert.Equal(t, http.StatusServiceUnavailable, serve(s, http.MethodGet, "/metrics", ""))
}

func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{CountHeader: "X-Request-Id"})
		require.NoError(t, s.SetFault(fakevllm.Fault{Kind: fakevllm.Hang}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := s.RoundTrip(ask{body: streamed, ctx: ctx}.request(t))
		require.ErrorIs(t, err, context.DeadlineExceeded)

		failed := make(chan error, 1)
		go func() {
			_, err := s.RoundTrip(ask{body: streamed}.request(t))
			failed <- err
		}()
		time.Sleep(time.Hour)
		require.NoError(t, s.SetFault(fakevllm.Fault{}))
		assert.ErrorIs(t, <-failed, syscall.ECONNRESET)
		chat(t, s, "", 1, user("hi"))
	})
}

func TestWedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{Ranks: 1})
		stream(t, s, ask{body: endless})
		time.Sleep(time.Second)
		require.NoError(t, s.SetFault(fakevllm.Fault{Kind: fakevllm.Wedge}))
		time.Sleep(time.Second) // the step under way ends
		before := s.Rank(0)
		assert.Equal(t, 1, before.Running)
		time.Sleep(time.Hour)
		assert.Equal(t, before, s.Rank(0))
		assert.Equal(t, http.StatusOK, serve(s, http.MethodGet, "/health", ""))
		require.NoError(t, s.SetFault(fakevllm.Fault{}))
		time.Sleep(time.Second)
		assert.Greater(t, s.Rank(0).GenerationTokens, before.GenerationTokens)
	})
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{Ranks: 1})
		conversation := []chatMessage{user(words("long", 100))}
		chat(t, s, "", 5, conversation...)
		require.Positive(t, chat(t, s, "", 5, conversation...).cached)
		resp, err := s.RoundTrip(ask{body: endless}.request(t))
		require.NoError(t, err)
		time.Sleep(time.Second)
		s.Sleep()
		s.Sleep()
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Contains(t, string(got), `"finish_reason":"abort"`)
		_, page := get(t, s, "/metrics")
		assert.Contains(t, page, `sleep_state="awake"} 0.0`)
		assert.Contains(t, page, `sleep_state="weights_offloaded"} 1.0`)
		assert.Equal(t, s.Rank(0).Blocks, s.Rank(0).FreeBlocks)

		done := make(chan reply, 1)
		go func() { done <- chat(t, s, "", 5, conversation...) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 1, s.Rank(0).Waiting, "it waits")
		s.Wake()
		assert.Zero(t, (<-done).cached, "the cache was lost")
		assert.Positive(t, chat(t, s, "", 5, conversation...).cached)
	})
}

func TestComingBackAsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{Ranks: 2})
		s.StartAs(4, "other") // it runs
		chat(t, s, "1", 1, user("hi"))
		s.Stop()
		s.StartAs(3, "other")
		assert.Zero(t, s.Rank(1).Requests)
		assert.Zero(t, s.Rank(3))
		_, page := get(t, s, "/metrics")
		assert.Contains(t, page, `engine="2",model_name="other"`)
		assert.NotContains(t, page, `engine="3"`)
		status, body := post(t, s, ask{body: `{"model":"sim","messages":[{"role":"user","content":"hi"}]}`})
		assert.Equal(t, http.StatusNotFound, status, body)
		status, _ = post(t, s, ask{body: whole, rank: "2"})
		assert.Equal(t, http.StatusOK, status)
		status, _ = post(t, s, ask{body: whole, rank: "3"})
		assert.Equal(t, http.StatusBadRequest, status)
	})
}

func TestFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			s.Flap(ctx, time.Second)
			close(done)
		}()
		time.Sleep(time.Second / 2)
		var down []bool
		for range 6 {
			resp, err := s.RoundTrip(ask{body: streamed}.request(t))
			down = append(down, err != nil)
			if err == nil {
				require.NoError(t, resp.Body.Close())
			} else {
				var op *net.OpError
				require.ErrorAs(t, err, &op)
			}
			time.Sleep(time.Second)
		}
		assert.Equal(t, []bool{true, false, true, false, true, false}, down)
		cancel()
		<-done
		chat(t, s, "", 1, user("hi"))
	})
}

func TestStopResetsSockets(t *testing.T) {
	s := start(t, fakevllm.Config{})
	k, err := s.Listen()
	require.NoError(t, err)
	defer k.Close()
	base := &http.Transport{}
	r := ask{body: endless}.request(t)
	r.URL.Host = strings.TrimPrefix(k.URL(), "http://")
	resp, err := base.RoundTrip(r)
	require.NoError(t, err)
	s.Stop()
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.NoError(t, resp.Body.Close())
	assert.False(t, k.Listening())
	s.Start()
	require.NoError(t, k.AwaitListening(5*time.Second))
}
