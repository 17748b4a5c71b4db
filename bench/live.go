package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/bench/report"
)

// Defaults of [Live].
const (
	DefaultMaxRequests = 10_000
	DefaultDrain       = 2 * time.Minute
)

// Live runs workloads over HTTP and in real time, against engines that are
// there: straight, through a gateway, or through somebody else's router. Its
// zero value is ready; a row has more figures the more it is told.
//
// It sends what a simulation of the same workload and seed sends: streamed chat
// completions to POST /v1/chat/completions, with the same sizes and, as far as
// the answers allow, at the same times. The workload's Engines and Gateways are
// not looked at.
type Live struct {
	// Metrics are the base URLs of all engines, whose metrics pages are read
	// each second; nothing else should be running on them. Without them there is
	// no hit share, and output and cached share are what the answers say of
	// themselves.
	Metrics []string
	// Model is the model that is asked for. Default: the first one that the
	// first target lists at GET /v1/models.
	Model string
	// SessionHeader is the request header that names the conversation. Default
	// "X-Session-Id".
	SessionHeader string
	// ReplicaHeader is the response header that names the replica, for the
	// stayed share. Default [warmroute.ReplicaHeader], which our own transport
	// adds if it is told to.
	ReplicaHeader string
	// Header is added to all requests to targets, such as Authorization.
	Header http.Header
	// IgnoreEOS asks for answers of exactly the length that the workload wants,
	// with "ignore_eos", which vLLM and SGLang know.
	IgnoreEOS bool
	// MaxRequests ends a step early. Default [DefaultMaxRequests].
	MaxRequests int
	// Drain is how long the turns of a step that is over may take; what is not
	// answered by then is cancelled and counts as failed. Default
	// [DefaultDrain].
	Drain time.Duration
	// Salt decides the words of all texts, and is part of the conversations'
	// names. Default: another one for each run, so that what an earlier run left
	// in the caches is of no use to it. Targets, seeds and the steps of a Cold
	// workload differ in words in any case.
	Salt string
	// Transport carries all requests. Default: one of its own, without a proxy.
	Transport http.RoundTripper
	// Progress is told what is about to start, of how many, and Update each
	// second how far that is. They may be nil.
	Progress func(what string, started, of int)
	Update   func(detail string)
}

// Target is one way to the engines.
type Target struct {
	// Name is what the table calls it.
	Name string
	// URLs are base URLs without /v1: of a gateway, or of engines. A step's
	// clients take them in turn, and each sends all its turns to its own.
	URLs []string
}

// Table runs the workload through every target, one after another. Rows are as
// those of [Runner.Table], with targets in the place of policies.
//
// If the workload has no TokenBytes the size of a token is found out first, by
// two short requests. The error is the cause of the end of ctx, one of a
// workload or a Live that cannot be run, outages and an engine that is named twice
// among these, or one of an engine or target that does not answer to begin with; later failures are counted in the table.
// Even with an error the table has the steps that were complete.
func (l Live) Table(ctx context.Context, w Workload, targets ...Target) (report.Table, error) {
	if len(w.Outages) > 0 {
		return report.Table{}, fmt.Errorf("bench: workload %q has outages, which a live run cannot make", w.Name)
	}
	tokenBytes := w.TokenBytes
	w = w.filled()
	if err := w.check(); err != nil {
		return report.Table{}, err
	}
	for _, t := range targets {
		if len(t.URLs) == 0 {
			return report.Table{}, fmt.Errorf("bench: target %q has no URL", t.Name)
		}
	}
	if len(targets) == 0 {
		return report.Table{}, errors.New("bench: no target")
	}
	if l.MaxRequests < 0 || l.Drain < 0 {
		return report.Table{}, fmt.Errorf("bench: live: MaxRequests is %d and Drain %v, want neither below 0", l.MaxRequests, l.Drain)
	}
	l.SessionHeader = cmp.Or(l.SessionHeader, conversationHeader)
	l.ReplicaHeader = cmp.Or(l.ReplicaHeader, warmroute.ReplicaHeader)
	l.MaxRequests = cmp.Or(l.MaxRequests, DefaultMaxRequests)
	l.Drain = cmp.Or(l.Drain, DefaultDrain)
	l.Salt = cmp.Or(l.Salt, fmt.Sprintf("%08x", rand.Uint32()))
	if l.Transport == nil {
		own := liveTransport()
		defer own.CloseIdleConnections()
		l.Transport = own
	}
	run := &liveRun{live: l, w: &w}
	if err := run.prepare(ctx, &targets[0], tokenBytes); err != nil {
		return report.Table{}, err
	}
	return run.table(ctx, targets)
}

// liveTransport is as http.DefaultTransport, with connections for many clients
// of few hosts.
func liveTransport() *http.Transport {
	t := &http.Transport{ForceAttemptHTTP2: true}
	if d, ok := http.DefaultTransport.(*http.Transport); ok {
		t = d.Clone()
	}
	t.Proxy = nil
	t.DisableCompression = true
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 1024
	return t
}

// liveRun is a run of a Live, which is filled in.
type liveRun struct {
	live    Live
	w       *Workload
	model   string
	engines *liveEngines
}

// prepare finds out what the run has to know.
func (r *liveRun) prepare(ctx context.Context, t *Target, tokenBytes float64) (err error) {
	if r.model = r.live.Model; r.model == "" {
		if r.model, err = r.live.servedModel(ctx, t.URLs[0]); err != nil {
			return fmt.Errorf("bench: target %q: which model: %w", t.Name, err)
		}
	}
	if tokenBytes == 0 {
		if r.w.TokenBytes, err = calibrate(ctx, r.client(t, 0), r.live.SessionHeader, r.live.Salt); err != nil {
			return fmt.Errorf("bench: target %q: size of a token: %w", t.Name, err)
		}
	}
	r.engines, err = newLiveEngines(ctx, r.live.Metrics, r.live.Transport)
	return err
}

// client is the i-th client of a step.
func (r *liveRun) client(t *Target, i int) *client {
	c := &client{
		http: &http.Client{Transport: r.live.Transport}, url: t.URLs[i%len(t.URLs)], model: r.model,
		session: r.live.SessionHeader, replica: r.live.ReplicaHeader, header: r.live.Header,
	}
	if r.live.IgnoreEOS {
		c.extra = `,"ignore_eos":true`
	}
	return c
}

func (r *liveRun) table(ctx context.Context, targets []Target) (report.Table, error) {
	table := report.Table{
		Title: r.w.Name, Workload: r.w.About, Seeds: r.w.Seeds, Published: r.w.Published,
		Engines: fmt.Sprintf("model %s, %d replicas, %.2f bytes of text a token", r.model, len(r.engines.names), r.w.TokenBytes),
	}
	rows := make([][][]report.Row, len(r.w.Steps)) // by step, then target, then seed
	for i := range rows {
		rows[i] = make([][]report.Row, len(targets))
	}
	err := r.rows(ctx, targets, func(step, target int, row report.Row) {
		rows[step][target] = append(rows[step][target], row)
	})
	for step := range rows {
		for _, same := range rows[step] {
			if len(same) > 0 {
				table.Rows = append(table.Rows, mean(same))
			}
		}
	}
	return table, err
}

// rows runs everything, and says what each step came to.
func (r *liveRun) rows(ctx context.Context, targets []Target, done func(step, target int, row report.Row)) error {
	started, of := 0, len(targets)*len(r.w.Seeds)*len(r.w.Steps)
	for i := range targets {
		t := &targets[i]
		for _, seed := range r.w.Seeds {
			for step, sessions := range r.w.Steps {
				started++
				if r.live.Progress != nil {
					r.live.Progress(fmt.Sprintf("%s, %s, seed %d", t.Name, numberOf(sessions), seed), started, of)
				}
				salt := fmt.Sprintf("%s-%d-%d-", r.live.Salt, i, seed)
				if r.w.Cold {
					salt += fmt.Sprintf("%d-", step)
				}
				row, err := r.step(ctx, t, step, &crowd{
					w: r.w, seed: seed, salt: salt, connect: func(i int) *client { return r.client(t, i) },
				})
				if err != nil {
					return err
				}
				done(step, i, row)
			}
		}
	}
	return nil
}

// step runs one step.
func (r *liveRun) step(outer context.Context, t *Target, index int, clients *crowd) (report.Row, error) {
	sessions := r.w.Steps[index]
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	counts := func() []replicaCounts { return r.engines.counts(ctx) }
	counted := newSampler(r.engines.names, counts())
	st := newStep(ctx, r.w, r.live.MaxRequests)
	var all sync.WaitGroup
	clients.start(st, index, sessions, &all)
	whole := st.observe(counted, counts, func() bool {
		if r.live.Update != nil {
			r.live.Update(st.progress())
		}
		return outer.Err() != nil
	})
	if !whole {
		cancel()
	}
	limit := time.AfterFunc(r.live.Drain, cancel)
	all.Wait()
	limit.Stop()
	if outer.Err() != nil {
		return report.Row{}, context.Cause(outer)
	}
	return st.row(t.Name, sessions, counted, st.visits()), nil
}
