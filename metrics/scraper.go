package metrics

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Defaults of [Config].
const (
	DefaultInterval = time.Second
	DefaultTimeout  = time.Second
	DefaultMaxBytes = 8 << 20
)

// ErrTooLong is wrapped by the errors about an answer longer than
// [Config.MaxBytes].
var ErrTooLong = errors.New("longer than the limit")

// ErrNotMetrics is wrapped by the error about an answer that is no metrics page,
// such as HTML or JSON. An empty answer is a metrics page without series.
var ErrNotMetrics = errors.New("not a metrics page")

// StatusError is wrapped by the errors about an answer other than 200. A
// redirect is such an answer.
type StatusError struct {
	Code int // the HTTP status
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("status %d %s", e.Code, http.StatusText(e.Code))
}

// Config is how a [Scraper] scrapes. The zero value of every field is its
// default.
type Config struct {
	// Client sends the requests. The default uses no proxy, no cookies and no
	// more than two idle connections to an endpoint. Redirects are not
	// followed, whatever the client's CheckRedirect says.
	Client *http.Client
	// Dialect reads the pages, but those of [Scraper.SetDialect]. Default: each
	// endpoint's dialect is found out, from [Dialects], by the first page that
	// has an engine's series.
	Dialect Dialect
	// Interval is the pause of [Scraper.Watch] between two scrapes of one
	// endpoint. Default: 1 s.
	Interval time.Duration
	// Jitter gives the numbers, 0 to 1, by which [Scraper.Watch] varies its
	// pauses. It must be safe for concurrent use. Default: math/rand/v2.Float64.
	Jitter func() float64
	// Timeout bounds one scrape, from dialing to the last byte of the body.
	// Default: 1 s.
	Timeout time.Duration
	// MaxBytes bounds what is read of one page, after decompression. A longer
	// page is cut there. Default: 8 MiB.
	MaxBytes int64
}

// Scraper fetches and reads metrics pages. It is safe for concurrent use.
type Scraper struct {
	client   *http.Client
	owned    bool      // the client is ours
	dialects []Dialect // of endpoints for which none is set
	interval time.Duration
	jitter   func() float64
	timeout  time.Duration
	maxBytes int64
	buffers  sync.Pool // of *bytes.Buffer

	mu        sync.Mutex
	flights   map[string]*flight   // by endpointKey
	endpoints map[string]*endpoint // by endpointKey
	keys      map[string]string    // API keys by endpointKey
	hosts     map[string]string    // Host headers by endpointKey
	names     map[string]string    // of TLS certificates, by host:port
	watches   map[string]watching  // by endpointKey
}

// NewScraper returns a scraper. It refuses negative durations and sizes.
func NewScraper(config Config) (*Scraper, error) {
	switch {
	case config.Interval < 0:
		return nil, fmt.Errorf("metrics: negative interval %v", config.Interval)
	case config.Timeout < 0:
		return nil, fmt.Errorf("metrics: negative timeout %v", config.Timeout)
	case config.MaxBytes < 0:
		return nil, fmt.Errorf("metrics: negative limit of %d bytes", config.MaxBytes)
	}
	s := &Scraper{
		dialects:  Dialects(),
		interval:  cmp.Or(config.Interval, DefaultInterval),
		jitter:    config.Jitter,
		timeout:   cmp.Or(config.Timeout, DefaultTimeout),
		maxBytes:  cmp.Or(config.MaxBytes, DefaultMaxBytes),
		flights:   make(map[string]*flight),
		endpoints: make(map[string]*endpoint),
		keys:      make(map[string]string),
		hosts:     make(map[string]string),
		names:     make(map[string]string),
		watches:   make(map[string]watching),
	}
	if s.jitter == nil {
		s.jitter = rand.Float64
	}
	if config.Dialect != nil {
		s.dialects = []Dialect{config.Dialect}
	}
	if config.Client == nil {
		s.client, s.owned = defaultClient(s.serverName), true
	} else {
		client := *config.Client
		s.client = &client
	}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, nil
}

// CloseIdleConnections closes the idle connections of the scraper's own client.
// A client given in [Config] is left alone.
func (s *Scraper) CloseIdleConnections() {
	if s.owned {
		s.client.CloseIdleConnections()
	}
}

// Scrape fetches and reads the page of the endpoint at base, once. The page's
// path is added to the path of base, whose query is kept.
//
// Where the page's path or dialect is not known yet, a page without an engine's
// series leads to one more request, to another of the possible paths; the next
// scrape goes on with the next path. What is found is kept until the page shows
// another engine's series, or five scrapes in a row find none. An endpoint that
// never shows an engine is soon asked for other paths in every eighth scrape
// only.
//
// Calls for the same endpoint at the same time share one scrape. When ctx ends,
// the call returns with its error and the scrape goes on for the others; one
// nobody waits for any more is cancelled.
//
// A page that ends early, by its length, the timeout or the connection, is
// returned with [Page.Err] set if at least one engine could be read. Otherwise
// there is an error, which wraps [*StatusError] for an answer other than 200,
// [ErrNotMetrics] for one that is no metrics page, [ErrTooLong],
// [context.DeadlineExceeded] for a scrape that took longer than
// [Config.Timeout], or what the client said.
func (s *Scraper) Scrape(ctx context.Context, base *url.URL) (Page, error) {
	if err := checkBase(base); err != nil {
		return Page{}, err
	}
	page, err := s.shared(ctx, endpointKey(base), base)
	return page.clone(), err // others may have got the same page
}

// scrape fetches and reads an endpoint's page, wherever it is.
func (s *Scraper) scrape(ctx context.Context, key string, base *url.URL) (Page, error) {
	p := s.plan(key)
	path := p.path
	page, found, err := s.read(ctx, base, path, p)
	up := found == nil && answered(err)
	if up && p.other != "" {
		if other, d, otherErr := s.read(ctx, base, p.other, p); d != nil {
			page, found, err, path = other, d, otherErr, p.other
		}
	}
	s.learn(p, found, path, up)
	return page, err
}

// read fetches and reads one page. The dialect is nil if no engine was found.
func (s *Scraper) read(ctx context.Context, base *url.URL, path string, p plan) (Page, Dialect, error) {
	target := base.JoinPath(path)
	body := s.buffer()
	defer s.buffers.Put(body)
	asked := time.Now()
	err := s.get(ctx, base, target, "text/plain;version=0.0.4", body)
	at := time.Now()
	text := body.Bytes()
	if err != nil {
		// The last line may lack its end: "12" cut to "1" still is a number.
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	}
	page, found, parseErr := parse(text, p.known, p.dialects)
	if found == nil {
		if err == nil && parseErr == nil && !isMetricsPage(text) {
			err = fmt.Errorf("metrics: get %s: %w", target.Redacted(), ErrNotMetrics)
		}
		if err != nil {
			return Page{}, nil, err
		}
		page.NoEngineSeries = parseErr == nil
	}
	page.Asked, page.Time, page.Err = asked, at, errors.Join(err, parseErr)
	return page, found, nil
}

// parse reads a page in the dialect that finds engines on it: the known one, or
// the first of the others. Without any it returns what they could not read.
func parse(text []byte, known Dialect, dialects []Dialect) (Page, Dialect, error) {
	if known != nil {
		page, err := known.Parse(text)
		if len(page.Engines) > 0 {
			page.Dialect = known.Name()
			return page, known, err
		}
	}
	var page Page
	var errs []error
	for _, d := range dialects {
		read, err := d.Parse(text)
		if len(read.Engines) > 0 {
			read.Dialect = d.Name()
			return read, d, err
		}
		if page.LoRA == nil {
			page.LoRA = read.LoRA
		}
		errs = append(errs, err)
	}
	return page, nil, errors.Join(errs...)
}
