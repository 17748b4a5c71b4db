package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/discovery"
)

// firstReport is how long a Discoverer that is to take the place of another may
// take to find something.
const firstReport = 10 * time.Second

// source is a Discoverer whose own can be exchanged while it is watched, by one that
// has shown that it works.
type source struct {
	first     discovery.Discoverer
	exchanges chan exchange
}

// exchange asks a source to use another Discoverer.
type exchange struct {
	next   discovery.Discoverer
	accept func() error // called when it has found something, before that is used
	result chan error
}

func newSource(first discovery.Discoverer) *source {
	return &source{first: first, exchanges: make(chan exchange)}
}

// use has the source go on with another Discoverer, and returns when what that has
// found is in force. After an error the one before goes on: next cannot find
// anything, what it finds is refused, accept has refused, or ctx has ended.
func (s *source) use(ctx context.Context, next discovery.Discoverer, accept func() error) error {
	x := exchange{next, accept, make(chan error, 1)}
	select {
	case s.exchanges <- x:
		return <-x.result
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Watch implements [discovery.Discoverer]. One Watch at a time can be told to use
// another.
func (s *source) Watch(ctx context.Context, report discovery.Report) error {
	var mu sync.Mutex // reports one at a time
	current := watchPart(ctx, s.first, &mu)
	current.use(report)
	defer func() { _ = current.stop() }() // it ends since ctx does, or has ended
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-current.ended:
			return current.err
		case x := <-s.exchanges:
			next := watchPart(ctx, x.next, &mu)
			err := next.works()
			if err == nil {
				err = x.accept()
			}
			if err != nil {
				x.result <- errors.Join(err, next.stop())
				continue
			}
			old := current
			current = next
			old.use(nil)
			current.use(report)
			x.result <- old.stop()
		}
	}
}

// part is a Discoverer that is watched, in use or not yet.
type part struct {
	cancel context.CancelFunc
	ended  chan struct{}
	err    error         // when it has ended
	said   chan struct{} // closed by the first report

	mu      *sync.Mutex
	report  discovery.Report // nil: not in use
	known   bool             // something was reported
	targets []warmroute.Target
	problem error
}

func watchPart(ctx context.Context, d discovery.Discoverer, mu *sync.Mutex) *part {
	ctx, cancel := context.WithCancel(ctx)
	p := &part{cancel: cancel, ended: make(chan struct{}), said: make(chan struct{}), mu: mu}
	go func() {
		defer close(p.ended)
		p.err = d.Watch(ctx, p.take)
	}()
	return p
}

func (p *part) take(targets []warmroute.Target, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		p.known = true
		close(p.said)
	}
	p.targets, p.problem = targets, err
	if p.report != nil {
		p.report(targets, err)
	}
}

// use has what the part finds, and has found, be reported; nil ends that.
func (p *part) use(report discovery.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report = report
	if report != nil && p.known {
		report(p.targets, p.problem)
	}
}

// works waits until the part has found something that a router takes.
func (p *part) works() error {
	timer := time.NewTimer(firstReport)
	defer timer.Stop()
	select {
	case <-p.said:
	case <-p.ended:
		if p.err != nil {
			return p.err
		}
		return errors.New("shutting down")
	case <-timer.C:
		return fmt.Errorf("discovery has found nothing in %v", firstReport)
	}
	p.mu.Lock()
	targets, err := p.targets, p.problem
	p.mu.Unlock()
	if err != nil || len(targets) == 0 {
		return err
	}
	endpoints := make([]warmroute.Endpoint, len(targets))
	for i, t := range targets {
		endpoints[i] = t.Endpoint
	}
	trial, err := warmroute.New(endpoints)
	if err != nil {
		return err
	}
	return trial.Close()
}

// stop returns the part's error when it has ended.
func (p *part) stop() error {
	p.cancel()
	<-p.ended
	return p.err
}
