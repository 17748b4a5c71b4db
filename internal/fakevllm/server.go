package fakevllm

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
)

// Server is a simulated vLLM server. It is an [http.Handler] and an
// [http.RoundTripper], both safe for concurrent use.
type Server struct {
	cfg        Config
	major      int // of the version
	minor      int
	routes     map[string]route
	runs       runLog
	ids        atomic.Uint64
	life       atomic.Pointer[life]
	fault      atomic.Pointer[faulted]
	deliveries deliveries

	mu      sync.Mutex
	stopped bool
	closed  bool
	sockets map[*Socket]struct{}
}

// New starts a server. The error names a field of cfg that is out of its
// range, and the field's value.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, runs: runLog{size: cfg.LogSize}}
	s.major, s.minor, _ = parseVersion(cfg.Version)
	s.routes = s.newRoutes()
	s.fault.Store(&faulted{over: make(chan struct{})})
	s.life.Store(s.newLife(cfg.Ranks, cfg.Model))
	return s, nil
}

// version reports whether the simulated version is at least major.minor.
func (s *Server) version(major, minor int) bool {
	return s.major > major || s.major == major && s.minor >= minor
}

// submit queues a sequence on the rank asked for, or, if rank is negative, on
// the one that the API server which has the request chooses, and returns that
// rank's engine.
func (s *Server) submit(q *sequence, rank int) (*engine, error) {
	l := s.life.Load()
	if rank < 0 {
		front := mix(mix(s.cfg.Seed, 'a'), uint64(q.text)) % uint64(len(l.fronts))
		rank = l.fronts[front].choose(l)
	}
	if rank >= len(l.ranks) {
		return nil, errEngineDead // it was started anew with fewer meanwhile
	}
	if err := l.ranks[rank].submit(q); err != nil {
		return nil, err
	}
	s.deliveries.add(q.id, Delivery{Run: 1})
	return l.ranks[rank], nil
}

// newID returns an id that repeats with the seed and the order of requests.
func (s *Server) newID() id { return id(mix(mix(s.cfg.Seed, 'i'), s.ids.Add(1))) }

// fingerprint is the system_fingerprint of the answers.
func (s *Server) fingerprint() string {
	parallel := ""
	if ranks := len(s.life.Load().ranks); ranks > 1 {
		parallel = "-dp" + strconv.Itoa(ranks)
	}
	return fmt.Sprintf("vllm-%s%s-%08x", s.cfg.Version, parallel, uint32(mix(s.cfg.Seed, 'f')))
}

var (
	_ http.Handler      = (*Server)(nil)
	_ http.RoundTripper = (*Server)(nil)
)
