package discovery_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/discovery"
	"github.com/warmroute/warmroute/replica"
)

// said is one report.
type said struct {
	urls []string // nil if the report had no list
	err  string
}

// log is what a Discoverer has reported.
type log struct {
	mu  sync.Mutex
	all []said
}

func (l *log) report(targets []replica.Target, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var s said
	if err != nil {
		s.err = err.Error()
	}
	if err == nil || targets != nil {
		s.urls = urls(targets)
	}
	l.all = append(l.all, s)
}

// take returns what came since the last take.
func (l *log) take() []said {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

func urls(targets []replica.Target) []string {
	out := []string{}
	for _, t := range targets {
		out = append(out, t.URL)
	}
	return out
}

// watch starts a Discoverer in a bubble; stop ends it and checks that it ended as
// it must.
func watch(t *testing.T, d discovery.Discoverer) (l *log, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l = new(log)
	ended := make(chan error, 1)
	go func() { ended <- d.Watch(ctx, l.report) }()
	return l, func() {
		cancel()
		require.NoError(t, <-ended)
		assert.Empty(t, l.take(), "nothing is reported when it has ended")
	}
}

func target(url string) replica.Target { return replica.Target{Endpoint: replica.Endpoint{URL: url}} }

func TestStatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := watch(t, discovery.Static(target("http://a"), target("http://b")))
		time.Sleep(time.Hour)
		assert.Equal(t, []said{{urls: []string{"http://a", "http://b"}}}, l.take())
		stop()
	})
}

// manual reports what a test tells it to.
type manual struct {
	say chan func(discovery.Report)
	end chan error
}

func newManual() manual { return manual{make(chan func(discovery.Report)), make(chan error)} }

func (m manual) Watch(ctx context.Context, report discovery.Report) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-m.end:
			return err
		case say := <-m.say:
			say(report)
		}
	}
}

func (m manual) finds(urls ...string) {
	m.say <- func(report discovery.Report) {
		var all []replica.Target
		for _, u := range urls {
			all = append(all, target(u))
		}
		report(all, nil)
	}
}

func (m manual) fails(text string) {
	m.say <- func(report discovery.Report) { report(nil, errors.New(text)) }
}

func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newManual(), newManual()
		l, stop := watch(t, discovery.Join(a, b))
		a.finds("http://a", "http://both")
		assert.Empty(t, l.take(), "not before each has said something")
		b.finds("HTTP://BOTH:80", "http://b")
		assert.Equal(t, []said{{urls: []string{"http://a", "http://both", "http://b"}}}, l.take())
		b.fails("b is away")
		assert.Equal(t, []said{{[]string{"http://a", "http://both", "http://b"}, "b is away"}}, l.take(), "b's last list stays")
		a.finds("http://a2")
		assert.Equal(t, []said{{[]string{"http://a2", "HTTP://BOTH:80", "http://b"}, "b is away"}}, l.take())
		b.finds()
		assert.Equal(t, []said{{urls: []string{"http://a2"}}}, l.take())
		a.finds()
		assert.Equal(t, []said{{urls: []string{}}}, l.take(), "empty lists are lists")
		stop()
	})
}

func TestJoinGoesOnWithoutWhoFailsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newManual(), newManual()
		l, stop := watch(t, discovery.Join(a, b))
		b.fails("b is away")
		a.fails("a is away")
		assert.Equal(t, []said{{err: "a is away\nb is away"}}, l.take(), "nobody knows anything: no list")
		a.finds("http://a")
		assert.Equal(t, []said{{[]string{"http://a"}, "b is away"}}, l.take())
		stop()
	})
}

func TestJoinEndsWithWhoEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end  error
		want string
	}{"with an error": {errors.New("no such thing"), "no such thing"}, "without": {nil, "ended before its context"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := newManual(), newManual()
				ended := make(chan error)
				go func() { ended <- discovery.Join(a, b).Watch(t.Context(), new(log).report) }()
				b.end <- tc.end
				require.ErrorContains(t, <-ended, tc.want)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		l, stop := watch(t, discovery.Join())
		assert.Equal(t, []said{{urls: []string{}}}, l.take())
		stop()
	})
}
