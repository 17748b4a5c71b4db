package warmroutecaddy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"

	"github.com/warmroute/warmroute"
)

// fleets are the routers in use, by what they were made of. They belong to the
// process and not to a configuration, as Caddy's own pools of upstreams and
// listeners do: a reload provisions the new configuration before it cleans up
// the old one, and finds here what both have.
var fleets = caddy.NewUsagePool()

// made counts the fleets, so that the latest of a name is known.
var made atomic.Int64

// fleetKey is what a fleet is known by: its name, and the configuration that it
// was made of, or none if the program provided it.
type fleetKey struct{ name, config string }

// fleet is a router that at least one transport uses.
type fleet struct {
	name    string
	number  int64
	router  *warmroute.Router
	log     *relay
	running sync.WaitGroup
	stop    context.CancelFunc // nil if the program provided the router
}

// Provide lends transports a router that the program made, for what has no
// syntax: scorers, hooks, key functions, pools with settings of their own. They
// name it by router in their block. The program runs and closes the router.
//
// withdraw takes it back; transports that use it by then keep it. It does
// nothing the second time. Provide returns an error for a name that is taken, an
// empty one, and a nil router.
func Provide(name string, router *warmroute.Router) (withdraw func(), err error) {
	if name == "" || router == nil {
		return nil, errors.New("warmroute: a router needs a name, and must not be nil")
	}
	key := fleetKey{name: name}
	if _, taken := fleets.LoadOrStore(key, &fleet{name: name, number: made.Add(1), router: router, log: new(relay)}); taken {
		if _, err := fleets.Delete(key); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("warmroute: a router is provided as %q already", name)
	}
	return sync.OnceFunc(func() {
		_, _ = fleets.Delete(key) // whose Destruct has nothing to do for it
	}), nil
}

// provided is the router that the program lent under that name, counted as used
// until its key is deleted.
func provided(name string) (*fleet, fleetKey, error) {
	key := fleetKey{name: name}
	errAbsent := fmt.Errorf("warmroute: no router is provided as %q", name)
	value, _, err := fleets.LoadOrNew(key, func() (caddy.Destructor, error) { return nil, errAbsent })
	if err != nil {
		return nil, fleetKey{}, err
	}
	return value.(*fleet), key, nil
}

// fleetOf is the fleet of that name and configuration, made if there is none,
// counted as used until its key is deleted.
func fleetOf(name string, config Config) (*fleet, fleetKey, error) {
	endpoints, err := config.endpoints()
	if err != nil {
		return nil, fleetKey{}, err
	}
	config.Replicas = endpoints // a placeholder may stand for something else by now
	spelled, err := json.Marshal(config)
	if err != nil {
		return nil, fleetKey{}, err
	}
	key := fleetKey{name: name, config: string(spelled)}
	before := latest(name) // not below, where the pool's new entry is locked
	value, _, err := fleets.LoadOrNew(key, func() (caddy.Destructor, error) { return newFleet(name, config, before) })
	if err != nil {
		return nil, fleetKey{}, err
	}
	return value.(*fleet), key, nil
}

// newFleet makes a router and runs it. It takes over the conversations of the
// fleet before it, nil if there is none.
func newFleet(name string, config Config, before *fleet) (*fleet, error) {
	rank, err := clientRank(config.ClientRank)
	if err != nil {
		return nil, err
	}
	f := &fleet{name: name, number: made.Add(1), log: new(relay)}
	f.router, err = warmroute.New(config.Replicas,
		append(config.options(), warmroute.WithClientRank(rank), warmroute.WithLogger(f.log.logger()))...)
	if err != nil {
		return nil, err
	}
	if before != nil {
		if err := f.takeOver(before); err != nil {
			return nil, errors.Join(err, f.router.Close())
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.running.Go(func() {
		if err := f.router.Run(ctx); err != nil {
			f.log.logger().Error("engines are not watched", "err", err)
		}
	})
	return f, nil
}

// takeOver binds conversations where the fleet before this one has them.
func (f *fleet) takeOver(before *fleet) error {
	var bindings bytes.Buffer
	if err := before.router.Save(&bindings); err != nil {
		return err
	}
	_, err := f.router.Restore(&bindings)
	return err
}

// latest is the fleet of that name that was made last, nil if there is none.
func latest(name string) (found *fleet) {
	fleets.Range(func(_, value any) bool {
		if f, ok := value.(*fleet); ok && f.name == name && (found == nil || f.number > found.number) {
			found = f
		}
		return true
	})
	return found
}

// Destruct is called by the pool when nobody uses the fleet any more. Requests
// in flight go on to their end.
func (f *fleet) Destruct() error {
	if f.stop == nil {
		return nil
	}
	f.stop()
	f.running.Wait()
	return f.router.Close()
}
