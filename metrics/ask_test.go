package metrics_test

import (
	"context"
	"fmt"
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
		assert.Equal(t, 30*2*time.Second, time.Since(start))
	})
}

// asked answers by path and query, else with a 404, and keeps what it was asked.
func asked(t *testing.T, config metrics.Config, answers map[string]string) (*metrics.Scraper, *[]string) {
	var asked []string
	return scraperOf(t, config, func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.RequestURI())
		if body, ok := answers[r.URL.RequestURI()]; ok {
			return answer(http.StatusOK, strings.NewReader(body)), nil
		}
		return answer(http.StatusNotFound, strings.NewReader("")), nil
	}), &asked
}

func TestMaxNumSeqsOfOtherEngines(t *testing.T) {
	const server = `{"model_path":"m","max_running_requests":%s,"internal_states":[%s],"version":"0.5.23"}`
	tests := []struct {
		name    string
		dialect metrics.Dialect
		path    string
		body    string
		want    int // 0: not served
	}{
		{"SGLang", metrics.SGLang(), "/server_info", fmt.Sprintf(server, "null", `{"x":1},{"effective_max_running_requests_per_dp":128}`), 128},
		{"SGLang, the effective limit goes before", metrics.SGLang(), "/server_info", fmt.Sprintf(server, "512", `{"effective_max_running_requests_per_dp":52}`), 52},
		{"SGLang, configured", metrics.SGLang(), "/server_info", fmt.Sprintf(server, "64", ""), 64},
		{"SGLang without", metrics.SGLang(), "/server_info", fmt.Sprintf(server, "null", "{}"), 0},
		{"SGLang, another shape", metrics.SGLang(), "/server_info", `{"internal_states":"none"}`, 0},
		{"llama.cpp", metrics.LlamaCPP(), "/props", `{"default_generation_settings":{"n_ctx":1024},"total_slots":4,"model_path":"m"}`, 4},
		{"llama.cpp without", metrics.LlamaCPP(), "/props", `{}`, 0},
		{"one that is not asked", metrics.TGI(), "/server_info", `{"max_running_requests":3}`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := asked(t, metrics.Config{Dialect: tt.dialect}, map[string]string{tt.path: tt.body})
			got, err := s.MaxNumSeqs(t.Context(), at(t, "http://h"))
			assert.Equal(t, tt.want, got)
			if tt.want == 0 {
				require.ErrorIs(t, err, metrics.ErrNotServed)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// TestMaxNumSeqsOfAnUnknownEngine has every engine asked in turn until a page
// tells which one it is.
func TestMaxNumSeqsOfAnUnknownEngine(t *testing.T) {
	answers := map[string]string{"/props": `{"total_slots":4}`, "/metrics": runningSeries["llama.cpp"]}
	s, requests := asked(t, metrics.Config{}, answers)
	base := at(t, "http://h")
	got, err := s.MaxNumSeqs(t.Context(), base)
	require.NoError(t, err)
	assert.Equal(t, 4, got)
	assert.Equal(t, []string{"/server_info?config_format=json", "/server_info", "/props"}, *requests)

	_, err = s.Scrape(t.Context(), base)
	require.NoError(t, err)
	*requests = nil
	got, err = s.MaxNumSeqs(t.Context(), base)
	require.NoError(t, err)
	assert.Equal(t, 4, got)
	assert.Equal(t, []string{"/props"}, *requests)

	delete(answers, "/props")
	require.NoError(t, s.SetDialect(base, nil))
	_, err = s.MaxNumSeqs(t.Context(), base)
	require.ErrorIs(t, err, metrics.ErrNotServed)
	require.ErrorContains(t, err, "config_format=json", "the likeliest engine's is the error shown")
}

func TestVersion(t *testing.T) {
	tests := []struct {
		name    string
		dialect metrics.Dialect
		answers map[string]string
		want    string // "": not served
	}{
		{"vLLM", metrics.VLLM(), map[string]string{"/version": `{"version":"0.33.0"}`}, "0.33.0"},
		{"SGLang", metrics.SGLang(), map[string]string{"/server_info": `{"version":"0.5.23"}`}, "0.5.23"},
		{"unknown", nil, map[string]string{"/server_info": `{"version":"0.5.23"}`}, "0.5.23"},
		{"404", metrics.VLLM(), nil, ""},
		{"empty", metrics.VLLM(), map[string]string{"/version": `{"version":""}`}, ""},
		{"another shape", metrics.VLLM(), map[string]string{"/version": `{"version":33}`}, ""},
		{"one that is not asked", metrics.LlamaCPP(), map[string]string{"/version": `{"version":"1"}`}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := asked(t, metrics.Config{Dialect: tt.dialect}, tt.answers)
			got, err := s.Version(t.Context(), at(t, "http://h"))
			assert.Equal(t, tt.want, got)
			if tt.want == "" {
				require.ErrorIs(t, err, metrics.ErrNotServed)
			} else {
				require.NoError(t, err)
			}
		})
	}
	s, _ := asked(t, metrics.Config{}, map[string]string{"/version": "<html>"})
	_, err := s.Version(t.Context(), at(t, "http://h"))
	require.ErrorContains(t, err, "invalid character")
	require.NotErrorIs(t, err, metrics.ErrNotServed)
	_, err = s.Version(t.Context(), nil)
	require.ErrorContains(t, err, "base URL")
}

// TestModels has the list of models as vLLM 0.26 sends it, with an adapter, and
// as SGLang does.
func TestModels(t *testing.T) {
	const vllmList = `{"object":"list","data":[` +
		`{"id":"base","object":"model","created":1,"owned_by":"vllm","root":"/models/base","parent":null,"max_model_len":8192,"permission":[{"id":"modelperm-1","allow_view":true}]},` +
		`{"id":"sql","object":"model","created":1,"owned_by":"vllm","root":"/adapters/sql","parent":"base","max_model_len":null,"permission":[]}]}`
	const sglangList = `{"object":"list","data":[{"id":"base","object":"model","owned_by":"sglang","root":"base","max_model_len":8192},` +
		`{"id":"sql","object":"model","owned_by":"sglang","root":"/adapters/sql","parent":"base","max_model_len":null}]}`
	both := []metrics.Model{{ID: "base"}, {ID: "sql", Parent: "base"}}
	tests := []struct {
		name    string
		dialect metrics.Dialect
		answer  string // "" is a 404
		want    []metrics.Model
	}{
		{"vLLM", metrics.VLLM(), vllmList, both},
		{"SGLang", metrics.SGLang(), sglangList, both},
		{"unknown", nil, vllmList, both},
		{"404", metrics.VLLM(), "", nil},
		{"empty", metrics.VLLM(), `{"object":"list","data":[]}`, nil},
		{"no data", metrics.VLLM(), `{}`, nil},
		{"no ID", metrics.VLLM(), `{"data":[{"parent":"base"},{"id":"base"}]}`, []metrics.Model{{ID: "base"}}},
		{"another shape", metrics.VLLM(), `{"data":[{"id":7}]}`, nil},
		{"one that is not asked", metrics.TGI(), vllmList, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answers := map[string]string{}
			if tt.answer != "" {
				answers["/prefix/v1/models"] = tt.answer
			}
			s, _ := asked(t, metrics.Config{Dialect: tt.dialect}, answers)
			got, err := s.Models(t.Context(), at(t, "http://h/prefix"))
			assert.Equal(t, tt.want, got)
			if tt.want == nil {
				require.ErrorIs(t, err, metrics.ErrNotServed)
			} else {
				require.NoError(t, err)
			}
		})
	}
	s := scraperOf(t, metrics.Config{Dialect: metrics.VLLM()}, func(*http.Request) (*http.Response, error) {
		return answer(http.StatusUnauthorized, strings.NewReader(`{"error":"Unauthorized"}`)), nil
	})
	_, err := s.Models(t.Context(), at(t, "http://h"))
	var status *metrics.StatusError
	require.ErrorAs(t, err, &status, "it wants the API key")
	assert.Equal(t, http.StatusUnauthorized, status.Code)
}
