package health

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// probed is what probes have shown of one endpoint. It belongs to the monitor's
// goroutine.
type probed struct {
	cfg    *Probe
	of     *replica.Replica // one of the endpoint's, to know it by
	stop   context.CancelFunc
	good   int // probes in a row that succeeded
	bad    int // and that failed
	down   bool
	reason string // of down
	silent string // why the last probe says nothing, "" if it says something
}

// outcome is what a probe shows.
type outcome int

const (
	succeeded outcome = iota
	failed
	saysNothing
)

// judge tells what a probe that ended so shows.
func judge(err error) outcome {
	var status *metrics.StatusError
	switch {
	case err == nil, errors.Is(err, metrics.ErrTooLong): // its status was 200
		return succeeded
	case !errors.As(err, &status), status.Code >= http.StatusInternalServerError:
		return failed
	case status.Code >= 200 && status.Code < 300:
		return succeeded
	}
	return saysNothing
}

// take takes in how a probe ended.
func (p *probed) take(err error) {
	p.silent = ""
	switch judge(err) {
	case succeeded:
		p.bad = 0
		if p.good++; p.good >= p.cfg.Rise {
			p.down = false
		}
	case failed:
		p.good = 0
		if p.bad++; p.bad >= p.cfg.Fall && !p.down {
			p.down, p.reason = true, fmt.Sprintf("%s: %s %s", sourceProbe, p.cfg.Path, brief(err))
		}
	case saysNothing:
		p.good, p.bad, p.down = 0, 0, false
		p.silent = brief(err)
	}
}

// brief says what went wrong without what differs from one time to the next, such
// as ports and addresses.
func brief(err error) string {
	var status *metrics.StatusError
	switch {
	case errors.As(err, &status):
		return fmt.Sprintf("answers %d %s", status.Code, http.StatusText(status.Code))
	case errors.Is(err, context.DeadlineExceeded):
		return "does not answer in time"
	}
	return "cannot be asked"
}

func (p *probed) finding() replica.Finding {
	if !p.down {
		return replica.Finding{State: replica.Up}
	}
	return replica.Finding{State: replica.Down, Source: sourceProbe, Reason: p.reason}
}
