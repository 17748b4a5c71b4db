package extproc_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/integrations/extproc"
	"github.com/warmroute/warmroute/internal/gatewaytest"
	"github.com/warmroute/warmroute/replica"
)

// fixture is a processor, and Envoy's end of one stream to it.
type fixture struct {
	t      *testing.T
	router *warmroute.Router
	*conversation
	cancel context.CancelFunc
}

func newFixture(t *testing.T, cfg extproc.Config, request, response mode, opts ...warmroute.Option) *fixture {
	t.Helper()
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000/base", Ranks: 2}, {URL: "http://10.0.0.2", Ranks: 1}}, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, router.Close()) })
	f := &fixture{t: t, router: router}
	client := dial(t, router, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	f.cancel = cancel
	stream, err := client.Process(ctx)
	require.NoError(t, err)
	f.conversation = &conversation{stream: stream, config: &extprocv3.ProtocolConfiguration{RequestBodyMode: request, ResponseBodyMode: response}}
	return f
}

func (f *fixture) pool() warmroute.PoolStats { return f.router.Stats().Pools[0] }

// answer sends a message and returns the answer to it.
func (f *fixture) answer(m *extprocv3.ProcessingRequest) *extprocv3.ProcessingResponse {
	f.t.Helper()
	got, err := f.ask(m)
	require.NoError(f.t, err)
	return got
}

// post is the headers of a turn.
func post(t *testing.T, session string) *extprocv3.ProcessingRequest {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/v1/chat/completions?x=1", strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if session != "" {
		req.Header.Set("X-Session-Id", session)
	}
	return requestHeaders(req)
}

// mutated is what the mutation sets.
func mutated(m *extprocv3.HeaderMutation) map[string]string {
	set := map[string]string{}
	for _, h := range m.GetSetHeaders() {
		if h.GetAppendAction() == corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			set[h.GetHeader().GetKey()] = string(h.GetHeader().GetRawValue())
		}
	}
	return set
}

func (f *fixture) idle() {
	f.t.Helper()
	gatewaytest.Eventually(f.t, "nothing is in flight", func() bool { return f.pool().InFlight == 0 })
}

const usageLine = `data: {"choices":[],"usage":{"prompt_tokens":64,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":48}}}` + "\n\n"

// TestChoice looks at what Envoy is told, and that the usage is read.
func TestChoice(t *testing.T) {
	f := newFixture(t, extproc.Config{}, filterv3.ProcessingMode_NONE, filterv3.ProcessingMode_STREAMED)
	m := post(t, "s")
	m.GetRequestHeaders().Headers.Headers = append(m.GetRequestHeaders().Headers.Headers,
		&corev3.HeaderValue{Key: "x-data-parallel-rank", Value: "1"},
		&corev3.HeaderValue{Key: "x-gateway-destination-endpoint", RawValue: []byte("169.254.169.254:80")})
	got := f.answer(m)
	want := map[string]string{
		"x-gateway-destination-endpoint": "10.0.0.1:8000", "x-data-parallel-rank": "1", ":path": "/base/v1/chat/completions?x=1",
	}
	assert.Equal(t, want, mutated(got.GetRequestHeaders().GetResponse().GetHeaderMutation()))
	lb := got.GetDynamicMetadata().GetFields()["envoy.lb"].GetStructValue().GetFields()
	assert.Equal(t, "10.0.0.1:8000", lb["x-gateway-destination-endpoint"].GetStringValue())
	assert.Equal(t, 1, f.pool().InFlight)

	f.answer(responseHeaders(200, http.Header{"Content-Type": {"text/event-stream"}}, false))
	f.answer(responseBody([]byte(usageLine[:20]), false))
	f.answer(responseBody([]byte(usageLine[20:]+"data: [DONE]\n\n"), true))
	f.idle()
	require.NoError(t, f.stream.CloseSend())
	_, err := f.stream.Recv()
	require.ErrorIs(t, err, io.EOF)
	pool := f.pool()
	assert.Equal(t, uint64(48), pool.Tokens.PromptCached)
	assert.Equal(t, uint64(16), pool.Tokens.PromptComputed)
	assert.Equal(t, uint64(3), pool.Tokens.Completion)
	assert.Equal(t, uint64(1), pool.Requests.Pinned)
}

// TestNoRank has a client's rank removed where a server has a single one.
func TestNoRank(t *testing.T) {
	f := newFixture(t, extproc.Config{}, filterv3.ProcessingMode_NONE, filterv3.ProcessingMode_STREAMED, warmroute.WithClientRank(warmroute.DropClientRank))
	require.NoError(t, f.router.Drain("http://10.0.0.1:8000/base"))
	m := post(t, "s")
	m.GetRequestHeaders().Headers.Headers = append(m.GetRequestHeaders().Headers.Headers, &corev3.HeaderValue{Key: "x-data-parallel-rank", Value: "1"})
	got := f.answer(m).GetRequestHeaders().GetResponse().GetHeaderMutation()
	assert.Equal(t, map[string]string{"x-gateway-destination-endpoint": "10.0.0.2:80"}, mutated(got))
	assert.Equal(t, []string{"x-data-parallel-rank"}, got.GetRemoveHeaders())
}

// TestEnds has the lease end once, however the exchange does.
func TestEnds(t *testing.T) {
	type end struct {
		failed, unreachable bool
		unmeasured          uint64
	}
	begin := func(f *fixture) {
		f.answer(responseHeaders(200, http.Header{"Content-Type": {"text/event-stream"}}, false))
		f.answer(responseBody([]byte("data: {}\n\n"), false))
	}
	closes := func(f *fixture) { require.NoError(f.t, f.stream.CloseSend()) }
	for name, test := range map[string]struct {
		response mode
		end      func(f *fixture)
		want     end
	}{
		"closed before the answer":                    {filterv3.ProcessingMode_STREAMED, closes, end{}},
		"broken before the answer":                    {filterv3.ProcessingMode_STREAMED, func(f *fixture) { f.cancel() }, end{}},
		"closed in the answer":                        {filterv3.ProcessingMode_STREAMED, func(f *fixture) { begin(f); closes(f) }, end{}},
		"broken in the answer":                        {filterv3.ProcessingMode_STREAMED, func(f *fixture) { begin(f); f.cancel() }, end{}},
		"trailers end the answer before its end mark": {filterv3.ProcessingMode_STREAMED, func(f *fixture) { begin(f); f.answer(trailers()) }, end{failed: true}},
		"the body is not shown":                       {filterv3.ProcessingMode_NONE, func(f *fixture) { f.answer(responseHeaders(200, nil, false)); closes(f) }, end{unmeasured: 1}},
		"an answer without a body":                    {filterv3.ProcessingMode_STREAMED, func(f *fixture) { f.answer(responseHeaders(200, nil, true)) }, end{unmeasured: 1}},
		"a status of 500":                             {filterv3.ProcessingMode_STREAMED, func(f *fixture) { f.answer(responseHeaders(500, nil, true)) }, end{failed: true}},
		"a status of 400":                             {filterv3.ProcessingMode_STREAMED, func(f *fixture) { f.answer(responseHeaders(400, nil, true)) }, end{}},
		"no connection":                               {filterv3.ProcessingMode_STREAMED, func(f *fixture) { f.refused(503, local(refusedConnection)) }, end{failed: true, unreachable: true}},
		"the engine took too long":                    {filterv3.ProcessingMode_STREAMED, func(f *fixture) { f.refused(504, local("response_timeout")) }, end{failed: true}},
		"the engine broke off": {filterv3.ProcessingMode_STREAMED, func(f *fixture) {
			f.refused(502, local("upstream_reset_before_response_started{connection_termination}"))
		}, end{failed: true}},
		"the client took too long": {filterv3.ProcessingMode_STREAMED, func(f *fixture) { f.answer(local("request_overall_timeout")) }, end{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, extproc.Config{}, filterv3.ProcessingMode_NONE, test.response)
			f.answer(post(t, "s"))
			assert.Equal(t, 1, f.pool().InFlight)
			test.end(f)
			f.idle()
			f.cancel()
			pool := f.pool()
			assert.Equal(t, test.want.failed, pool.Requests.Failed == 1)
			assert.Equal(t, test.want.unmeasured, pool.Tokens.UnmeasuredRequests)
			unreachable := 0
			for _, r := range pool.Replicas {
				if r.State == replica.Down {
					unreachable++
				}
			}
			assert.Equal(t, test.want.unreachable, unreachable > 0)
		})
	}
}

const refusedConnection = "upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}"

func trailers() *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocv3.HttpTrailers{}}}
}

// local is an answer of Envoy's own.
func local(details string) *extprocv3.ProcessingRequest {
	m := responseHeaders(503, http.Header{"Content-Type": {"text/plain"}}, false)
	m.Attributes = map[string]*structpb.Struct{"envoy.filters.http.ext_proc": {Fields: map[string]*structpb.Value{
		"response.code_details": structpb.NewStringValue(details),
	}}}
	return m
}

// refused has the message answered with an immediate response of that status.
func (f *fixture) refused(want int, m *extprocv3.ProcessingRequest) {
	f.t.Helper()
	now := f.answer(m).GetImmediateResponse()
	require.NotNil(f.t, now)
	assert.Equal(f.t, want, int(now.GetStatus().GetCode()))
	assert.Contains(f.t, string(now.GetBody()), `"error"`)
	assert.NotContains(f.t, string(now.GetBody()), "connection_", "that is the operator's business")
	_, err := f.stream.Recv()
	require.ErrorIs(f.t, err, io.EOF)
}

// TestProtocol has what is out of order refused, and what is no request of ours
// passed.
func TestProtocol(t *testing.T) {
	bad := func(path string) *extprocv3.ProcessingRequest {
		m := post(t, "s")
		for _, h := range m.GetRequestHeaders().GetHeaders().GetHeaders() {
			if h.GetKey() == ":path" {
				h.RawValue = []byte(path)
			}
		}
		return m
	}
	statusless := responseHeaders(200, nil, true)
	statusless.GetResponseHeaders().Headers = nil
	observed := post(t, "s")
	observed.ObservabilityMode = true
	for name, test := range map[string]struct {
		send []*extprocv3.ProcessingRequest
		want codes.Code
	}{
		"a body first":           {[]*extprocv3.ProcessingRequest{requestBody(nil, true)}, codes.InvalidArgument},
		"headers twice":          {[]*extprocv3.ProcessingRequest{post(t, "s"), post(t, "s")}, codes.InvalidArgument},
		"nothing":                {[]*extprocv3.ProcessingRequest{{}}, codes.InvalidArgument},
		"no path":                {[]*extprocv3.ProcessingRequest{bad("")}, codes.InvalidArgument},
		"observability mode":     {[]*extprocv3.ProcessingRequest{observed}, codes.FailedPrecondition},
		"an answer of no status": {[]*extprocv3.ProcessingRequest{post(t, "s"), statusless}, codes.InvalidArgument},
		"an answer of another filter's": {[]*extprocv3.ProcessingRequest{
			responseHeaders(401, nil, false), responseBody([]byte("no"), true),
		}, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, extproc.Config{}, filterv3.ProcessingMode_NONE, filterv3.ProcessingMode_STREAMED)
			var err error
			for _, m := range test.send {
				if _, err = f.ask(m); err != nil {
					break
				}
			}
			assert.Equal(t, test.want, status.Code(err), "%v", err)
			require.NoError(t, f.stream.CloseSend())
			f.idle()
		})
	}
}

// crowd has the only place taken and the queue used, as turns are when all are
// known to be large; free gives the place back.
func crowd(t *testing.T, router *warmroute.Router) (free func()) {
	t.Helper()
	large := warmroute.Request{PromptTokens: 900, MaxTokens: 50}
	usage := warmroute.Usage{Prompt: 900, Completion: 50, Known: true, Measured: true}
	for range 70 { // nobody waits before it is known what turns are like
		lease, err := router.Route(t.Context(), large)
		require.NoError(t, err)
		lease.Answered()
		lease.Done(warmroute.Result{Usage: usage})
	}
	var held []warmroute.Lease
	for range 3 { // replicas
		large.Session += "holds a room "
		lease, err := router.Route(t.Context(), large)
		require.NoError(t, err)
		held = append(held, lease)
	}
	return func() {
		for _, lease := range held {
			lease.Done(warmroute.Result{Usage: usage})
		}
	}
}

// longPost is the headers of a turn that needs a room.
func longPost(t *testing.T) *extprocv3.ProcessingRequest {
	m := post(t, "waits")
	for _, h := range m.GetRequestHeaders().GetHeaders().GetHeaders() {
		if h.GetKey() == "content-length" {
			h.RawValue = []byte("3600")
		}
	}
	return m
}

// TestWaits has a turn wait for room no longer than Envoy does.
func TestWaits(t *testing.T) {
	const soon = 40 * time.Millisecond
	t.Run("message timeout", func(t *testing.T) {
		f := newFixture(t, extproc.Config{MessageTimeout: soon}, filterv3.ProcessingMode_NONE, filterv3.ProcessingMode_STREAMED, warmroute.WithResidency(1000))
		defer crowd(t, f.router)()
		now := f.answer(longPost(t)).GetImmediateResponse()
		require.NotNil(t, now)
		assert.Equal(t, 429, int(now.GetStatus().GetCode()))
		assert.Equal(t, map[string]string{"content-type": "application/json", "retry-after": "1"}, mutated(now.GetHeaders()))
		assert.Zero(t, f.pool().Queue.Waiting)
	})
	t.Run("patience is asked for", func(t *testing.T) {
		f := newFixture(t, extproc.Config{MessageTimeout: soon, MaxMessageTimeout: time.Minute}, filterv3.ProcessingMode_NONE, filterv3.ProcessingMode_STREAMED, warmroute.WithResidency(1000))
		free := crowd(t, f.router)
		require.NoError(t, f.send(longPost(t)))
		m, err := f.stream.Recv()
		require.NoError(t, err)
		assert.Equal(t, time.Minute, m.GetOverrideMessageTimeout().AsDuration())
		assert.Nil(t, m.GetResponse())
		free()
		m, err = f.stream.Recv()
		require.NoError(t, err)
		assert.NotEmpty(t, mutated(m.GetRequestHeaders().GetResponse().GetHeaderMutation()))
	})
	for name, leave := range map[string]func(*fixture){
		"closed": func(f *fixture) { require.NoError(f.t, f.stream.CloseSend()) },
		"broken": func(f *fixture) { f.cancel() },
	} {
		t.Run("full duplex waits until it is "+name, func(t *testing.T) {
			f := newFixture(t, extproc.Config{MessageTimeout: soon}, filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, warmroute.WithResidency(1000))
			free := crowd(t, f.router)
			before := f.pool().InFlight
			require.NoError(t, f.send(longPost(t)))
			require.NoError(t, f.send(requestBody([]byte(`{"stream":`), false)))
			gatewaytest.Eventually(t, "it waits", func() bool { return f.pool().Queue.Waiting == 1 })
			leave(f)
			gatewaytest.Eventually(t, "it does not wait any more", func() bool { return f.pool().Queue.Waiting == 0 })
			assert.Equal(t, before, f.pool().InFlight)
			free()
			f.idle()
		})
	}
}

// TestDuplexOrder has the headers answered before the pieces, and those as they came.
func TestDuplexOrder(t *testing.T) {
	f := newFixture(t, extproc.Config{}, filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, filterv3.ProcessingMode_FULL_DUPLEX_STREAMED)
	require.NoError(t, f.send(post(t, ""))) // known by its body alone
	pieces := []string{`{"metadata":{"user_id":"user_a_account_b_sess`, `ion_0a1b2c3d-0000-4000-8000-000000000000"},`, `"model":"m"}`, ""}
	for i, p := range pieces {
		require.NoError(t, f.send(requestBody([]byte(p), i == len(pieces)-1)))
	}
	m, err := f.receive()
	require.NoError(t, err)
	require.NotEmpty(t, mutated(m.GetRequestHeaders().GetResponse().GetHeaderMutation()))
	for i, p := range pieces {
		m, err := f.receive()
		require.NoError(t, err)
		got := m.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		assert.Equal(t, p, string(got.GetBody()))
		assert.Equal(t, i == len(pieces)-1, got.GetEndOfStream())
	}
	assert.Equal(t, uint64(1), f.pool().Requests.Placed, "not unkeyed")
}

func TestConfig(t *testing.T) {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://127.0.0.1:9"}})
	require.NoError(t, err)
	defer router.Close()
	for want, cfg := range map[string]extproc.Config{
		"destination header":  {DestinationHeader: "a b"},
		"message timeout":     {MessageTimeout: time.Millisecond},
		"max message timeout": {MaxMessageTimeout: 100 * time.Millisecond},
	} {
		_, err := extproc.New(router, cfg)
		var refused *warmroute.ConfigError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, want, refused.Field)
	}
	_, err = extproc.New(nil, extproc.Config{})
	require.Error(t, err)
}
