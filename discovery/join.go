package discovery

import (
	"context"
	"errors"
	"sync"

	"github.com/warmroute/warmroute/replica"
)

// Join returns a Discoverer that finds what the given ones find, in their order. Of
// two endpoints that are the same ([replica.Endpoint.Name]) the first is taken, and
// one that is not usable is left to whoever takes the list to refuse.
//
// It reports nothing until each has found something or failed, so that no endpoint
// is taken away for a moment by a restart. While one fails its last list stays in
// force, and the others' news are reported together with the failure.
func Join(discoverers ...Discoverer) Discoverer {
	return join(append([]Discoverer(nil), discoverers...))
}

type join []Discoverer

func (j join) Watch(ctx context.Context, report Report) error {
	if len(j) == 0 {
		return Static().Watch(ctx, report)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts := make([]part, len(j))
	var mu sync.Mutex // serializes reports too
	var all sync.WaitGroup
	for i, d := range j {
		all.Go(func() {
			err := d.Watch(ctx, func(targets []replica.Target, err error) {
				mu.Lock()
				defer mu.Unlock()
				if ctx.Err() == nil {
					parts[i].take(targets, err)
					tell(parts, report)
				}
			})
			if err == nil && ctx.Err() == nil {
				err = errors.New("discovery: a joined discoverer ended before its context")
			}
			if err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, ctx.Err()) {
		return err
	}
	return nil
}

// part is what one Discoverer has found.
type part struct {
	said, listed bool
	targets      []replica.Target
	err          error
}

func (p *part) take(targets []replica.Target, err error) {
	p.said, p.err = true, err
	if err == nil || targets != nil {
		p.targets, p.listed = targets, true
	}
}

func tell(parts []part, report Report) {
	var found []replica.Target // nil if nobody knows anything
	var errs []error
	seen := map[string]bool{}
	for _, p := range parts {
		if !p.said {
			return
		}
		if p.listed && found == nil {
			found = []replica.Target{}
		}
		errs = append(errs, p.err)
		for _, t := range p.targets {
			if name, err := t.Name(); err == nil {
				if seen[name] {
					continue
				}
				seen[name] = true
			}
			found = append(found, t)
		}
	}
	report(found, errors.Join(errs...))
}
