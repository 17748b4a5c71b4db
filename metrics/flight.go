package metrics

import (
	"context"
	"fmt"
	"net/url"
)

// flight is one scrape of an endpoint, shared by all who ask for it while it is
// under way. golang.org/x/sync/singleflight cannot end a call that nobody
// waits for any more, which would keep requests to a hanging endpoint going
// after their watchers have stopped.
type flight struct {
	waiters int // guarded by Scraper.mu
	cancel  context.CancelFunc
	done    chan struct{} // closed when page and err are set
	page    Page
	err     error
}

// shared waits for the page of the endpoint at base: with the others if it is
// already being scraped, else it starts scraping.
func (s *Scraper) shared(ctx context.Context, key string, base *url.URL) (Page, error) {
	if ctx.Err() != nil {
		return Page{}, waitEnded(ctx, base)
	}
	s.mu.Lock()
	f := s.flights[key]
	if f == nil {
		f = s.start(ctx, key, base)
	}
	f.waiters++
	s.mu.Unlock()
	select {
	case <-f.done:
		return f.page, f.err
	case <-ctx.Done():
		s.leave(key, f)
		return Page{}, waitEnded(ctx, base)
	}
}

func waitEnded(ctx context.Context, base *url.URL) error {
	return fmt.Errorf("metrics: scrape %s: %w", base.Redacted(), context.Cause(ctx))
}

// start begins a scrape. It has the values of the first caller's context but
// not its end. The caller holds s.mu.
func (s *Scraper) start(ctx context.Context, key string, base *url.URL) *flight {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	f := &flight{cancel: cancel, done: make(chan struct{})}
	s.flights[key] = f
	go func() {
		defer cancel()
		f.page, f.err = s.guarded(ctx, key, base)
		s.mu.Lock()
		s.forget(key, f)
		s.mu.Unlock()
		close(f.done)
	}()
	return f
}

// guarded turns a panic, of a dialect or a RoundTripper that is not ours, into
// an error: one endpoint's page must not end the process.
func (s *Scraper) guarded(ctx context.Context, key string, base *url.URL) (page Page, err error) {
	defer func() {
		if r := recover(); r != nil {
			page, err = Page{}, fmt.Errorf("metrics: scrape %s: panic: %v", base.Redacted(), r)
		}
	}()
	return s.scrape(ctx, key, base)
}

// leave takes a caller out of a scrape, and ends the scrape if it was the last.
func (s *Scraper) leave(key string, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		s.forget(key, f) // a later caller must not join a cancelled scrape
		f.cancel()
	}
}

// forget takes a scrape off the map, unless another has taken its place. The
// caller holds s.mu.
func (s *Scraper) forget(key string, f *flight) {
	if s.flights[key] == f {
		delete(s.flights, key)
	}
}
