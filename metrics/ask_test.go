package metrics_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

func TestMaxNumSeqs(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		want   int
		err    string // "" for none
		served bool   // the error does not wrap ErrNotServed
	}{
		{name: "served", status: 200, want: 256,
			body: `{"vllm_config":{"model_config":{"model":"m"},"scheduler_config":{"max_num_seqs":256,"x":null}},"system_env":{}}`},
		{name: "not in dev mode", status: 404, body: `{"detail":"Not Found"}`, err: "status 404 Not Found"},
		{name: "no such field", status: 200, body: `{"vllm_config":{"scheduler_config":{}}}`, err: "no max_num_seqs"},
		{name: "null", status: 200, body: `{"vllm_config":{"scheduler_config":{"max_num_seqs":null}}}`, err: "no max_num_seqs"},
		{name: "zero", status: 200, body: `{"vllm_config":{"scheduler_config":{"max_num_seqs":0}}}`, err: "no max_num_seqs"},
		{name: "negative", status: 200, body: `{"vllm_config":{"scheduler_config":{"max_num_seqs":-1}}}`, err: "no max_num_seqs"},
		{name: "text form", status: 200, body: `{"vllm_config":"model='m', max_num_seqs=256"}`, err: "cannot unmarshal"},
		{name: "text for a number", status: 200, body: `{"vllm_config":{"scheduler_config":{"max_num_seqs":"256"}}}`, err: "cannot unmarshal"},
		{name: "no object", status: 200, body: `[]`, err: "cannot unmarshal"},
		{name: "no JSON", status: 200, body: `<html>`, err: "invalid character", served: true},
		{name: "empty", status: 200, body: ``, err: "unexpected end of JSON", served: true},
		{name: "forbidden", status: 403, body: ``, err: "status 403 Forbidden", served: true},
		{name: "too long", status: 200, body: `{"a":"` + strings.Repeat("x", 2000) + `"}`, err: "longer than the limit of 1024 bytes", served: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := scraperOf(t, metrics.Config{MaxBytes: 1024, Dialect: metrics.VLLM()}, func(r *http.Request) (*http.Response, error) {
				assert.Equal(t, "/prefix/server_info", r.URL.Path)
				assert.Equal(t, "json", r.URL.Query().Get("config_format"))
				assert.Equal(t, "1", r.URL.Query().Get("key"))
				return answer(tt.status, strings.NewReader(tt.body)), nil
			})
			got, err := s.MaxNumSeqs(t.Context(), at(t, "http://h/prefix?key=1"))
			assert.Equal(t, tt.want, got)
			if tt.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.err)
			if tt.served {
				require.NotErrorIs(t, err, metrics.ErrNotServed)
			} else {
				require.ErrorIs(t, err, metrics.ErrNotServed)
			}
		})
	}
}

func TestMaxNumSeqsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, metrics.Config{Timeout: 2 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		})
		start := time.Now()
		_, err := s.MaxNumSeqs(t.Context(), at(t, "http://h"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}
