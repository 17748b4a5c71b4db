package metrics_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

func TestReadSamples(t *testing.T) {
	const page = "# TYPE a gauge\n" +
		`a{gpu="0",UUID="GPU-x"} 79` + "\n" +
		"ab 1\n" +
		`a{gpu="1"} NaN` + "\n" +
		`b{note="with \"quotes\""} -2e3 1700000000000` + "\n" +
		"a{ broken\n" +
		"b 4"
	type seen struct{ name, gpu, note, value string }
	var got []seen
	err := metrics.ReadSamples([]byte(page), []string{"a", "b"}, func(s metrics.Sample) {
		got = append(got, seen{s.Name, s.Label("gpu"), s.Label("note"), fmt.Sprint(s.Value)})
	})
	require.ErrorContains(t, err, "1 unreadable lines, first line 6")
	assert.Equal(t, []seen{
		{"a", "0", "", "79"}, {"a", "1", "", fmt.Sprint(math.NaN())}, {"b", "", `with "quotes"`, "-2000"}, {"b", "", "", "4"},
	}, got)

	require.NoError(t, metrics.ReadSamples([]byte(page), nil, func(metrics.Sample) { assert.Fail(t, "nothing was asked for") }))
	assert.ErrorContains(t, metrics.ReadSamples(nil, make([]string, 256), nil), "256 series")
}

func TestGet(t *testing.T) {
	bodies := map[string]func() io.Reader{
		"whole": func() io.Reader { return strings.NewReader("a 1\nb 2\n") },
		"long":  func() io.Reader { return strings.NewReader("a 1\nb 2" + strings.Repeat("2", 100)) },
		"cut": func() io.Reader {
			return io.MultiReader(strings.NewReader("a 1\nb 2"), iotest.ErrReader(io.ErrUnexpectedEOF))
		},
	}
	s := scraperOf(t, metrics.Config{MaxBytes: 64}, func(r *http.Request) (*http.Response, error) {
		if body := bodies[strings.TrimPrefix(r.URL.Path, "/")]; body != nil {
			return answer(http.StatusOK, body()), nil
		}
		return answer(http.StatusServiceUnavailable, http.NoBody), nil
	})
	for path, want := range map[string]string{"whole": "a 1\nb 2\n", "long": "a 1\n", "cut": "a 1\n", "none": ""} {
		text, err := s.Get(t.Context(), at(t, "http://exporter/"+path))
		assert.Equal(t, want, string(text), path)
		assert.Equal(t, path == "whole", err == nil, path)
		if path == "none" {
			var status *metrics.StatusError
			require.ErrorAs(t, err, &status)
			assert.Equal(t, http.StatusServiceUnavailable, status.Code)
		}
		if path == "long" {
			require.ErrorIs(t, err, metrics.ErrTooLong)
		}
	}
	_, err := s.Get(t.Context(), at(t, "ftp://exporter/"))
	require.Error(t, err)
}

func TestGetIsBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scraperOf(t, metrics.Config{Timeout: 3 * time.Second}, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		begun := time.Now()
		_, err := s.Get(t.Context(), at(t, "http://exporter/"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 3*time.Second, time.Since(begun))
	})
}
