package bench

import (
	"fmt"
	"net/http"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// cluster is simulated engines that are reached in memory.
type cluster struct {
	engines   Engines
	endpoints []warmroute.Endpoint
	servers   []*fakevllm.Server
	byHost    map[string]*fakevllm.Server
}

func newCluster(e Engines, seed uint64) (*cluster, error) {
	c := &cluster{engines: e, byHost: map[string]*fakevllm.Server{}}
	for i := range e.Endpoints {
		at := e.endpoint(i)
		server, err := fakevllm.New(e.config(seed + uint64(i)))
		if err != nil {
			return nil, fmt.Errorf("bench: engines: %w", err)
		}
		c.endpoints = append(c.endpoints, at)
		c.servers = append(c.servers, server)
		c.byHost[at.URL[len("http://"):]] = server
	}
	return c, nil
}

func (c *cluster) close() {
	for _, s := range c.servers {
		_ = s.Close() // always nil
	}
}

// RoundTrip brings a request to the server that its URL names.
func (c *cluster) RoundTrip(req *http.Request) (*http.Response, error) {
	server := c.byHost[req.URL.Host]
	if server == nil {
		return nil, fmt.Errorf("bench: no engine at %q", req.URL.Host)
	}
	return server.RoundTrip(req)
}

// replicaCounts are the counters of one replica at one moment. One that is not
// known is NaN.
type replicaCounts struct {
	running, waiting float64
	queries, hits    float64 // of the prefix cache, tokens
	prompt, cached   float64 // of requests with a first token, tokens
	generated        float64 // tokens
	preemptions      float64
}

// replicas are the names of the replicas.
func (c *cluster) replicas() []string {
	var names []string
	for _, at := range c.endpoints {
		for rank := range c.engines.Ranks {
			name := at.URL[len("http://"):]
			if c.engines.Ranks > 1 {
				name = fmt.Sprintf("%s rank %d", name, rank)
			}
			names = append(names, name)
		}
	}
	return names
}

// counts are the counters of all replicas, in the order of replicas.
func (c *cluster) counts() []replicaCounts {
	var all []replicaCounts
	for _, s := range c.servers {
		for rank := range c.engines.Ranks {
			n := s.Rank(rank)
			all = append(all, replicaCounts{
				running: float64(n.Running), waiting: float64(n.Waiting),
				queries: float64(n.PrefixQueries), hits: float64(n.PrefixHits),
				prompt: float64(n.PromptTokens), cached: float64(n.CachedTokens),
				generated: float64(n.GenerationTokens), preemptions: float64(n.Preemptions),
			})
		}
	}
	return all
}
