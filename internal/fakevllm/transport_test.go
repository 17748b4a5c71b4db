package fakevllm_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

const endless = `{"stream":true,"messages":[{"role":"user","content":"hi"}],"max_tokens":20000}`

func serve(s *fakevllm.Server, method, path, body string) int {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code
}

// closing is a request body that tells whether it has been closed.
type closing struct {
	io.Reader
	closed chan struct{}
}

func (c *closing) Close() error {
	close(c.closed) // A second Close would panic.
	return nil
}

func TestRoundTripContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{})
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("gone"))
		for name, test := range map[string]struct {
			ctx  context.Context
			path string
			fail string
		}{
			"answered": {t.Context(), "/v1/chat/completions", ""},
			"refused":  {t.Context(), "/nowhere", ""},
			"too late": {ended, "/v1/chat/completions", "gone"},
		} {
			r := ask{path: test.path, ctx: test.ctx}.request(t)
			body := &closing{strings.NewReader(bodyFor("")), make(chan struct{})}
			r.Body = body
			header := r.Header.Clone()
			resp, err := s.RoundTrip(r)
			if test.fail != "" {
				assert.Nil(t, resp)
				assert.EqualError(t, err, test.fail)
			} else if assert.NoError(t, err) {
				assert.Same(t, r, resp.Request)
				assert.Equal(t, "HTTP/1.1", resp.Proto)
				assert.EqualValues(t, resp.ContentLength, len(readAll(t, resp)))
			}
			<-body.closed
			assert.Equal(t, header, r.Header, name)
			assert.Same(t, body, r.Body, name)
		}

		_, err := s.RoundTrip(&http.Request{Body: io.NopCloser(strings.NewReader(""))})
		assert.Error(t, err)
	})
}

func TestStreamArrivesAsItIsProduced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{StepTime: time.Second, ContextCost: 1, PrefillRate: 1e9})
		begun := time.Now()
		resp, err := s.RoundTrip(ask{body: `{"stream":true,"messages":[{"role":"user","content":"hi"}],"max_tokens":3}`}.request(t))
		require.NoError(t, err)
		assert.Zero(t, time.Since(begun), "headers come before the engine's first step")
		assert.EqualValues(t, -1, resp.ContentLength)
		var at []int
		in := bufio.NewScanner(resp.Body)
		for in.Scan() {
			if strings.HasPrefix(in.Text(), "data: ") {
				at = append(at, int(time.Since(begun)/time.Second))
			}
		}
		require.NoError(t, in.Err())
		assert.Equal(t, []int{1, 1, 2, 3, 3}, at, "role and first token, second, third, end")
	})
}

func TestCancelFrees(t *testing.T) {
	cancels := map[string]func(resp *http.Response, cancel context.CancelCauseFunc) error{
		"the context ends": func(_ *http.Response, cancel context.CancelCauseFunc) error {
			cancel(io.ErrNoProgress)
			return io.ErrNoProgress
		},
		"the body is closed": func(resp *http.Response, _ context.CancelCauseFunc) error {
			_ = resp.Body.Close()
			return http.ErrBodyReadAfterClose
		},
	}
	for name, cancelBy := range cancels {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, fakevllm.Config{Ranks: 1, MaxNumSeqs: 1})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				resp, err := s.RoundTrip(ask{body: endless, ctx: ctx}.request(t))
				require.NoError(t, err)
				waiting := stream(t, s, ask{body: endless})
				time.Sleep(time.Second)
				c := s.Rank(0)
				assert.Equal(t, 1, c.Running)
				assert.Equal(t, 1, c.Waiting)
				assert.Less(t, c.FreeBlocks, c.Blocks)

				// The one that waits goes first, without a step of its own.
				require.NoError(t, waiting.Body.Close())
				time.Sleep(time.Second)
				c = s.Rank(0)
				assert.Equal(t, 1, c.Running)
				assert.Zero(t, c.Waiting)
				assert.Equal(t, 1, c.Aborted)

				want := cancelBy(resp, cancel)
				time.Sleep(time.Second)
				_, err = io.ReadAll(resp.Body)
				assert.ErrorIs(t, err, want)
				c = s.Rank(0)
				assert.Zero(t, c.Running+c.Waiting)
				assert.Equal(t, 2, c.Aborted)
				assert.Equal(t, c.Blocks, c.FreeBlocks)
				steps := c.Steps
				time.Sleep(time.Hour)
				assert.Equal(t, steps, s.Rank(0).Steps, "an idle rank does not step")
			})
		})
	}
}

func TestCancelBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{Ranks: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.RoundTrip(ask{ctx: ctx, body: `{"messages":[{"role":"user","content":"hi"}],"max_tokens":20000}`}.request(t))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		assert.Equal(t, 1, s.Rank(0).Aborted)

		// A request whose body does not come is no run at all.
		pr, pw := io.Pipe()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := ask{ctx: ctx, body: ""}.request(t)
		r.Body = pr
		_, err = s.RoundTrip(r)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = pw.Write([]byte("{}"))
		assert.ErrorIs(t, err, io.ErrClosedPipe)
		assert.Equal(t, 1, s.Rank(0).Requests)
	})
}

func TestOverASocket(t *testing.T) {
	s := start(t, fakevllm.Config{StepTime: time.Millisecond, ContextCost: 1})
	web := httptest.NewServer(s)
	defer web.Close()
	send := func(body string) *http.Response {
		resp, err := web.Client().Post(web.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		return resp
	}
	socket := masked(readAll(t, send(`{"stream":true,`+fortyMessages+`,"max_tokens":3}`)))
	_, memory := post(t, s, ask{body: `{"stream":true,` + fortyMessages + `,"max_tokens":3}`})
	assert.Equal(t, masked(memory), socket)

	// A client that hangs up ends its run.
	resp := send(endless)
	_, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	web.Close() // Waits for the handler.
	require.NoError(t, s.Close())
	aborted, failed := 0, 0
	for rank := range 4 {
		c := s.Rank(rank)
		aborted += c.Aborted
		failed += c.Failed
		assert.Equal(t, c.Blocks, c.FreeBlocks)
	}
	assert.Equal(t, 1, aborted)
	assert.Zero(t, failed)
}
