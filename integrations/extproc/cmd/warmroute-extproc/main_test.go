package main

import (
	"context"
	"flag"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func TestRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"at least one endpoint":        {},
		"unexpected argument":          {"-endpoint", "http://127.0.0.1:9", "more"},
		"a host that is an IP address": {"-endpoint", "http://engine:8000"},
		"ranks":                        {"-endpoint", "http://127.0.0.1:9,ranks=0"},
		"max-body":                     {"-endpoint", "http://127.0.0.1:9", "-max-body", "0"},
		"max message timeout":          {"-endpoint", "http://127.0.0.1:9", "-max-message-timeout", "1ms"},
		"auto, off":                    {"-endpoint", "http://127.0.0.1:9", "-residency", "some"},
		"a header's name":              {"-endpoint", "http://127.0.0.1:9", "-session-header", "a b"},
	} {
		assert.ErrorContains(t, run(t.Context(), args), want)
	}
	_, err := parse([]string{"-h"})
	require.ErrorIs(t, err, flag.ErrHelp)
}

func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

func TestServes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listen, stats := freeAddr(t), freeAddr(t)
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-listen", listen, "-stats", stats, "-names", "-endpoint", "http://localhost:9,ranks=2", "-drain", "1s"})
	}()
	conn, err := grpc.NewClient(listen, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	wait, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	health, err := grpc_health_v1.NewHealthClient(conn).Check(wait, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	require.NoError(t, err)
	assert.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, health.GetStatus())
	resp, err := http.Get("http://" + stats + "/")
	require.NoError(t, err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Contains(t, string(page), "localhost:9@1")
	cancel()
	require.NoError(t, <-ended)
}
