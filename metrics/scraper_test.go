package metrics_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

const runningLine = `vllm:num_requests_running{engine="0",model_name="m"} 3` + "\n"

var runningThree = []metrics.Snapshot{{Engine: "0", Model: "m", Running: num(3)}}

func TestNewScraperRefuses(t *testing.T) {
	for name, config := range map[string]metrics.Config{
		"interval": {Interval: -1},
		"timeout":  {Timeout: -1},
		"bytes":    {MaxBytes: -1},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := metrics.NewScraper(config)
			require.ErrorContains(t, err, "negative "+map[string]string{"bytes": "limit"}[name])
			assert.Nil(t, s)
		})
	}
}

func TestScrape(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/behind/a/prefix/metrics", r.URL.Path)
		assert.Equal(t, "key=1", r.URL.RawQuery)
		assert.Equal(t, "text/plain;version=0.0.4", r.Header.Get("Accept"))
		w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
		_, err := w.Write(fixture(t, "vllm-0.26.0-4rank-busy.txt"))
		assert.NoError(t, err)
	}))
	defer server.Close()
	s, err := metrics.NewScraper(metrics.Config{Timeout: time.Minute})
	require.NoError(t, err)
	defer s.CloseIdleConnections()
	before := time.Now()
	got, err := s.Scrape(t.Context(), at(t, server.URL+"/behind/a/prefix/?key=1#part"))
	require.NoError(t, err)
	require.NoError(t, got.Err)
	require.Len(t, got.Engines, 4)
	assert.Equal(t, num(12), got.Engines[0].Waiting)
	assert.False(t, got.Time.Before(before))
	assert.False(t, got.Time.After(time.Now()))
}

func TestScrapeBase(t *testing.T) {
	s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
		return answer(http.StatusOK, strings.NewReader(runningLine)), nil
	})
	for _, base := range []*url.URL{nil, {}, {Scheme: "http"}, {Host: "h"}, {Scheme: "unix", Host: "h"}} {
		_, err := s.Scrape(t.Context(), base)
		require.ErrorContains(t, err, "base URL")
		_, err = s.MaxNumSeqs(t.Context(), base)
		require.ErrorContains(t, err, "base URL")
	}
	_, err := s.Scrape(t.Context(), &url.URL{Scheme: "http", Host: "no host"})
	require.ErrorContains(t, err, "metrics: parse")
	got, err := s.Scrape(t.Context(), at(t, "https://user:secret@h"))
	require.NoError(t, err)
	assert.Equal(t, runningThree, got.Engines)
}

func TestScrapeStatus(t *testing.T) {
	for _, code := range []int{http.StatusNoContent, http.StatusFound, http.StatusUnauthorized, http.StatusNotFound, http.StatusInternalServerError} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			requests := 0
			s := scraperOf(t, metrics.Config{Dialect: metrics.VLLM()}, func(r *http.Request) (*http.Response, error) {
				requests++
				response := answer(code, strings.NewReader(runningLine))
				response.Header.Set("Location", "http://other/metrics")
				return response, nil
			})
			got, err := s.Scrape(t.Context(), at(t, "http://user:secret@h"))
			var status *metrics.StatusError
			require.ErrorAs(t, err, &status)
			assert.Equal(t, code, status.Code)
			assert.NotContains(t, err.Error(), "secret")
			assert.Empty(t, got)
			assert.Equal(t, 1, requests, "a redirect must not be followed")
		})
	}
}

func TestScrapeEmptyPage(t *testing.T) {
	s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
		return answer(http.StatusOK, strings.NewReader("")), nil
	})
	got, err := s.Scrape(t.Context(), at(t, "http://h"))
	require.NoError(t, err)
	require.NoError(t, got.Err)
	assert.Empty(t, got.Engines)
	assert.True(t, got.NoEngineSeries)
	assert.False(t, got.Time.IsZero())
}

func TestScrapeRefused(t *testing.T) {
	refused := errors.New("connection refused")
	s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) { return nil, refused })
	_, err := s.Scrape(t.Context(), at(t, "http://h"))
	require.ErrorIs(t, err, refused)
}

func TestScrapeBadLine(t *testing.T) {
	s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
		return answer(http.StatusOK, strings.NewReader(runningLine+"vllm:num_requests_waiting x\n")), nil
	})
	got, err := s.Scrape(t.Context(), at(t, "http://h"))
	require.NoError(t, err)
	require.ErrorContains(t, got.Err, "first line 2")
	assert.Equal(t, runningThree, got.Engines)
}

// TestScrapeLimit has pages around the limit. The last line of a cut page is
// dropped, as a number cut in the middle still is a number.
func TestScrapeLimit(t *testing.T) {
	long := runningLine + `vllm:num_requests_waiting{engine="0"} 125` + "\n"
	for limit := int64(len(runningLine)); limit <= int64(len(long)); limit++ {
		s := scraperOf(t, metrics.Config{MaxBytes: limit}, func(r *http.Request) (*http.Response, error) {
			return answer(http.StatusOK, strings.NewReader(long)), nil
		})
		got, err := s.Scrape(t.Context(), at(t, "http://h"))
		require.NoError(t, err)
		require.Len(t, got.Engines, 1)
		assert.Equal(t, num(3), got.Engines[0].Running)
		if limit < int64(len(long)) {
			require.ErrorIs(t, got.Err, metrics.ErrTooLong)
			assert.Equal(t, metrics.Number{}, got.Engines[0].Waiting)
		} else {
			require.NoError(t, got.Err)
			assert.Equal(t, num(125), got.Engines[0].Waiting)
		}
	}
}

func TestScrapeBrokenOffAtLimit(t *testing.T) {
	reset := errors.New("connection reset")
	s := scraperOf(t, metrics.Config{MaxBytes: int64(len(runningLine))}, func(r *http.Request) (*http.Response, error) {
		return answer(http.StatusOK, io.MultiReader(strings.NewReader(runningLine), iotest.ErrReader(reset))), nil
	})
	got, err := s.Scrape(t.Context(), at(t, "http://h"))
	require.NoError(t, err)
	require.ErrorIs(t, got.Err, reset)
	assert.Equal(t, runningThree, got.Engines)
}

// endless repeats a line up to size bytes, and counts what was read.
type endless struct {
	line string
	size int
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.read >= e.size {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.line[(e.read+n)%len(e.line):])
	}
	e.read += n
	return n, nil
}

func TestScrapeEndless(t *testing.T) {
	const limit = 1 << 20
	for name, tt := range map[string]struct {
		line string
		want []metrics.Snapshot
	}{
		"samples":       {runningLine, runningThree},
		"one long line": {"vllm:num_requests_running", nil},
		"HTML":          {"<p>\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			body := &endless{line: tt.line, size: 64 << 20}
			s := scraperOf(t, metrics.Config{MaxBytes: limit}, func(r *http.Request) (*http.Response, error) {
				return answer(http.StatusOK, body), nil
			})
			got, err := s.Scrape(t.Context(), at(t, "http://h"))
			require.ErrorIs(t, errors.Join(err, got.Err), metrics.ErrTooLong)
			assert.Equal(t, tt.want == nil, err != nil, "no engine: an error")
			assert.Equal(t, tt.want, got.Engines)
			assert.LessOrEqual(t, body.read, limit+1)
		})
	}
}

func TestScrapeGzip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, metrics.Config{MaxBytes: 1 << 20}, func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, "gzip", r.Header.Get("Accept-Encoding"))
			var packed bytes.Buffer
			zip := gzip.NewWriter(&packed)
			_, err := io.WriteString(zip, runningLine)
			assert.NoError(t, err)
			if r.URL.Path == "/bomb/metrics" {
				_, err = io.CopyN(zip, &endless{line: "\n", size: 4 << 20}, 4<<20)
				assert.NoError(t, err)
			}
			assert.NoError(t, zip.Close())
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes()) // the client hangs up on the bomb
		})
		got, err := s.Scrape(t.Context(), at(t, "http://h"))
		require.NoError(t, err)
		require.NoError(t, got.Err)
		assert.Equal(t, runningThree, got.Engines)

		got, err = s.Scrape(t.Context(), at(t, "http://h/bomb"))
		require.NoError(t, err)
		require.ErrorIs(t, got.Err, metrics.ErrTooLong)
		assert.Equal(t, runningThree, got.Engines)
	})
}

// TestScrapePackedUnasked has a server that packs its page although the client
// has not asked for it, which net/http does not unpack.
func TestScrapePackedUnasked(t *testing.T) {
	pack := func(blankLines int64) []byte {
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		_, err := io.WriteString(zip, runningLine)
		require.NoError(t, err)
		_, err = io.CopyN(zip, &endless{line: "\n", size: 4 << 20}, blankLines)
		require.NoError(t, err)
		require.NoError(t, zip.Close())
		return packed.Bytes()
	}
	small := pack(1 << 10)
	for name, tt := range map[string]struct {
		body []byte
		want error
	}{
		"bomb":       {pack(4 << 20), metrics.ErrTooLong},
		"cut":        {small[:len(small)-9], io.ErrUnexpectedEOF},
		"whole":      {small, nil},
		"no gzip":    {[]byte(runningLine), gzip.ErrHeader},
		"not at all": {nil, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			s := scraperOf(t, metrics.Config{MaxBytes: 1 << 20}, func(*http.Request) (*http.Response, error) {
				response := answer(http.StatusOK, bytes.NewReader(tt.body))
				response.Header.Set("Content-Encoding", "GZIP")
				return response, nil
			})
			got, err := s.Scrape(t.Context(), at(t, "http://h"))
			require.ErrorIs(t, errors.Join(err, got.Err), tt.want)
			if len(tt.body) > 0 && tt.want != gzip.ErrHeader {
				assert.Equal(t, runningThree, got.Engines)
			}
		})
	}
}

func TestScrapeTimeout(t *testing.T) {
	trickle := func(w http.ResponseWriter, r *http.Request) {
		for _, c := range []byte(strings.Repeat(runningLine, 1000)) {
			if _, err := w.Write([]byte{c}); err != nil {
				return
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		partial bool
	}{
		{"no header", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
		{"no body", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			assert.NoError(t, http.NewResponseController(w).Flush())
			<-r.Context().Done()
		}, false},
		{"trickle", trickle, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const timeout = 3 * time.Second
				s := serve(t, metrics.Config{Timeout: timeout}, tt.handler)
				start := time.Now()
				got, err := s.Scrape(t.Context(), at(t, "http://h"))
				require.ErrorIs(t, errors.Join(err, got.Err), context.DeadlineExceeded)
				assert.Equal(t, timeout, time.Since(start))
				if tt.partial {
					require.NoError(t, err)
					assert.Equal(t, runningThree, got.Engines)
				} else {
					require.Error(t, err)
				}
			})
		})
	}
}

func TestScrapeBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, metrics.Config{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, err := io.WriteString(w, runningLine+`vllm:num_requests_waiting{engine="0"} 1`)
			assert.NoError(t, err)
		})
		got, err := s.Scrape(t.Context(), at(t, "http://h"))
		require.NoError(t, err)
		require.ErrorIs(t, got.Err, io.ErrUnexpectedEOF)
		assert.Equal(t, runningThree, got.Engines)
	})
}

// panicking is a dialect that panics.
type panicking struct{ metrics.Dialect }

func (panicking) Parse([]byte) (metrics.Page, error) { panic("out of cheese") }

func TestScrapePanic(t *testing.T) {
	s := scraperOf(t, metrics.Config{Dialect: panicking{metrics.VLLM()}}, func(r *http.Request) (*http.Response, error) {
		return answer(http.StatusOK, strings.NewReader(runningLine)), nil
	})
	_, err := s.Scrape(t.Context(), at(t, "http://h"))
	require.ErrorContains(t, err, "panic: out of cheese")
}
