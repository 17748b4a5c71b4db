package kubernetes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/warmroute/warmroute/replica"
)

// server is one server of a Service, as one slice has it.
type server struct {
	identity string // of the pod, or the address if it is no pod's
	six      bool   // its address is of IPv6
	draining bool
	host     string
	port     int32
}

// read takes the servers out of slices, in any order.
func (d *discoverer) read(all []*discoveryv1.EndpointSlice) ([]replica.Target, error) {
	if len(all) == 0 {
		return []replica.Target{}, fmt.Errorf("kubernetes: service %s/%s has no EndpointSlice", d.cfg.Namespace, d.cfg.Service)
	}
	var errs []error
	found := map[string]server{}
	for _, slice := range all {
		if len(slice.Endpoints) == 0 {
			continue // such a slice has no ports either
		}
		port, err := d.port(slice)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i := range slice.Endpoints {
			s, ok := readEndpoint(slice, &slice.Endpoints[i], port)
			if !ok {
				continue
			}
			if other, ok := found[s.identity]; !ok || d.better(s, other) {
				found[s.identity] = s
			}
		}
	}
	out := make([]replica.Target, 0, len(found))
	for _, s := range found {
		out = append(out, d.target(s))
	}
	slices.SortFunc(out, func(a, b replica.Target) int { return strings.Compare(a.URL, b.URL) })
	// The same address may belong to two pods for a moment, the one gone.
	return slices.CompactFunc(out, func(a, b replica.Target) bool { return a.URL == b.URL }), errors.Join(errs...)
}

// readEndpoint reports false for one that takes no requests any more.
func readEndpoint(slice *discoveryv1.EndpointSlice, e *discoveryv1.Endpoint, port int32) (server, bool) {
	if len(e.Addresses) == 0 {
		return server{}, false
	}
	// Absent conditions count as ready, serving and not terminating.
	ready := e.Conditions.Ready == nil || *e.Conditions.Ready
	terminating := e.Conditions.Terminating != nil && *e.Conditions.Terminating
	serving := e.Conditions.Serving == nil || *e.Conditions.Serving
	if terminating && !serving {
		return server{}, false
	}
	// All addresses of an endpoint are the same server's (the API says so).
	s := server{host: e.Addresses[0], port: port, draining: !ready || terminating, six: slice.AddressType == discoveryv1.AddressTypeIPv6}
	s.identity = net.JoinHostPort(s.host, strconv.Itoa(int(port)))
	if ref := e.TargetRef; ref != nil && ref.Name != "" {
		s.identity = ref.Kind + "/" + ref.Namespace + "/" + ref.Name + "/" + string(ref.UID)
	}
	return s, true
}

// better says which of two entries of one server is taken: that of the address
// family that is preferred, else the one that takes conversations, since a server
// may be in two slices while the controller moves it, one of them out of date.
func (d *discoverer) better(a, b server) bool {
	switch {
	case a.six != b.six:
		return a.six == d.cfg.PreferIPv6
	case a.draining != b.draining:
		return !a.draining
	}
	return a.host < b.host
}

// port is the one that is wanted of a slice.
func (d *discoverer) port(slice *discoveryv1.EndpointSlice) (int32, error) {
	var names []string
	var ports []int32
	for _, p := range slice.Ports {
		if p.Port == nil {
			continue
		}
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if d.cfg.Port != "" && name == d.cfg.Port {
			return *p.Port, nil
		}
		names, ports = append(names, strconv.Quote(name)), append(ports, *p.Port)
	}
	if d.cfg.Port == "" && len(ports) == 1 {
		return ports[0], nil
	}
	if d.cfg.Port == "" {
		return 0, fmt.Errorf("kubernetes: EndpointSlice %s/%s has %d ports (%s): name one of them", slice.Namespace, slice.Name, len(ports), strings.Join(names, ", "))
	}
	return 0, fmt.Errorf("kubernetes: EndpointSlice %s/%s has no port %q (but %s)", slice.Namespace, slice.Name, d.cfg.Port, strings.Join(names, ", "))
}

// target is a server as the template has it.
func (d *discoverer) target(s server) replica.Target {
	e := d.cfg.Endpoint
	u := *d.base
	u.Host = net.JoinHostPort(s.host, strconv.Itoa(int(s.port)))
	e.URL = u.String()
	if _, err := netip.ParseAddr(s.host); err == nil && e.Host == "" && u.Scheme == "https" {
		// The name that a certificate of the Service's is for.
		e.Host = (&url.URL{Host: d.base.Host}).Host
	}
	return replica.Target{Endpoint: e, Draining: s.draining}
}
