package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/warmroute/warmroute/bench/report"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

const (
	// sampleInterval is the time between two looks at the engines.
	sampleInterval = time.Second
	// sampleOffset keeps the samples apart from whatever else happens at whole
	// seconds.
	sampleOffset = 137 * time.Microsecond
	// settleTime is the time before a run's first step: gateways scrape.
	settleTime = 2 * time.Second
	// drainTime is how long the turns of a step that is over may take.
	drainTime = 10 * time.Minute
	// roundTripTime is the least time between an answer and what follows it.
	roundTripTime = 2 * time.Millisecond
)

// simulation is one policy under one seed, for steps that follow one another in
// one bubble of virtual time.
type simulation struct {
	w      *Workload // filled
	policy Policy
	seed   uint64
	steps  []int // indices into w.Steps
	stop   context.Context

	order    *order
	cluster  *cluster
	gateways []Gateway
	crowd    *crowd
	rows     []report.Row
}

// run runs the steps. It must be called in a bubble.
func (s *simulation) run() (err error) {
	s.order = newOrder()
	defer s.order.close()
	if s.cluster, err = newCluster(s.w.Engines, s.seed); err != nil {
		return err
	}
	defer s.cluster.close()
	defer func() {
		for _, g := range s.gateways {
			if g.Close != nil {
				err = errors.Join(err, g.Close())
			}
		}
	}()
	s.crowd = &crowd{w: s.w, seed: s.seed, trip: roundTripTime, connect: s.connect}
	for i := range s.w.Gateways {
		g, err := s.policy.Connect(Site{
			Endpoints: s.cluster.endpoints, Base: &exit{s.order, strconv.Itoa(i), s.cluster},
			MaxNumSeqs: s.w.Engines.MaxNumSeqs, Random: s.crowd.random(forGateway, i, 0),
			order: s.order,
		})
		if err != nil {
			return fmt.Errorf("bench: policy %q: %w", s.policy.Name, err)
		}
		s.gateways = append(s.gateways, g)
	}
	time.Sleep(settleTime)
	for _, i := range s.steps {
		row, err := s.step(i)
		if err != nil {
			return err
		}
		s.rows = append(s.rows, row)
	}
	return nil
}

// connect makes the i-th client of a step.
func (s *simulation) connect(i int) *client {
	g := s.gateways[i%len(s.gateways)]
	return &client{http: &http.Client{Transport: &entrance{s.order, g.Transport}}, url: "http://gateway", model: model, session: conversationHeader}
}

// step runs one step.
func (s *simulation) step(index int) (report.Row, error) {
	sessions := s.w.Steps[index]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	counted := newSampler(s.cluster.replicas(), s.counts())
	st := newStep(ctx, s.w, 0)

	var clients, others sync.WaitGroup
	s.crowd.start(st, index, sessions, &clients)
	s.outages(index, &others)
	whole := st.observe(counted, s.counts, func() bool { return s.stop.Err() != nil })
	if !whole {
		cancel()
	}
	limit := time.AfterFunc(drainTime, cancel)
	clients.Wait()
	limit.Stop()
	others.Wait()
	if !whole {
		return report.Row{}, context.Cause(s.stop)
	}
	return st.row(s.policy.Name, sessions, counted, s.visits(st.began)), nil
}

// counts are the engines' counters as they are before anything is sent or
// answered at the moment.
func (s *simulation) counts() []replicaCounts {
	s.order.pass(mark{})
	return s.cluster.counts()
}

// outages stops and starts endpoints as the workload says.
func (s *simulation) outages(index int, others *sync.WaitGroup) {
	for _, o := range s.w.Outages {
		if o.Step != index {
			continue
		}
		others.Go(func() {
			time.Sleep(o.From)
			s.order.pass(mark{name: "outage"})
			s.cluster.servers[o.Endpoint].Stop()
			time.Sleep(o.To - o.From)
			s.order.pass(mark{name: "outage"})
			s.cluster.servers[o.Endpoint].Start()
		})
	}
}

// visits are the requests that arrived at the engines since a moment.
func (s *simulation) visits(since time.Time) []visit {
	var all []visit
	for i, server := range s.cluster.servers {
		log := server.Log()
		// Several ranks may end a request at the same moment.
		slices.SortStableFunc(log, func(a, b fakevllm.Run) int {
			return cmp.Or(a.Ended.Compare(b.Ended), cmp.Compare(a.Rank, b.Rank))
		})
		for _, r := range log {
			if !r.Arrived.Before(since) {
				all = append(all, visit{r.Session, r.Arrived, i*s.w.Engines.Ranks + r.Rank})
			}
		}
	}
	return all
}
