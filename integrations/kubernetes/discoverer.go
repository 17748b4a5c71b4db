// Package kubernetes finds the replicas of a Service by its EndpointSlices, as a
// [discovery.Discoverer] for a warmroute router: the pods themselves, since a
// conversation has to go to one of them, where the Service's own address would
// choose any.
//
// A pod that is ready takes conversations. One that is not, or that is terminating
// and still serves, drains: it keeps the conversations that it has and takes no new
// ones. One that is terminating and serves no more, or is in no slice, is removed.
package kubernetes

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/warmroute/warmroute/discovery"
	"github.com/warmroute/warmroute/replica"
)

// Config is which Service is watched.
type Config struct {
	// Client is of the cluster. It must be allowed to list and watch EndpointSlices in
	// the namespace.
	Client kubernetes.Interface
	// Namespace and Service name it. A headless Service will do as well.
	Namespace, Service string
	// Port is the name of the Service's port. It may be left out where there is one
	// port alone.
	Port string
	// Endpoint is what each pod becomes an endpoint like. Its URL gives the scheme and
	// a path prefix; the host is replaced by the pod's address. Of https the host, or
	// Endpoint.Host if there is one, is the name that certificates must be for. Default
	// URL: http:// and the Service's name.
	Endpoint replica.Endpoint
	// PreferIPv6 takes the IPv6 address of pods that have one of each family. Default:
	// the IPv4 one. A pod is never taken twice.
	PreferIPv6 bool
}

type discoverer struct {
	cfg  Config
	base *url.URL
}

// New returns a Discoverer. It returns a [*replica.ConfigError] for a configuration
// that is refused.
//
// It reports the first list when it has been read whole, and what changes in it
// within the time that the API server takes to tell. While the API server cannot be
// reached, that is reported and the last list stays in force. A Service without any
// EndpointSlice, as one that there is not, has no endpoints, and that is reported as
// a problem beside the empty list.
func New(cfg Config) (discovery.Discoverer, error) {
	if cfg.Client == nil {
		return nil, &replica.ConfigError{Field: "client", Value: "nil", Allowed: "a client of a cluster"}
	}
	for field, name := range map[string]string{"namespace": cfg.Namespace, "service": cfg.Service} {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return nil, &replica.ConfigError{Field: field, Value: name, Allowed: strings.Join(problems, "; ")}
		}
	}
	if cfg.Endpoint.URL == "" {
		cfg.Endpoint.URL = "http://" + cfg.Service + "." + cfg.Namespace
	}
	if _, err := cfg.Endpoint.Name(); err != nil {
		return nil, err
	}
	base, err := url.Parse(cfg.Endpoint.URL)
	if err != nil {
		return nil, err
	}
	return &discoverer{cfg, base}, nil
}

// Watch implements [discovery.Discoverer].
func (d *discoverer) Watch(ctx context.Context, report discovery.Report) error {
	w := &watching{discoverer: d, report: report, news: make(chan struct{}, 1)}
	informer := cache.NewSharedIndexInformer(w.listWatch(), &discoveryv1.EndpointSlice{}, 0, cache.Indexers{})
	// The API's failures are told by report.
	if err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.tell() },
		UpdateFunc: func(any, any) { w.tell() },
		DeleteFunc: func(any) { w.tell() },
	})
	if err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() { informer.RunWithContext(ctx) })
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			w.setSynced()
		}
	})
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.news:
			w.look(informer.GetStore())
		}
	}
}

// watching is one Watch.
type watching struct {
	*discoverer
	report discovery.Report
	news   chan struct{}

	mu     sync.Mutex
	synced bool
	err    error // the API's last failure, nil if it has answered since

	// Of the goroutine that reports:
	known bool
	last  []replica.Target
	said  string
}

func (w *watching) tell() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (w *watching) setSynced() {
	w.mu.Lock()
	w.synced = true
	w.mu.Unlock()
	w.tell()
}

// asked notes how a question to the API went.
func (w *watching) asked(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	changed := (err == nil) != (w.err == nil) || err != nil && err.Error() != w.err.Error()
	w.err = err
	w.mu.Unlock()
	if changed {
		w.tell()
	}
}

// listWatch asks for the slices of the service.
func (w *watching) listWatch() cache.ListerWatcher {
	slices := w.cfg.Client.DiscoveryV1().EndpointSlices(w.cfg.Namespace)
	selector := discoveryv1.LabelServiceName + "=" + w.cfg.Service
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			list, err := slices.List(ctx, options)
			w.asked(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			stream, err := slices.Watch(ctx, options)
			w.asked(ctx, err)
			return stream, err
		},
	}, w.cfg.Client)
}

// look reports what has changed.
func (w *watching) look(store cache.Store) {
	w.mu.Lock()
	synced, failure := w.synced, w.err
	w.mu.Unlock()
	var targets []replica.Target
	var err error
	switch {
	case failure != nil:
		err = fmt.Errorf("kubernetes: %w", failure)
	case !synced:
		return
	default:
		var all []*discoveryv1.EndpointSlice
		for _, o := range store.List() {
			if slice, ok := o.(*discoveryv1.EndpointSlice); ok {
				all = append(all, slice)
			}
		}
		targets, err = w.read(all)
	}
	said := ""
	if err != nil {
		said = err.Error()
	}
	if w.known && said == w.said && (targets == nil || slices.Equal(targets, w.last)) {
		return
	}
	w.known, w.said = true, said
	if targets != nil {
		w.last = targets
	}
	w.report(slices.Clone(targets), err)
}
