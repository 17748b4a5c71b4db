package livepage_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/livepage"
)

func handler() http.Handler {
	mux := http.NewServeMux()
	livepage.Register(mux)
	mux.HandleFunc("GET /{$}", livepage.Serve)
	return mux
}

func get(path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	handler().ServeHTTP(w, r)
	return w
}

func TestHeaders(t *testing.T) {
	for path, contentType := range map[string]string{
		"/":                       "text/html; charset=utf-8",
		"/assets/page.css":        "text/css; charset=utf-8",
		"/assets/page.js":         "text/javascript; charset=utf-8",
		"/assets/icon.svg":        "image/svg+xml",
		"/assets/uplot/uplot.js":  "text/javascript; charset=utf-8",
		"/assets/uplot/LICENSE":   "text/plain; charset=utf-8",
		"/assets/uplot/uplot.css": "text/css; charset=utf-8",
	} {
		w := get(path)
		h := w.Header()
		require.Equal(t, http.StatusOK, w.Code, path)
		assert.Equal(t, contentType, h.Get("Content-Type"))
		assert.Equal(t, livepage.Policy, h.Get("Content-Security-Policy"))
		assert.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		assert.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
		assert.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"))
		assert.Equal(t, "no-cache", h.Get("Cache-Control"))
		assert.NotEmpty(t, w.Body.String())
		again := get(path, "If-None-Match", h.Get("ETag"))
		assert.Equal(t, http.StatusNotModified, again.Code)
		assert.Empty(t, again.Body.String())
	}
	for _, path := range []string{"/assets/", "/assets/none", "/assets/uplot", "/assets/../livepage.go", "/assets/%2e%2e/livepage.go", "/assets//page.js"} {
		assert.NotEqual(t, http.StatusOK, get(path).Code, path)
	}
}

func TestPolicyAllowsNothingFromElsewhere(t *testing.T) {
	for directive := range strings.SplitSeq(livepage.Policy, "; ") {
		name, value, _ := strings.Cut(directive, " ")
		assert.Contains(t, []string{"'none'", "'self'", "'script'"}, value, name)
	}
	assert.True(t, strings.HasPrefix(livepage.Policy, "default-src 'none'; "))
}

func TestNothingIsInlineOrElsewhere(t *testing.T) {
	text := get("/").Body.String()
	assert.NotRegexp(t, `(?i)<script(?:\s[^>]*)?>[^<]`, text, "inline script")
	assert.NotRegexp(t, `(?i)<style|\sstyle=|\son\w+=|javascript:`, text)
	assert.NotRegexp(t, `(?:href|src)="(?:[a-z]+:|/)`, text)
	sources, err := filepath.Glob("assets/*.js")
	require.NoError(t, err)
	require.Len(t, sources, 6)
	for _, name := range sources {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://`, string(source), name)
	}
}

// The files are those of the npm package, see assets/uplot/README.md.
func TestVendoredFilesAreUnchanged(t *testing.T) {
	for name, want := range map[string]string{
		"uplot.js":  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"LICENSE":   "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		sum := sha256.Sum256(get("/assets/uplot/" + name).Body.Bytes())
		assert.Equal(t, want, hex.EncodeToString(sum[:]), name)
	}
}

// luminance is the relative luminance (WCAG 2.2) of a colour such as #0a58b8.
func luminance(t *testing.T, color string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{.2126, .7152, .0722} {
		n, err := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
		require.NoError(t, err)
		v := float64(n) / 255
		if v <= .04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + .05) / (min(x, y) + .05)
}

func TestContrastOfTheColours(t *testing.T) {
	assert.InDelta(t, 21, contrast(t, "#000000", "#ffffff"), 1e-9)
	css := get("/assets/page.css").Body.String()
	colors := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([a-z0-9]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);`).FindAllStringSubmatch(css, -1) {
		colors[m[1]] = [2]string{m[2], m[3]}
	}
	for theme, name := range []string{"light", "dark"} {
		least := func(limit float64, front string, backs ...string) {
			for _, back := range backs {
				require.Contains(t, colors, front)
				require.Contains(t, colors, back)
				assert.GreaterOrEqual(t, contrast(t, colors[front][theme], colors[back][theme]), limit, "%s on %s, %s", front, back, name)
			}
		}
		for _, text := range []string{"text", "muted", "link", "good", "warn", "bad"} {
			least(4.5, text, "bg", "card", "inset")
		}
		least(4.5, "text", "notice")
		least(4.5, "bad", "alarm")
		for _, graphic := range []string{"cached", "computed", "completion", "p50", "p95"} { // WCAG 1.4.11
			least(3, graphic, "card", "inset")
		}
	}
}
