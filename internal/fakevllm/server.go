package fakevllm

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Server is a simulated vLLM server. It is an [http.Handler] and an
// [http.RoundTripper], both safe for concurrent use.
type Server struct {
	cfg     Config
	major   int // of the version
	minor   int
	started time.Time
	routes  map[string]route
	ranks   []*engine
	runs    runLog
	ids     atomic.Uint64

	// ctx ends when the server closes.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // engines and round trips

	mu     sync.Mutex
	closed bool
	scan   int // rank where the next balancing decision starts
}

// New starts a server. The error names a field of cfg that is out of its
// range, and the field's value.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, started: time.Now(), runs: runLog{size: cfg.LogSize}}
	s.major, s.minor, _ = parseVersion(cfg.Version)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.routes = s.newRoutes()
	for rank := range cfg.Ranks {
		e := newEngine(rank, &s.cfg, &s.runs)
		s.ranks = append(s.ranks, e)
		s.wg.Go(func() { e.loop(s.ctx) })
	}
	return s, nil
}

// Close ends the ranks and waits for them and for the handlers of round trips.
// Requests under way end with an error; ServeHTTP answers like a server whose
// engine is dead from then on, RoundTrip returns [http.ErrServerClosed]. The
// error is always nil.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	return nil
}

// version reports whether the simulated version is at least major.minor.
func (s *Server) version(major, minor int) bool {
	return s.major > major || s.major == major && s.minor >= minor
}

// submit queues a sequence on the rank asked for, or on the least loaded one
// if rank is negative, and returns that rank's engine.
//
// Balancing is vLLM's from 0.10.2 to 0.26: waiting*4 + running, the lowest
// wins, and the scan starts one rank further each time. vLLM's frontend knows
// the counts of up to 100 ms ago, corrected by its own requests; here they are
// exact.
func (s *Server) submit(q *sequence, rank int) (*engine, error) {
	if rank >= 0 {
		return s.ranks[rank], s.ranks[rank].submit(q)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	best, least := 0, -1
	for i := range s.ranks {
		at := (s.scan + i) % len(s.ranks)
		running, waiting := s.ranks[at].load()
		if score := waiting*4 + running; least < 0 || score < least {
			best, least = at, score
		}
	}
	s.scan = (s.scan + 1) % len(s.ranks)
	return s.ranks[best], s.ranks[best].submit(q)
}

// newID returns an id that repeats with the seed and the order of requests.
func (s *Server) newID() id { return id(mix(mix(s.cfg.Seed, 'i'), s.ids.Add(1))) }

// fingerprint is the system_fingerprint of the answers.
func (s *Server) fingerprint() string {
	parallel := ""
	if len(s.ranks) > 1 {
		parallel = "-dp" + strconv.Itoa(len(s.ranks))
	}
	return fmt.Sprintf("vllm-%s%s-%08x", s.cfg.Version, parallel, uint32(mix(s.cfg.Seed, 'f')))
}

var (
	_ http.Handler      = (*Server)(nil)
	_ http.RoundTripper = (*Server)(nil)
)
