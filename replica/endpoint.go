package replica

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// MaxRanks bounds the data-parallel ranks of one endpoint.
const MaxRanks = 1024

// Endpoint says where a server listens and what it serves.
type Endpoint struct {
	// URL is the server's base: http or https, host, optional port, optional
	// path prefix. A request for /v1/chat/completions goes to
	// URL/v1/chat/completions and metrics are read from URL/metrics, so the
	// prefix must not include /v1. User info, query and fragment are refused.
	URL string `json:"url"`

	// Model is the name of the pool the endpoint joins: requests whose body
	// names this model go there. Empty is the default pool, which takes every
	// model that no other pool serves.
	Model string `json:"model,omitempty"`

	// Ranks is the number of data-parallel ranks behind the URL, each of
	// which becomes a replica, chosen with the X-data-parallel-rank header
	// (honoured by vLLM since 0.14.0). Zero means that the number is to be
	// discovered from the distinct engine labels of the metrics page; until
	// then the endpoint counts as one replica and gets no rank header.
	// 1 to MaxRanks otherwise.
	Ranks int `json:"ranks,omitempty"`

	// Engine names what serves there, as package metrics names its dialects:
	// "vllm", "sglang" and so on. Empty, it is found out from the metrics page.
	Engine string `json:"engine,omitempty"`

	// Host is the name, host[:port], that requests to the endpoint carry as their
	// Host header, and metrics requests too, and that its TLS certificate is asked for
	// and must be valid for; for endpoints whose URL has an address where their name
	// should be, as discovery finds them. Empty, the URL's own host is all of that. A
	// Host header that the caller of the transport has set itself goes first.
	Host string `json:"host,omitempty"`

	// APIKey is sent to the endpoint as "Authorization: Bearer", in the place of
	// what the client sent, with requests and when its metrics, version and models
	// are read; vLLM's --api-key wants it. It is sent to no other endpoint, and
	// shown in neither the text nor the JSON of an Endpoint. Empty, the client's own
	// header is passed on. Visible ASCII characters.
	APIKey string `json:"-"`
}

// authorization is the value of the Authorization header, nil if there is no key.
func (e Endpoint) authorization() []string {
	if e.APIKey == "" {
		return nil
	}
	return []string{"Bearer " + e.APIKey}
}

// GoString is [Endpoint.String] in the form of %#v, which would show the key.
func (e Endpoint) GoString() string { return fmt.Sprintf("replica.Endpoint(%q)", e.String()) }

// ParseEndpoint reads the flag form of an endpoint,
// URL[,ranks=N][,model=NAME][,engine=NAME][,host=NAME], and checks it as [NewSet]
// would. Unlike the zero value of the field, ranks=0 is refused: leave it out to have the ranks discovered.
func ParseEndpoint(s string) (Endpoint, error) {
	var e Endpoint
	parts := strings.Split(s, ",")
	e.URL = strings.TrimSpace(parts[0])
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		switch strings.TrimSpace(key) {
		case "ranks":
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil || n < 1 || n > MaxRanks {
				return Endpoint{}, ranksError(value)
			}
			e.Ranks = n
		case "model":
			e.Model = strings.TrimSpace(value)
			if e.Model == "" {
				return Endpoint{}, &ConfigError{Field: "model", Value: value, Allowed: "a model's name"}
			}
		case "engine":
			e.Engine = strings.TrimSpace(value)
			if e.Engine == "" {
				return Endpoint{}, &ConfigError{Field: "engine", Value: value, Allowed: "an engine's name"}
			}
		case "host":
			e.Host = strings.TrimSpace(value)
			if e.Host == "" {
				return Endpoint{}, hostError(value)
			}
		default:
			return Endpoint{}, &ConfigError{Field: "endpoint", Value: part, Allowed: "URL[,ranks=N][,model=NAME][,engine=NAME][,host=NAME]"}
		}
	}
	if _, err := e.base(); err != nil {
		return Endpoint{}, err
	}
	return e, nil
}

// String returns the flag form that [ParseEndpoint] reads, without the key.
func (e Endpoint) String() string {
	s := e.URL
	if e.Ranks != 0 {
		s += ",ranks=" + strconv.Itoa(e.Ranks)
	}
	if e.Model != "" {
		s += ",model=" + e.Model
	}
	if e.Engine != "" {
		s += ",engine=" + e.Engine
	}
	if e.Host != "" {
		s += ",host=" + e.Host
	}
	return s
}

// base checks the endpoint and returns its URL in canonical form, so that two
// spellings of one server are seen to be the same.
func (e Endpoint) base() (*url.URL, error) {
	refuse := func() error {
		return &ConfigError{Field: "URL", Value: redacted(e.URL),
			Allowed: "http(s)://host[:port][/prefix] without user info, query or fragment"}
	}
	u, err := url.Parse(e.URL)
	if err != nil || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery ||
		u.Fragment != "" || u.Hostname() == "" || strings.Contains(e.URL, "#") {
		return nil, refuse()
	}
	u.Scheme = strings.ToLower(u.Scheme)
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, refuse()
	}
	u.Host = strings.ToLower(u.Host)
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, refuse()
		}
	} else {
		u.Host = strings.TrimSuffix(u.Host, ":")
	}
	if u.Scheme == "http" {
		u.Host = strings.TrimSuffix(u.Host, ":80")
	} else {
		u.Host = strings.TrimSuffix(u.Host, ":443")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	if e.Ranks < 0 || e.Ranks > MaxRanks {
		return nil, ranksError(strconv.Itoa(e.Ranks))
	}
	if e.Host != "" && !validHost(e.Host) {
		return nil, hostError(e.Host)
	}
	for i := range len(e.APIKey) {
		if c := e.APIKey[i]; c <= ' ' || c > '~' {
			return nil, &ConfigError{Field: "API key", Value: "xxxxx", Allowed: "visible ASCII characters"}
		}
	}
	return u, nil
}

// validHost reports whether s is the host[:port] of a URL and nothing else.
func validHost(s string) bool {
	u, err := url.Parse("//" + s)
	return err == nil && u.Host == s && u.User == nil && u.Hostname() != "" && !strings.HasSuffix(s, ":") && !strings.ContainsAny(s, " \t")
}

func hostError(value string) error {
	return &ConfigError{Field: "host", Value: redacted(value), Allowed: "host[:port]"}
}

func ranksError(value string) error {
	return &ConfigError{Field: "ranks", Value: value,
		Allowed: fmt.Sprintf("1 to %d, or left out to be discovered", MaxRanks)}
}

// Name checks the endpoint as [NewSet] would and returns the name that its
// replicas have before the @: host:port[/prefix], the port always spelled out.
// Two endpoints of one name are the same server, however their URLs are spelled.
func (e Endpoint) Name() (string, error) {
	u, err := e.base()
	if err != nil {
		return "", err
	}
	return name(u), nil
}

// name spells the port out, since http://host and https://host are two servers.
func name(u *url.URL) string {
	host := u.Host
	if u.Port() == "" {
		host += map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	}
	return host + u.Path
}

// redacted hides what a URL may carry as a secret, so that an error about it
// can be logged.
func redacted(raw string) string {
	rest := raw
	if i := strings.Index(raw, "://"); i >= 0 {
		rest = raw[i+3:]
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		raw = strings.Replace(raw, authority[:i], "xxxxx", 1)
	}
	if i := strings.Index(raw, "?"); i >= 0 {
		raw = raw[:i] + "?xxxxx"
	}
	return raw
}

// ConfigError is returned for a setting that is refused at construction.
type ConfigError struct {
	Field   string // the setting
	Value   string // what was given
	Allowed string // what would be taken
}

// Error names the field, the value and what is allowed.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("warmroute: %s: %q refused; allowed: %s", e.Field, e.Value, e.Allowed)
}
