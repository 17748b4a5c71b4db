package metrics

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
)

// forgetAfter is how many scrapes in a row may fail, or find no engine, before
// the dialect and path found earlier are doubted. With the pauses of
// [Scraper.Watch] these are 16 intervals of an endpoint that is down.
const forgetAfter = 5

// searchPause is how many scrapes pass between two looks at another path once
// every path has been looked at twice.
const searchPause = 8

// endpoint is what a scraper knows of one endpoint. It is guarded by
// Scraper.mu.
type endpoint struct {
	set Dialect // by SetDialect; nil if none was

	found     Dialect // that read the last page with engines
	path      string  // where that page was
	fruitless int     // scrapes in a row without engines since then

	searches int // scrapes that began without a path and found none, though there was an answer
	looks    int // requests they made for other paths than the first
}

// endpointKey names an endpoint: bases with and without a final slash are one.
func endpointKey(base *url.URL) string { return base.JoinPath("/").String() }

// endpoint returns an endpoint's state. The caller holds s.mu.
func (s *Scraper) endpoint(key string) *endpoint {
	e := s.endpoints[key]
	if e == nil {
		e = new(endpoint)
		s.endpoints[key] = e
	}
	return e
}

// candidates are the dialects an endpoint's page may be in.
func (s *Scraper) candidates(e *endpoint) []Dialect {
	if e != nil && e.set != nil {
		return []Dialect{e.set}
	}
	return s.dialects
}

// plan is what one scrape is to try.
type plan struct {
	endpoint *endpoint
	known    Dialect   // the likely one, nil if there is none
	dialects []Dialect // the possible ones, in order
	path     string
	other    string // another path, for a page without engines at path; "" for none
}

// plan decides where a scrape looks. An endpoint whose page is not known yet is
// asked for the first path and for at most one other in each scrape.
func (s *Scraper) plan(key string) plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.endpoint(key)
	p := plan{endpoint: e, dialects: s.candidates(e)}
	if e.found != nil {
		p.known, p.path = e.found, e.path
		return p
	}
	first, others := paths(p.dialects)
	p.path = first
	if len(others) > 0 && (e.searches < 2*len(others) || e.searches%searchPause == 0) {
		p.other = others[e.looks%len(others)]
	}
	return p
}

// learn remembers where a scrape found engines, or that it found none. Answered
// tells that the endpoint is up, so that its page may be at another path: only
// then has the scrape looked there, or counts as a search at all.
func (s *Scraper) learn(p plan, found Dialect, path string, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := p.endpoint
	switch {
	case found != nil:
		*e = endpoint{set: e.set, found: found, path: path}
	case e.found != nil:
		if e.fruitless++; e.fruitless >= forgetAfter {
			*e = endpoint{set: e.set}
		}
	case answered:
		e.searches++
		if p.other != "" {
			e.looks++
		}
	}
}

// known returns the dialects that may answer for an endpoint: the one that read
// its last page, else all candidates.
func (s *Scraper) known(key string) []Dialect {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.endpoints[key]
	if e != nil && e.found != nil {
		return []Dialect{e.found}
	}
	return s.candidates(e)
}

// forgetFound drops what was found out about an endpoint, and keeps what was
// set.
func (s *Scraper) forgetFound(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.endpoints[key]; e != nil && e.set == nil {
		delete(s.endpoints, key)
	}
}

// SetDialect has the page of the endpoint at base read in a dialect, whatever
// [Config.Dialect] says; nil takes that back. A set dialect is remembered until
// then, so take it back for an endpoint that is gone. A scrape that is under way
// still ends in the old dialect. The error is for a base that
// [Scraper.Scrape] refuses too.
func (s *Scraper) SetDialect(base *url.URL, d Dialect) error {
	if err := checkBase(base); err != nil {
		return err
	}
	key := endpointKey(base)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.flights, key) // nobody joins a scrape in the old dialect
	if d == nil {
		delete(s.endpoints, key)
	} else {
		s.endpoints[key] = &endpoint{set: d}
	}
	return nil
}

// paths returns the path to look at first, which is the first dialect's
// likeliest, and the others.
func paths(dialects []Dialect) (first string, others []string) {
	var all []string
	for _, d := range dialects {
		for _, path := range d.Paths() {
			if !slices.Contains(all, path) {
				all = append(all, path)
			}
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	return all[0], all[1:]
}

// answered tells whether an endpoint is up and its page is just not at the path:
// another path is worth a request then.
func answered(err error) bool {
	var status *StatusError
	if errors.As(err, &status) {
		return status.Code < http.StatusInternalServerError || status.Code == http.StatusNotImplemented
	}
	return err == nil || errors.Is(err, ErrNotMetrics)
}
