package metrics

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
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
	// Dialect reads the pages. Default: [VLLM].
	Dialect Dialect
	// Interval is the pause of [Scraper.Watch] between two scrapes of one
	// endpoint. Default: 1 s.
	Interval time.Duration
	// Timeout bounds one request, from dialing to the last byte of the body.
	// Default: 1 s.
	Timeout time.Duration
	// MaxBytes bounds what is read of one page, after decompression. A longer
	// page is cut there. Default: 8 MiB.
	MaxBytes int64
}

// Scraper fetches and reads metrics pages. It is safe for concurrent use.
type Scraper struct {
	client   *http.Client
	owned    bool // the client is ours
	dialect  Dialect
	interval time.Duration
	timeout  time.Duration
	maxBytes int64
	buffers  sync.Pool // of *bytes.Buffer

	mu      sync.Mutex
	flights map[string]*flight // by the page's URL
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
		dialect:  config.Dialect,
		interval: cmp.Or(config.Interval, DefaultInterval),
		timeout:  cmp.Or(config.Timeout, DefaultTimeout),
		maxBytes: cmp.Or(config.MaxBytes, DefaultMaxBytes),
		flights:  make(map[string]*flight),
	}
	if s.dialect == nil {
		s.dialect = VLLM()
	}
	if config.Client == nil {
		s.client, s.owned = defaultClient(), true
	} else {
		client := *config.Client
		s.client = &client
	}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, nil
}

// defaultClient has a transport of its own, so that scrapes neither wait for
// nor close connections of requests, and no environment sends them through a
// proxy.
func defaultClient() *http.Client {
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Client{Transport: &http.Transport{
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}}
}

// CloseIdleConnections closes the idle connections of the scraper's own client.
// A client given in [Config] is left alone.
func (s *Scraper) CloseIdleConnections() {
	if s.owned {
		s.client.CloseIdleConnections()
	}
}

// Scrape fetches and reads the page of the endpoint at base, once. The
// dialect's path is added to the path of base, whose query is kept.
//
// Calls for the same page at the same time share one request. When ctx ends,
// the call returns with its error and the request goes on for the others; a
// request nobody waits for any more is cancelled.
//
// A page that ends early, by its length, the timeout or the connection, is
// returned with [Page.Err] set if at least one engine could be read. Otherwise
// there is an error, which wraps [*StatusError] for an answer other than 200,
// [ErrTooLong], [context.DeadlineExceeded] for a request that took longer than
// [Config.Timeout], or what the client said.
func (s *Scraper) Scrape(ctx context.Context, base *url.URL) (Page, error) {
	target, err := endpoint(base, s.dialect.Path())
	if err != nil {
		return Page{}, err
	}
	page, err := s.shared(ctx, target)
	page.Engines = slices.Clone(page.Engines) // others may have got the same page
	return page, err
}

// endpoint returns the URL of a path below base.
func endpoint(base *url.URL, path string) (*url.URL, error) {
	switch {
	case base == nil:
		return nil, errors.New("metrics: no base URL")
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, fmt.Errorf("metrics: base URL %q is not an http or https URL with a host", base.Redacted())
	}
	return base.JoinPath(path), nil
}

// scrape fetches and reads one page.
func (s *Scraper) scrape(ctx context.Context, target *url.URL) (Page, error) {
	body := s.buffer()
	defer s.buffers.Put(body)
	err := s.get(ctx, target, "text/plain;version=0.0.4", body)
	page := Page{Time: time.Now()}
	text := body.Bytes()
	if err != nil {
		// The last line may lack its end: "12" cut to "1" still is a number.
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	}
	engines, parseErr := s.dialect.Parse(text)
	if err != nil && len(engines) == 0 {
		return Page{}, err
	}
	page.Engines, page.Err = engines, errors.Join(err, parseErr)
	return page, nil
}

func (s *Scraper) buffer() *bytes.Buffer {
	if body, ok := s.buffers.Get().(*bytes.Buffer); ok {
		body.Reset()
		return body
	}
	return new(bytes.Buffer)
}

// get reads an answer's body. After an error, body holds what came before it.
func (s *Scraper) get(ctx context.Context, target *url.URL, accept string, body *bytes.Buffer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	request.Header.Set("Accept", accept)
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("metrics: %w", err) // a *url.Error, which names the URL
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		// Reading a short body to its end keeps the connection.
		_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
		err = &StatusError{Code: response.StatusCode}
	} else if _, err = body.ReadFrom(io.LimitReader(response.Body, s.maxBytes)); err == nil {
		err = s.atEnd(response.Body)
	}
	if err != nil {
		return fmt.Errorf("metrics: get %s: %w", target.Redacted(), err)
	}
	return nil
}

// atEnd returns nil if nothing is left of a body of which maxBytes may have
// been read.
func (s *Scraper) atEnd(body io.Reader) error {
	var next [1]byte
	switch n, err := io.ReadFull(body, next[:]); {
	case n > 0:
		return fmt.Errorf("%w of %d bytes", ErrTooLong, s.maxBytes)
	case err != io.EOF:
		return err
	}
	return nil
}
