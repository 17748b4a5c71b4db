package extproc_test

import (
	"context"
	"errors"
	"io"
	"testing"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/integrations/extproc"
)

// script is a stream whose messages are known beforehand.
type script struct {
	grpc.ServerStream
	ctx      context.Context
	messages []*extprocv3.ProcessingRequest
}

func (s *script) Context() context.Context { return s.ctx }

func (s *script) Recv() (*extprocv3.ProcessingRequest, error) {
	if len(s.messages) == 0 {
		return nil, io.EOF
	}
	m := s.messages[0]
	s.messages = s.messages[1:]
	return m, nil
}

func (s *script) Send(m *extprocv3.ProcessingResponse) error {
	if m.GetResponse() == nil && m.GetOverrideMessageTimeout() == nil {
		return errors.New("an empty answer")
	}
	_, err := proto.Marshal(m)
	return err
}

// FuzzProcess has any sequence of messages leave nothing in flight.
func FuzzProcess(f *testing.F) {
	for _, seed := range []string{
		`request_headers{headers{headers{key:":method" value:"POST"} headers{key:":path" value:"/v1/completions"}} end_of_stream:true}`,
		`protocol_config{request_body_mode:BUFFERED} request_headers{headers{headers{key:":path" value:"/"}}}`,
		`protocol_config{request_body_mode:FULL_DUPLEX_STREAMED} request_headers{headers{headers{key:":path" value:"/x"}}}`,
		`request_body{body:"{}" end_of_stream:true}`,
		`response_headers{headers{headers{key:":status" value:"200"}}}`,
		`response_body{body:"{\"usage\":{\"prompt_tokens\":1}}" end_of_stream:true}`,
		`response_trailers{}`,
	} {
		var m extprocv3.ProcessingRequest
		require.NoError(f, prototext.Unmarshal([]byte(seed), &m))
		first, err := proto.Marshal(&m)
		require.NoError(f, err)
		f.Add(first, []byte(nil), []byte(nil))
		f.Add(first, first, first)
	}
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://127.0.0.1:9/p", Ranks: 2}})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, router.Close()) })
	processor, err := extproc.New(router, extproc.Config{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		var messages []*extprocv3.ProcessingRequest
		for _, b := range [][]byte{first, second, third} {
			m := new(extprocv3.ProcessingRequest)
			if proto.Unmarshal(b, m) == nil {
				messages = append(messages, m)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_ = processor.Process(&script{ctx: ctx, messages: messages}) // what is no protocol is refused
		require.Zero(t, router.Stats().Pools[0].InFlight)
	})
}
