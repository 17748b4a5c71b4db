package metrics

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/warmroute/warmroute/internal/tlsdial"
)

// defaultClient has a transport of its own, so that scrapes neither wait for
// nor close connections of requests, and no environment sends them through a
// proxy.
func defaultClient(serverName func(address string) string) *http.Client {
	const handshake = 10 * time.Second
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Client{Transport: &http.Transport{
		DialContext:            dialer.DialContext,
		DialTLSContext:         tlsdial.Func(dialer.DialContext, handshake, serverName),
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}}
}

// checkBase refuses what is not the base URL of an HTTP endpoint.
func checkBase(base *url.URL) error {
	switch {
	case base == nil:
		return errors.New("metrics: no base URL")
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return fmt.Errorf("metrics: base URL %q is not an http or https URL with a host", base.Redacted())
	}
	return nil
}

func (s *Scraper) buffer() *bytes.Buffer {
	if body, ok := s.buffers.Get().(*bytes.Buffer); ok {
		body.Reset()
		return body
	}
	return new(bytes.Buffer)
}

// SetAPIKey has the endpoint at base be asked for everything with a key, as
// "Authorization: Bearer"; "" takes that back. It is sent nowhere else: redirects
// are not followed. The error is for a base that [Scraper.Scrape] refuses too.
func (s *Scraper) SetAPIKey(base *url.URL, key string) error {
	if err := checkBase(base); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if key == "" {
		delete(s.keys, endpointKey(base))
	} else {
		s.keys[endpointKey(base)] = key
	}
	return nil
}

func (s *Scraper) apiKey(base *url.URL) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys) == 0 {
		return ""
	}
	return s.keys[endpointKey(base)]
}

// get reads an answer's body. After an error, body holds what came before it.
func (s *Scraper) get(ctx context.Context, base, target *url.URL, accept string, body *bytes.Buffer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	request.Header.Set("Accept", accept)
	if host := s.host(base); host != "" {
		request.Host = host
	}
	if key := s.apiKey(base); key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("metrics: %w", err) // a *url.Error, which names the URL
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		// Reading a short body to its end keeps the connection.
		_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
		err = &StatusError{Code: response.StatusCode}
	} else {
		err = s.readBody(response, body)
	}
	if err != nil {
		return fmt.Errorf("metrics: get %s: %w", target.Redacted(), err)
	}
	return nil
}

// readBody reads at most maxBytes of a body.
func (s *Scraper) readBody(response *http.Response, body *bytes.Buffer) error {
	var source io.Reader = response.Body
	// net/http unpacks what it asked for itself and takes the header away: this
	// is a client that does not, or a server that packs without being asked.
	if strings.EqualFold(response.Header.Get("Content-Encoding"), "gzip") {
		unpacked, err := gzip.NewReader(source)
		if err != nil {
			return err
		}
		source = unpacked
	}
	if _, err := body.ReadFrom(io.LimitReader(source, s.maxBytes)); err != nil {
		return err
	}
	var next [1]byte
	switch n, err := io.ReadFull(source, next[:]); {
	case n > 0:
		return fmt.Errorf("%w of %d bytes", ErrTooLong, s.maxBytes)
	case err != io.EOF:
		return err
	}
	return nil
}
