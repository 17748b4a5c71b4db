package health

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/warmroute/warmroute/replica"
)

// exporter is what is known by one page. It belongs to the monitor's goroutine;
// time comes in as a value.
type exporter struct {
	url  *url.URL
	name string // url as text
	dcgm *DCGM
	gpus map[GPU]*signs // by GPU.key
	// order is the same, by index as far as these are numbers.
	order []*signs

	since time.Time // when reading began
	read  time.Time // when the page was read last, zero if it never was
	err   error     // of the last try, nil if the whole page was read
	empty bool      // the last page that was read shows no GPU
}

func newExporter(u *url.URL, d *DCGM) *exporter {
	return &exporter{url: u, name: u.String(), dcgm: d, gpus: map[GPU]*signs{}}
}

// take takes in a page, of which a part may be there beside the error.
func (e *exporter) take(page []byte, err error, at time.Time) {
	e.err = err
	if len(page) == 0 && err != nil {
		return
	}
	readings, parseErr := ParsePage(page)
	if err == nil {
		e.err = parseErr
	}
	if e.empty = len(readings) == 0; e.empty {
		return
	}
	e.read = at
	onPage := make(map[GPU]bool, len(readings))
	for _, r := range readings {
		r.GPU.Exporter = e.name
		key := r.GPU.key()
		onPage[key] = true
		s := e.gpus[key]
		if s == nil {
			s = new(signs)
			e.gpus[key] = s
		}
		s.take(r, at, e.err == nil, e.dcgm)
	}
	e.order = e.order[:0]
	for key, s := range e.gpus {
		// One that has gone from the page may have fallen off the bus: what spoke
		// against it still does.
		if !onPage[key] && (len(s.current) == 0 || len(e.gpus) > 2*maxGPUs) {
			delete(e.gpus, key)
			continue
		}
		e.order = append(e.order, s)
	}
	slices.SortFunc(e.order, func(a, b *signs) int { return compareGPUs(a.reading.GPU, b.reading.GPU) })
}

func (e *exporter) expire(now time.Time) {
	for _, s := range e.gpus {
		s.expire(now, e.dcgm.Hold)
	}
}

// stale reports whether the page has not been read for too long.
func (e *exporter) stale(now time.Time) bool {
	last := e.read
	if last.IsZero() {
		last = e.since
	}
	return now.Sub(last) > e.dcgm.StaleAfter
}

func compareGPUs(a, b GPU) int {
	if len(a.Index) != len(b.Index) {
		return len(a.Index) - len(b.Index)
	}
	for _, labels := range [...][2]string{{a.Index, b.Index}, {a.Hostname, b.Hostname}, {a.UUID, b.UUID}, {a.Device, b.Device}} {
		if c := strings.Compare(labels[0], labels[1]); c != 0 {
			return c
		}
	}
	return 0
}

// runsOn reports whether a replica runs on a GPU of the exporter.
func (e *exporter) runsOn(g GPU, r *replica.Replica) bool {
	if e.dcgm.Map != nil {
		return e.dcgm.Map(g, r)
	}
	for i := range e.dcgm.GPUs {
		if o := &e.dcgm.GPUs[i]; o.Exporter == e.name && o.shows(g) && o.of(r, e.url, g.Hostname) {
			return true
		}
	}
	return false
}

func (o *GPUs) shows(g GPU) bool { return o.GPU == nil || slices.ContainsFunc(o.GPU, g.Is) }

// of reports whether a replica is meant. hostname is that of the GPU, if it is
// known.
func (o *GPUs) of(r *replica.Replica, exporter *url.URL, hostname string) bool {
	switch {
	case o.Replica == "":
		host := r.URL().Hostname()
		if host != exporter.Hostname() && !strings.EqualFold(host, hostname) {
			return false
		}
	case !r.Is(o.Replica):
		return false
	}
	return o.Ranks == nil || r.Rank() == replica.NoRank || slices.Contains(o.Ranks, r.Rank())
}

// concerns reports whether a replica may be on a GPU of the exporter's, as far as
// that can be said without its page.
func (e *exporter) concerns(r *replica.Replica) bool {
	if e.dcgm.Map != nil {
		return true
	}
	return slices.ContainsFunc(e.dcgm.GPUs, func(o GPUs) bool { return o.Exporter == e.name && o.of(r, e.url, "") }) ||
		slices.ContainsFunc(e.order, func(s *signs) bool { return e.runsOn(s.reading.GPU, r) })
}

// finding is what the page says against a replica.
func (e *exporter) finding(r *replica.Replica) (f replica.Finding) {
	f.State = replica.Up
	more := 0
	for _, s := range e.order {
		if len(s.current) == 0 || !e.runsOn(s.reading.GPU, r) {
			continue
		}
		for _, n := range s.ordered() {
			state := n.action.state()
			if severity(state) > severity(f.State) {
				if f.Reason != "" {
					more++
				}
				f.State, f.Source = state, sourceDCGM
				f.Reason = fmt.Sprintf("%s: %s on %s", sourceDCGM, n.what, s.reading.GPU)
			} else {
				more++
			}
		}
	}
	if more > 0 {
		f.Reason += fmt.Sprintf(" (and %d more)", more)
	}
	return f
}

// problems are what keeps the exporter's page from telling of replicas' GPUs.
func (e *exporter) problems(now time.Time, replicas []*replica.Replica) []string {
	var out []string
	switch {
	case e.stale(now) && e.err != nil:
		out = append(out, fmt.Sprintf("%s cannot be read (%v): nothing new is known of its GPUs", e.name, e.err))
	case e.stale(now):
		out = append(out, e.name+" shows no GPU: it is no dcgm-exporter's page, or its counters are others")
	case e.err != nil && !e.read.IsZero():
		out = append(out, fmt.Sprintf("%s was read in part: %v", e.name, e.err))
	}
	if e.read.IsZero() {
		return out
	}
	for _, name := range e.missing() {
		out = append(out, fmt.Sprintf("%s has no GPU %s, of which it is to tell", e.name, name))
	}
	if !slices.ContainsFunc(replicas, e.concerns) {
		out = append(out, e.name+" is on the host of no endpoint, or for replicas that are not there: its GPUs are nobody's")
	}
	return out
}

// missing lists the GPUs that were named and are not on the page as it was read
// last.
func (e *exporter) missing() []string {
	var out []string
	for _, o := range e.dcgm.GPUs {
		if o.Exporter != e.name {
			continue
		}
		for _, name := range o.GPU {
			there := false
			for _, s := range e.gpus {
				there = there || s.seen.Equal(e.read) && s.reading.GPU.Is(name)
			}
			if !there && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}
