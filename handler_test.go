package warmroute_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// browse gets as browsers do.
func browse(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	h.ServeHTTP(w, r)
	return w
}

func TestPageForBrowsersAndTableForOthers(t *testing.T) {
	h := newRouter(t, four()).Handler()
	page := browse(h, "/")
	assert.Equal(t, "text/html; charset=utf-8", page.Header().Get("Content-Type"))
	assert.Equal(t, "Accept", page.Header().Get("Vary"))
	assert.NotContains(t, page.Body.String(), "a:80", "data comes later, as data")
	table := get(t, h, "/")
	assert.Equal(t, "text/plain; charset=utf-8", table.Header().Get("Content-Type"))
	assert.Equal(t, "Accept", table.Header().Get("Vary"))
	assert.Equal(t, table.Body.String(), browse(h, "/table").Body.String())
}

func TestPageWorksBelowAnyPath(t *testing.T) {
	reference := regexp.MustCompile(`(?:href|src)="([^"#]+)"`)
	for _, prefix := range []string{"", "/debug/warmroute", "/a/b/c"} {
		h := http.StripPrefix(prefix, newRouter(t, four()).Handler())
		page := browse(h, prefix+"/")
		require.Equal(t, http.StatusOK, page.Code)
		references := reference.FindAllStringSubmatch(page.Body.String(), -1)
		assert.Greater(t, len(references), 8)
		for _, m := range references {
			assert.NotContains(t, m[1], ":", "%s is elsewhere", m[1])
			require.False(t, strings.HasPrefix(m[1], "/"), m[1])
			assert.Equal(t, http.StatusOK, get(t, h, prefix+"/"+m[1]).Code, m[1])
		}
	}
}

func TestPrefixWithoutItsSlashLeadsToThePage(t *testing.T) {
	h := http.StripPrefix("/debug/warmroute", newRouter(t, four()).Handler())
	w := browse(h, "/debug/warmroute?x=/y")
	assert.Equal(t, http.StatusFound, w.Code)
	assert.Equal(t, "./warmroute/", w.Header().Get("Location"), "beside /debug/, not at the server's root")
}

func TestHandlerIsReadOnly(t *testing.T) {
	h := newRouter(t, four()).Handler()
	for _, path := range []string{"/debug/warmroute", "/debug/warmroute//stats"} { // which GET is redirected from
		w := httptest.NewRecorder()
		http.StripPrefix("/debug/warmroute", h).ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		assert.Equal(t, http.StatusMethodNotAllowed, w.Code, path)
		assert.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
	}
	for _, path := range []string{"/", "/table", "/stats", "/history", "/events", "/metrics", "/assets/page.js"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			assert.Equal(t, http.StatusMethodNotAllowed, w.Code, "%s %s", method, path)
			assert.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, path, nil))
		assert.Equal(t, http.StatusOK, w.Code, "HEAD %s", path)
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), path)
	}
}

// stream reads the events of a server in memory: each line that was sent.
func stream(ctx context.Context, h http.Handler) (lines <-chan string, ended <-chan struct{}) {
	sent, done := make(chan string, 1000), make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(lineWriter{http.Header{}, sent}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil))
	}()
	return sent, done
}

type lineWriter struct {
	header http.Header
	lines  chan<- string
}

func (w lineWriter) Header() http.Header { return w.header }
func (w lineWriter) WriteHeader(int)     {}
func (w lineWriter) Flush()              {}

func (w lineWriter) Write(p []byte) (int, error) {
	lines := bufio.NewScanner(strings.NewReader(string(p)))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		w.lines <- lines.Text()
	}
	return len(p), lines.Err()
}

// received are the events that have come so far.
func received(t *testing.T, lines <-chan string) []warmroute.Event {
	t.Helper()
	var events []warmroute.Event
	for {
		select {
		case line := <-lines:
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				var e warmroute.Event
				require.NoError(t, json.Unmarshal([]byte(data), &e))
				events = append(events, e)
			}
		default:
			return events
		}
	}
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a", "http://b"), silent())
		startRun(t, router)
		ctx, cancel := context.WithCancel(t.Context())
		lines, ended := stream(ctx, router.Handler())
		also, _ := stream(ctx, router.Handler())
		time.Sleep(time.Second)
		used(t, router, "", 100, 60, 9, 75*time.Millisecond)
		lease := route(t, router, warmroute.Request{})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		events := received(t, lines)
		require.Len(t, events, 22)
		for i, e := range events {
			assert.Equal(t, uint64(i+1), e.Seq)
			require.Len(t, e.Stats.Pools[0].Replicas, 2)
			assert.LessOrEqual(t, len(e.History.Pools[0].Points), 3)
		}
		last := events[21]
		assert.Equal(t, 1, last.Stats.Pools[0].InFlight)
		assert.Equal(t, uint64(60), last.Stats.Pools[0].Tokens.PromptCached)
		whole := router.History().Pools[0].Points
		assert.Equal(t, whole[len(whole)-3:], last.History.Pools[0].Points, "the tail of the history")
		assert.Equal(t, events, received(t, also), "all handlers share them")
		lease.Done(warmroute.Result{})
		cancel()
		<-ended
	})
}

func TestEventsEndWithRunAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a"), silent())
		stop := startRun(t, router)
		_, ended := stream(t.Context(), router.Handler())
		time.Sleep(1500 * time.Millisecond)
		stop()
		<-ended
		lines, ended := stream(t.Context(), router.Handler()) // a router that is not run can be watched as well
		time.Sleep(1500 * time.Millisecond)
		assert.Len(t, received(t, lines), 2)
		require.NoError(t, router.Close())
		<-ended
		assert.Equal(t, http.StatusServiceUnavailable, get(t, router.Handler(), "/events").Code)
	})
}

func TestAServerWithAnOpenPageShutsDown(t *testing.T) {
	router := newRouter(t, at("http://a"), silent())
	stop := startRun(t, router)
	server := httptest.NewServer(router.Handler())
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/events")
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	assert.NoError(t, server.Config.Shutdown(ctx), "it waits for no viewer")
}

func TestHandlerInsideMiddleware(t *testing.T) {
	h := newRouter(t, four()).Handler()
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
	for _, path := range []string{"/", "/events", "/assets/page.js", "/stats"} {
		assert.Equal(t, http.StatusUnauthorized, get(t, guarded, path).Code)
	}
	r := httptest.NewRequest(http.MethodGet, "/assets/page.js", nil)
	r.SetBasicAuth("", "secret")
	w := httptest.NewRecorder()
	guarded.ServeHTTP(w, r)
	assert.Equal(t, http.StatusOK, w.Code)
}
