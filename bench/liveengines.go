package bench

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"sync"

	"github.com/warmroute/warmroute/metrics"
)

// liveEngines are engines whose metrics pages are read.
type liveEngines struct {
	scraper *metrics.Scraper
	bases   []*url.URL
	names   []string
	index   map[engineKey]int // in names
	last    []replicaCounts
}

// engineKey is an engine by its page and its label there.
type engineKey struct {
	base   int
	engine string
}

// newLiveEngines reads every page once.
func newLiveEngines(ctx context.Context, urls []string, transport http.RoundTripper) (*liveEngines, error) {
	scraper, err := metrics.NewScraper(metrics.Config{Client: &http.Client{Transport: transport}})
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	e := &liveEngines{scraper: scraper, index: map[engineKey]int{}}
	seen := map[string]bool{}
	for i, text := range urls {
		base, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("bench: metrics: %w", err)
		}
		at := base.JoinPath("/").String()
		if seen[at] {
			return nil, fmt.Errorf("bench: metrics: %s is named twice and would count twice", base.Redacted())
		}
		seen[at] = true
		page, err := scraper.Scrape(ctx, base)
		if err != nil {
			return nil, fmt.Errorf("bench: metrics of %s: %w", base.Redacted(), err)
		}
		if len(page.Engines) == 0 {
			return nil, fmt.Errorf("bench: metrics of %s: no engine's series on the page", base.Redacted())
		}
		e.bases = append(e.bases, base)
		for k := range page.Engines {
			name := base.Host
			if len(page.Engines) > 1 {
				name += " rank " + page.Engines[k].Engine
			}
			e.index[engineKey{i, page.Engines[k].Engine}] = len(e.names)
			e.names = append(e.names, name)
			e.last = append(e.last, countsOf(&page.Engines[k]))
		}
	}
	return e, nil
}

// counts reads all pages at the same time. Of an engine whose page cannot be
// read the counters are those of last time and the load is not known.
func (e *liveEngines) counts(ctx context.Context) []replicaCounts {
	for i := range e.last {
		e.last[i].running, e.last[i].waiting = math.NaN(), math.NaN()
	}
	pages := make([]metrics.Page, len(e.bases))
	var all sync.WaitGroup
	for i, base := range e.bases {
		all.Go(func() {
			if page, err := e.scraper.Scrape(ctx, base); err == nil {
				pages[i] = page
			}
		})
	}
	all.Wait()
	for i := range pages {
		for k := range pages[i].Engines {
			if at, ok := e.index[engineKey{i, pages[i].Engines[k].Engine}]; ok {
				e.last[at] = countsOf(&pages[i].Engines[k])
			}
		}
	}
	return append([]replicaCounts(nil), e.last...)
}

func countsOf(s *metrics.Snapshot) replicaCounts {
	value := func(n metrics.Number) float64 {
		if !n.OK {
			return math.NaN()
		}
		return n.Value
	}
	return replicaCounts{
		running: value(s.Running), waiting: value(s.Waiting),
		queries: value(s.PrefixQueries), hits: value(s.PrefixHits),
		prompt: value(s.PromptTokens), cached: math.NaN(), // which no snapshot has
		generated: value(s.GenerationTokens), preemptions: value(s.Preemptions),
	}
}
