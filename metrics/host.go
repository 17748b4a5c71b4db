package metrics

import (
	"net"
	"net/url"
)

// SetHost has the endpoint at base be asked for everything under a name,
// host[:port], that is not the host of base: in the Host header, and, by the client
// that the scraper makes itself, in TLS, where the certificate must be valid for it.
// "" takes that back. The error is for a base that [Scraper.Scrape] refuses too.
func (s *Scraper) SetHost(base *url.URL, host string) error {
	if err := checkBase(base); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if host == "" {
		delete(s.hosts, endpointKey(base))
		delete(s.names, address(base))
	} else {
		s.hosts[endpointKey(base)] = host
		s.names[address(base)] = (&url.URL{Host: host}).Hostname()
	}
	return nil
}

// host is the Host header for an endpoint, empty if it is that of its URL.
func (s *Scraper) host(base *url.URL) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.hosts) == 0 {
		return ""
	}
	return s.hosts[endpointKey(base)]
}

// serverName is the name to ask a server at host:port for a certificate of.
func (s *Scraper) serverName(address string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := s.names[address]; name != "" {
		return name
	}
	return (&url.URL{Host: address}).Hostname()
}

// address is what a client dials for a URL.
func address(base *url.URL) string {
	port := base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
	}
	return net.JoinHostPort(base.Hostname(), port)
}
