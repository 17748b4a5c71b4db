package metrics_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

// logStatsOff is a page without an engine's series.
const logStatsOff = "process_start_time_seconds 1.7e+09\npython_info{version=\"3.11.7\"} 1.0\n"

// server answers by path and keeps what it was asked for. A path without an
// answer is a 404, one with the answer "down" refuses connections.
type server struct {
	answers map[string]string
	asked   []string
}

var errDown = errors.New("connection refused")

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	path := r.URL.Path
	s.asked = append(s.asked, path)
	text, ok := s.answers[path]
	switch {
	case !ok:
		return answer(http.StatusNotFound, strings.NewReader("")), nil
	case text == "down":
		return nil, errDown
	}
	return answer(http.StatusOK, strings.NewReader(text)), nil
}

// took returns what was asked for since the last call.
func (s *server) took() []string {
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *server) scraper(t *testing.T, config metrics.Config) *metrics.Scraper {
	return scraperOf(t, config, s.RoundTrip)
}

// TestDetection has endpoints of every kind scraped by one that does not know
// what they are.
func TestDetection(t *testing.T) {
	tests := []struct {
		name    string
		answers map[string]string
		want    string
		scrapes [][]string // what each scrape asks for, the last has the engine
	}{
		{"vLLM", map[string]string{"/metrics": runningSeries["vllm"]}, "vllm", [][]string{{"/metrics"}}},
		{"SGLang", map[string]string{"/metrics": runningSeries["sglang"]}, "sglang", [][]string{{"/metrics"}}},
		{"llama.cpp", map[string]string{"/metrics": runningSeries["llama.cpp"]}, "llama.cpp", [][]string{{"/metrics"}}},
		{"TGI", map[string]string{"/metrics": runningSeries["tgi"]}, "tgi", [][]string{{"/metrics"}}},
		{"Triton", map[string]string{"/metrics": runningSeries["triton"]}, "triton", [][]string{{"/metrics"}}},
		{"TensorRT-LLM behind Dynamo", map[string]string{"/metrics": runningSeries["tensorrt-llm"]}, "tensorrt-llm", [][]string{{"/metrics"}}},
		{
			"TensorRT-LLM, whose /metrics is JSON",
			map[string]string{"/metrics": `[{"numActiveRequests": 3}]`, "/prometheus/metrics": runningSeries["tensorrt-llm"]},
			"tensorrt-llm", [][]string{{"/metrics", "/prometheus/metrics"}},
		},
		{
			"NIM", map[string]string{"/v1/metrics": runningSeries["nim"]},
			"nim", [][]string{{"/metrics", "/prometheus/metrics"}, {"/metrics", "/v1/metrics"}},
		},
		{
			"a NIM with vLLM's own series",
			map[string]string{"/v1/metrics": runningSeries["vllm"] + "\n" + `num_request_max{model_name="m"} 64`},
			"vllm", [][]string{{"/metrics", "/prometheus/metrics"}, {"/metrics", "/v1/metrics"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := &server{answers: tt.answers}
			s := server.scraper(t, metrics.Config{})
			base := at(t, "http://h")
			for i, asked := range tt.scrapes {
				got, err := s.Scrape(t.Context(), base)
				assert.Equal(t, asked, server.took())
				if i < len(tt.scrapes)-1 {
					require.Error(t, err)
					continue
				}
				require.NoError(t, err)
				assert.Equal(t, tt.want, got.Dialect)
				require.Len(t, got.Engines, 1)
				assert.Equal(t, num(3), got.Engines[0].Running)
			}
			for range 3 {
				_, err := s.Scrape(t.Context(), base)
				require.NoError(t, err)
				last := tt.scrapes[len(tt.scrapes)-1]
				assert.Equal(t, last[len(last)-1:], server.took(), "what was found is asked for at once")
			}
		})
	}
}

// TestNoEngineSeries has an engine that keeps its counts to itself.
func TestNoEngineSeries(t *testing.T) {
	server := &server{answers: map[string]string{"/metrics": logStatsOff}}
	s := server.scraper(t, metrics.Config{})
	requests := 0
	for range 100 {
		got, err := s.Scrape(t.Context(), at(t, "http://h"))
		require.NoError(t, err)
		require.NoError(t, got.Err)
		assert.True(t, got.NoEngineSeries)
		assert.Empty(t, got.Engines)
		assert.Empty(t, got.Dialect)
		asked := server.took()
		assert.LessOrEqual(t, len(asked), 2, "at most one request beyond the first")
		requests += len(asked)
	}
	assert.LessOrEqual(t, requests, 120, "other paths are looked at ever more rarely")

	server.answers["/metrics"] = runningSeries["vllm"]
	got, err := s.Scrape(t.Context(), at(t, "http://h"))
	require.NoError(t, err)
	assert.False(t, got.NoEngineSeries)
	assert.Equal(t, "vllm", got.Dialect)
}

// TestGarbage has answers that are no metrics pages.
func TestGarbage(t *testing.T) {
	for name, text := range map[string]string{
		"HTML": "<!DOCTYPE html>\n<html><body>\n<h1>Sign in</h1>\n</body></html>\n", "JSON": `{"detail":"ok"}`, "text": "OK",
	} {
		t.Run(name, func(t *testing.T) {
			for _, d := range append(metrics.Dialects(), nil) {
				server := &server{answers: map[string]string{"/metrics": text, "/v1/metrics": text, "/prometheus/metrics": text}}
				got, err := server.scraper(t, metrics.Config{Dialect: d}).Scrape(t.Context(), at(t, "http://h"))
				require.ErrorIs(t, err, metrics.ErrNotMetrics)
				assert.Equal(t, metrics.Page{}, got)
			}
		})
	}
}

// TestUnreadableEngineSeries has a page that is an engine's, but nothing of it
// can be read: not a page without an engine's series.
func TestUnreadableEngineSeries(t *testing.T) {
	server := &server{answers: map[string]string{"/metrics": "vllm:num_requests_running three\n"}}
	got, err := server.scraper(t, metrics.Config{}).Scrape(t.Context(), at(t, "http://h"))
	require.NoError(t, err)
	require.ErrorContains(t, got.Err, "first line 1")
	assert.False(t, got.NoEngineSeries)
	assert.Empty(t, got.Engines)
}

// TestOtherPathsOnlyOfThoseThatAnswer has an endpoint that is down or broken:
// there is nothing to look for.
func TestOtherPathsOnlyOfThoseThatAnswer(t *testing.T) {
	for name, fail := range map[string]roundTripper{
		"down": func(*http.Request) (*http.Response, error) { return nil, errDown },
		"500": func(*http.Request) (*http.Response, error) { // vllm#49983
			return answer(http.StatusInternalServerError, strings.NewReader("")), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
				requests++
				return fail(r)
			})
			for range 3 {
				_, err := s.Scrape(t.Context(), at(t, "http://h"))
				require.Error(t, err)
			}
			assert.Equal(t, 3, requests)
		})
	}
	t.Run("501", func(t *testing.T) { // llama.cpp without --metrics
		var asked []string
		s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.URL.Path)
			return answer(http.StatusNotImplemented, strings.NewReader("")), nil
		})
		_, err := s.Scrape(t.Context(), at(t, "http://h"))
		var status *metrics.StatusError
		require.ErrorAs(t, err, &status)
		assert.Len(t, asked, 2)
	})
}

// TestSlowStart has an engine that is down for long before it shows its page at
// another path than the first: its absence has not used up the search.
func TestSlowStart(t *testing.T) {
	server := &server{answers: map[string]string{"/metrics": "down"}}
	s := server.scraper(t, metrics.Config{})
	for range 50 {
		_, err := s.Scrape(t.Context(), at(t, "http://h"))
		require.ErrorIs(t, err, errDown)
	}
	server.answers = map[string]string{"/v1/metrics": runningSeries["nim"]}
	_, err := s.Scrape(t.Context(), at(t, "http://h"))
	require.Error(t, err)
	got, err := s.Scrape(t.Context(), at(t, "http://h"))
	require.NoError(t, err)
	assert.Equal(t, "nim", got.Dialect)
}

// TestPageTurnsForeign has another engine started at the same address.
func TestPageTurnsForeign(t *testing.T) {
	server := &server{answers: map[string]string{"/metrics": runningSeries["vllm"]}}
	s := server.scraper(t, metrics.Config{})
	scrape := func() metrics.Page {
		t.Helper()
		got, err := s.Scrape(t.Context(), at(t, "http://h"))
		require.NoError(t, err)
		return got
	}
	assert.Equal(t, "vllm", scrape().Dialect)
	server.answers["/metrics"] = runningSeries["sglang"]
	assert.Equal(t, "sglang", scrape().Dialect, "at once, where it is at the same path")
	assert.Len(t, server.took(), 2)
}

// TestFoundPathIsForgotten has an engine whose page moves, or that is gone for
// long.
func TestFoundPathIsForgotten(t *testing.T) {
	for name, gone := range map[string]string{"404": "", "no engine": logStatsOff, "down": "down"} {
		t.Run(name, func(t *testing.T) {
			server := &server{answers: map[string]string{"/v1/metrics": runningSeries["nim"]}}
			s := server.scraper(t, metrics.Config{})
			base := at(t, "http://h")
			for range 2 {
				_, _ = s.Scrape(t.Context(), base)
			}
			delete(server.answers, "/v1/metrics")
			if gone != "" {
				server.answers["/v1/metrics"] = gone
			}
			server.answers["/metrics"] = runningSeries["vllm"]
			server.took()
			for range 4 {
				_, _ = s.Scrape(t.Context(), base)
			}
			assert.NotContains(t, server.took(), "/metrics", "a short time is not long")
			server.answers["/v1/metrics"] = runningSeries["nim"]
			got, err := s.Scrape(t.Context(), base)
			require.NoError(t, err)
			assert.Equal(t, "nim", got.Dialect)

			delete(server.answers, "/v1/metrics")
			if gone != "" {
				server.answers["/v1/metrics"] = gone
			}
			for range 5 {
				got, _ = s.Scrape(t.Context(), base)
				assert.Empty(t, got.Engines)
			}
			got, err = s.Scrape(t.Context(), base)
			require.NoError(t, err)
			assert.Equal(t, "vllm", got.Dialect)
		})
	}
}

func TestSetDialect(t *testing.T) {
	server := &server{answers: map[string]string{
		"/metrics":            runningSeries["vllm"] + "\n" + runningSeries["sglang"],
		"/a/metrics":          runningSeries["tensorrt-llm"],
		"/prometheus/metrics": runningSeries["tensorrt-llm"],
	}}
	s := server.scraper(t, metrics.Config{})
	dialect := func(base string) string {
		t.Helper()
		got, err := s.Scrape(t.Context(), at(t, base))
		require.NoError(t, err)
		return got.Dialect
	}
	assert.Equal(t, "vllm", dialect("http://h"), "the first in order")
	require.NoError(t, s.SetDialect(at(t, "http://h/"), metrics.SGLang()))
	assert.Equal(t, "sglang", dialect("http://h"))
	assert.Equal(t, "vllm", dialect("http://other"), "another endpoint's is still found out")
	require.NoError(t, s.SetDialect(at(t, "http://h"), metrics.TensorRTLLM()))
	server.took()
	assert.Equal(t, "tensorrt-llm", dialect("http://h"))
	assert.Equal(t, []string{"/prometheus/metrics"}, server.took())

	require.NoError(t, s.SetDialect(at(t, "http://h/a"), metrics.TensorRTLLM()))
	assert.Equal(t, "tensorrt-llm", dialect("http://h/a"), "a set dialect has several paths too")
	assert.Equal(t, []string{"/a/prometheus/metrics", "/a/metrics"}, server.took())
	assert.Equal(t, "tensorrt-llm", dialect("http://h/a"))
	assert.Equal(t, []string{"/a/metrics"}, server.took())

	require.NoError(t, s.SetDialect(at(t, "http://h"), metrics.TGI()))
	got, err := s.Scrape(t.Context(), at(t, "http://h"))
	require.NoError(t, err)
	assert.True(t, got.NoEngineSeries, "no other dialect is tried")

	require.NoError(t, s.SetDialect(at(t, "http://h"), nil))
	assert.Equal(t, "vllm", dialect("http://h"))
	require.ErrorContains(t, s.SetDialect(at(t, "unix://h"), metrics.VLLM()), "base URL")
}

// TestSetDialectDuringScrape has a dialect set while a page is on its way: the
// scrape under way ends in the old one, the next is not joined to it and is not
// led astray by what it finds.
func TestSetDialectDuringScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
			time.Sleep(100 * time.Millisecond)
			return answer(http.StatusOK, strings.NewReader(runningSeries["vllm"]+"\n"+runningSeries["sglang"])), nil
		})
		base := at(t, "http://h")
		first := make(chan metrics.Page, 1)
		go func() {
			got, err := s.Scrape(t.Context(), base)
			assert.NoError(t, err)
			first <- got
		}()
		synctest.Wait()
		require.NoError(t, s.SetDialect(base, metrics.SGLang()))
		time.Sleep(50 * time.Millisecond)
		for range 2 {
			got, err := s.Scrape(t.Context(), base)
			require.NoError(t, err)
			assert.Equal(t, "sglang", got.Dialect)
		}
		assert.Equal(t, "vllm", (<-first).Dialect)
	})
}

// TestConfigDialect has one dialect for all endpoints.
func TestConfigDialect(t *testing.T) {
	server := &server{answers: map[string]string{"/metrics": runningSeries["vllm"]}}
	s := server.scraper(t, metrics.Config{Dialect: metrics.SGLang()})
	got, err := s.Scrape(t.Context(), at(t, "http://h"))
	require.NoError(t, err)
	assert.True(t, got.NoEngineSeries)
	assert.Equal(t, []string{"/metrics"}, server.took())
	require.NoError(t, s.SetDialect(at(t, "http://h"), metrics.VLLM()))
	got, err = s.Scrape(t.Context(), at(t, "http://h"))
	require.NoError(t, err)
	assert.Equal(t, "vllm", got.Dialect)
}

// TestWatchForgets has an endpoint that is watched anew: it may be another one.
func TestWatchForgets(t *testing.T) {
	server := &server{answers: map[string]string{"/prometheus/metrics": runningSeries["tensorrt-llm"]}}
	s := server.scraper(t, metrics.Config{})
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		s.Watch(ctx, at(t, "http://h"), func(got metrics.Page, err error) {
			assert.NoError(t, err)
			assert.Equal(t, "tensorrt-llm", got.Dialect)
			cancel()
		})
		assert.Equal(t, []string{"/metrics", "/prometheus/metrics"}, server.took())
	}
	s.Watch(canceled(t), nil, func(metrics.Page, error) { t.Error("reported") })
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestSearchSharesTheTimeout has both requests of a scrape bounded by one
// timeout, as an endpoint that searches must not be slower than one that does
// not.
func TestSearchSharesTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scraperOf(t, metrics.Config{Timeout: 2 * time.Second}, func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(1500 * time.Millisecond):
				return answer(http.StatusNotFound, strings.NewReader("")), nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		start := time.Now()
		_, err := s.Scrape(t.Context(), at(t, "http://h"))
		var status *metrics.StatusError
		require.ErrorAs(t, err, &status, "the first path's answer is what counts")
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}
