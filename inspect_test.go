package warmroute_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
)

// unread fails a test that reads it.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) { u.t.Error("the body was read"); return 0, io.EOF }
func (u unread) Close() error             { return nil }

func TestInspect(t *testing.T) {
	const chat = `{"model":"m","priority":3,"messages":[],"metadata":{"user_id":"user_1_account__session_ab-12"}}`
	tests := []struct {
		name   string
		header http.Header
		body   string
		opts   []warmroute.Option
		want   warmroute.Request
	}{
		{name: "key in a header", header: http.Header{"X-Session-Id": {"s"}}, body: chat, want: warmroute.Request{Session: "s"}},
		{name: "key in the body", body: chat, want: warmroute.Request{Session: "ab-12"}},
		{name: "sub-agent", header: http.Header{"X-Claude-Code-Session-Id": {"s"}, "X-Claude-Code-Agent-Id": {"a"}},
			want: warmroute.Request{Session: "s/a", Parent: "s"}},
		{name: "rank", header: http.Header{"X-Session-Id": {"s"}, "x-data-parallel-rank": {"2"}},
			want: warmroute.Request{Session: "s", ClientRank: "2"}},
		{name: "model, tenant and priority", header: http.Header{"X-Session-Id": {"s"}, "Authorization": {"k"}}, body: chat,
			opts: []warmroute.Option{
				warmroute.WithPool("m"), warmroute.WithTenant(affinity.Header("Authorization")), warmroute.WithRequestPriority(true),
			},
			want: warmroute.Request{Session: "s", Model: "m", Tenant: "k", Priority: 3}},
		{name: "no wish for usage", header: http.Header{"X-Session-Id": {"s"}}, body: `{"stream":true}`,
			opts: []warmroute.Option{warmroute.WithStreamUsage(true)}, want: warmroute.Request{Session: "s"}},
		{name: "nothing", want: warmroute.Request{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			endpoints := four()
			if test.want.Model != "" {
				endpoints = append(endpoints, warmroute.Endpoint{URL: "http://b", Model: test.want.Model})
			}
			router := newRouter(t, endpoints, test.opts...)
			req := post(t, strings.NewReader(test.body))
			if test.header != nil {
				req.Header = test.header
			}
			got, err := router.Inspect(req)
			require.NoError(t, err)
			assert.Equal(t, test.want.Session, got.Session)
			assert.Equal(t, test.want.Parent, got.Parent)
			assert.Equal(t, test.want.ClientRank, got.ClientRank)
			assert.Equal(t, test.want.Model, got.Model)
			assert.Equal(t, test.want.Tenant, got.Tenant)
			assert.Equal(t, test.want.Priority, got.Priority)
			if test.body != "" {
				assert.Equal(t, len(test.body)/4, got.PromptTokens)
			}
			body, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			assert.Equal(t, test.body, string(body), "what was read is put back")
			require.NoError(t, req.Body.Close())
		})
	}
}

func TestInspectReadsNoBodyItDoesNotNeed(t *testing.T) {
	router := newRouter(t, four())
	req := post(t, nil)
	req.Body, req.ContentLength = unread{t}, 100
	req.Header.Set("X-Session-Id", "s")
	got, err := router.Inspect(req)
	require.NoError(t, err)
	assert.Equal(t, "s", got.Session)

	req = post(t, nil)
	req.Body, req.ContentLength = nil, 0
	got, err = router.Inspect(req)
	require.NoError(t, err)
	assert.Empty(t, got.Session)
	assert.Nil(t, req.Body)

	req.Body = unread{t}
	got, err = router.Inspect(req.WithContext(warmroute.WithSession(t.Context(), "named")))
	require.NoError(t, err)
	assert.Equal(t, "named", got.Session)
}

func TestInspectErrors(t *testing.T) {
	router := newRouter(t, four())
	_, err := router.Inspect(&http.Request{})
	require.Error(t, err)

	cause := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err = router.Inspect(post(t, nil).WithContext(ctx))
	require.ErrorIs(t, err, cause)

	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		defer w.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			_, _ = w.Write([]byte(`{"model":`))
			synctest.Wait()
			cancel(cause)
		}()
		_, err := router.Inspect(post(t, r).WithContext(ctx))
		require.ErrorIs(t, err, cause)
		synctest.Wait()
		_, err = w.Write([]byte("x"))
		assert.ErrorIs(t, err, io.ErrClosedPipe, "the body is closed")
	})
}

func TestTarget(t *testing.T) {
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a:1/base", Ranks: 2}})
	req := post(t, nil)
	req.URL.RawQuery = "beta=true"
	req.Header = http.Header{"X-Data-Parallel-Rank": {"1"}, "x-data-parallel-rank": {"0"}, "Accept": {"*/*"}}
	before := req.Header.Clone()

	lease := route(t, router, warmroute.Request{ClientRank: "1"})
	defer lease.Done(warmroute.Result{NoTokens: true})
	target, header := lease.Target(req)
	assert.Equal(t, "http://a:1/base/v1/chat/completions?beta=true", target.String())
	assert.Equal(t, http.Header{"X-Data-Parallel-Rank": {"1"}, "Accept": {"*/*"}}, header)
	assert.Equal(t, before, req.Header, "the request is not changed")

	single := newRouter(t, at("http://b"))
	lone := route(t, single, warmroute.Request{})
	defer lone.Done(warmroute.Result{NoTokens: true})
	_, header = lone.Target(req)
	assert.Equal(t, http.Header{"Accept": {"*/*"}}, header, "a single rank gets no header")

	target, header = warmroute.Lease{}.Target(req)
	assert.Equal(t, req.URL, target)
	assert.Equal(t, req.Header, header)
}
