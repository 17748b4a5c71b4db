package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
)

// Picker names one of package balance's, as an object, or as a string where the
// name is all there is to say.
type Picker struct {
	// Name is default, least-loaded, power-of-two, random, round-robin, rendezvous,
	// bounded-load, soft-affinity, expected-ttft or engine-lb.
	Name string `json:"name"`
	// Factor is of bounded-load, above 1. Default 1.25.
	Factor *float64 `json:"factor"`
	// Margin is of soft-affinity, 0 or more and below 1. Default 0.25.
	Margin *float64 `json:"margin"`
	// Version is of engine-lb: the vLLM version whose balancing is wanted.
	Version string `json:"version"`
}

const (
	defaultFactor = 1.25
	defaultMargin = 0.25
)

func (p *Picker) fromString(s string) { p.Name = s }

var _ short = (*Picker)(nil)

// build returns what makes the pickers, checked.
func (p *Picker) build() (func() balance.Picker, string, error) {
	names := []string{"default", "least-loaded", "power-of-two", "random", "round-robin", "rendezvous",
		"bounded-load", "soft-affinity", "expected-ttft", "engine-lb"}
	if !slices.Contains(names, p.Name) {
		return nil, "name", &warmroute.ConfigError{Field: "picker", Value: p.Name, Allowed: strings.Join(names, ", ")}
	}
	for _, own := range []struct {
		field, name string
		given       bool
	}{{"factor", "bounded-load", p.Factor != nil}, {"margin", "soft-affinity", p.Margin != nil}, {"version", "engine-lb", p.Version != ""}} {
		if own.given && p.Name != own.name {
			return nil, own.field, fmt.Errorf("is of %s, not of %s", own.name, p.Name)
		}
	}
	// may is for pickers whose argument may be refused: it is tried here, and cannot
	// be when it is used.
	may := func(field string, make func() (balance.Picker, error)) (func() balance.Picker, string, error) {
		if _, err := make(); err != nil {
			return nil, field, err
		}
		return func() balance.Picker {
			picker, err := make()
			if err != nil {
				return balance.Default()
			}
			return picker
		}, "", nil
	}
	switch p.Name {
	case "least-loaded":
		return balance.LeastLoaded, "", nil
	case "power-of-two":
		return func() balance.Picker { return balance.PowerOfTwo(nil) }, "", nil
	case "random":
		return func() balance.Picker { return balance.Random(nil) }, "", nil
	case "round-robin":
		return balance.RoundRobin, "", nil
	case "rendezvous":
		return balance.Rendezvous, "", nil
	case "expected-ttft":
		return func() balance.Picker { return balance.Weighted(balance.Weight(balance.ExpectedTTFT(), 1)) }, "", nil
	case "bounded-load":
		factor := value(p.Factor, defaultFactor)
		return may("factor", func() (balance.Picker, error) { return balance.BoundedLoad(factor) })
	case "soft-affinity":
		margin := value(p.Margin, defaultMargin)
		return may("margin", func() (balance.Picker, error) { return balance.SoftAffinity(margin) })
	case "engine-lb":
		return may("version", func() (balance.Picker, error) { return balance.EngineLB(p.Version) })
	}
	return balance.Default, "", nil
}

func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
