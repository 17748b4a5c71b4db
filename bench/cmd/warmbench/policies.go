package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/bench"
)

// policy is a policy by name. What stands behind a colon, as the 8 of
// "affinity:8", is the argument that it is made with; without one that is "".
type policy struct {
	name, argument, about string
	make                  func(name, argument string) (bench.Policy, error)
}

// policies are all that can be named. A further one is a line here.
func policies() []policy {
	return []policy{
		{"off", "", "no router: the engine's own balancing; several endpoints take turns", plain(func(string) bench.Policy { return bench.Off() })},
		{"affinity", "SPILL", "conversations stay at home, new ones go by the default scorers; SPILL is the number in flight above which a home is left, by default a quarter of max_num_seqs", affinity},
		{"residents", "TURNOVER", "the library as it comes: affinity, and turns wait where not all conversations fit into the prefix caches; TURNOVER, 0 to 1, is how readily a resident gives its place up", residents},
		{"shared-prefix", "", "as affinity, new ones by their system prompts as well", plain(func(string) bench.Policy { return bench.SharedPrefix() })},
		{"residents-shared-prefix", "", "the same as residents", plain(func(string) bench.Policy { return bench.ResidentsSharedPrefix() })},
		{"soft-affinity", "MARGIN", "stay at home until leaving saves that fraction of the expected TTFT; default 0.25", number(0.25, balance.SoftAffinity, atHome)},
		{"expected-ttft", "", "conversations placed by the expected TTFT, then as affinity", plain(func(name string) bench.Policy {
			return bench.Scorers(name, balance.Weight(balance.ExpectedTTFT(), 1))
		})},
		{"least-loaded", "", "each turn to the replica with the fewest requests", picker(balance.LeastLoaded)},
		{"round-robin", "", "each turn to the next replica", picker(balance.RoundRobin)},
		{"random", "", "each turn by chance", chance(balance.Random)},
		{"power-of-two", "", "each turn to the less loaded of two by chance", chance(balance.PowerOfTwo)},
		{"rendezvous", "", "each turn by a hash of the conversation, whatever the load", picker(balance.Rendezvous)},
		{"bounded-load", "FACTOR", "each turn by a hash of the conversation, to a replica with at most FACTOR times the mean load; default 1.25", number(1.25, balance.BoundedLoad, homeless)},
		{"engine-lb", "VERSION", "each turn by the rule of vLLM's own balancing between ranks, of that version; default 0.26.0", engineLB},
	}
}

// policyByName finds a policy.
func policyByName(text string) (bench.Policy, error) {
	name, argument, hasArgument := strings.Cut(text, ":")
	for _, p := range policies() {
		if p.name != name {
			continue
		}
		switch {
		case hasArgument && p.argument == "":
			return bench.Policy{}, fmt.Errorf("policy %q: it takes no argument", text)
		case hasArgument && argument == "":
			return bench.Policy{}, fmt.Errorf("policy %q: nothing behind the colon", text)
		}
		made, err := p.make(text, argument)
		if err != nil {
			return bench.Policy{}, fmt.Errorf("policy %q: %w", text, err)
		}
		return made, nil
	}
	return bench.Policy{}, fmt.Errorf("no policy %q", text)
}

// policyHelp lists the policies.
func policyHelp() string {
	var b strings.Builder
	b.WriteString("Policies; \"each turn\" is of those that know no homes:\n")
	for _, p := range policies() {
		name := p.name
		if p.argument != "" {
			name += "[:" + p.argument + "]"
		}
		fmt.Fprintf(&b, "  %-24s %s\n", name, p.about)
	}
	return b.String()
}

func plain(of func(name string) bench.Policy) func(string, string) (bench.Policy, error) {
	return func(name, _ string) (bench.Policy, error) { return of(name), nil }
}

func affinity(name, argument string) (bench.Policy, error) {
	if argument == "" {
		return bench.Affinity(), nil
	}
	var spill warmroute.Spill
	if err := spill.UnmarshalText([]byte(argument)); err != nil {
		return bench.Policy{}, err
	}
	return bench.Options(name, func() []warmroute.Option {
		return []warmroute.Option{warmroute.WithResidency(warmroute.ResidencyOff), warmroute.WithSpill(spill)}
	}), nil
}

func residents(name, argument string) (bench.Policy, error) {
	if argument == "" {
		return bench.Residents(), nil
	}
	turnover, err := strconv.ParseFloat(argument, 64)
	if err != nil || !(turnover >= 0 && turnover <= 1) {
		return bench.Policy{}, fmt.Errorf("%q is no number from 0 to 1", argument)
	}
	return bench.Turnover(name, turnover), nil
}

// homeless is a policy of a picker alone, atHome one of a picker that knows of
// homes.
func homeless(name string, of func() balance.Picker) bench.Policy {
	return bench.Options(name, func() []warmroute.Option {
		return []warmroute.Option{warmroute.WithAffinity(false), warmroute.WithPicker(of)}
	})
}

func atHome(name string, of func() balance.Picker) bench.Policy { return bench.Picker(name, of) }

func picker(of func() balance.Picker) func(string, string) (bench.Policy, error) {
	return plain(func(name string) bench.Policy { return homeless(name, of) })
}

// chance is a policy of a picker with a source of chance, which is the run's.
func chance(of func(*rand.Rand) balance.Picker) func(string, string) (bench.Policy, error) {
	return plain(func(name string) bench.Policy {
		return bench.Policy{Name: name, Connect: func(s bench.Site) (bench.Gateway, error) {
			seed := s.Random.Uint64()
			return homeless(name, func() balance.Picker { return of(rand.New(rand.NewPCG(seed, 0))) }).Connect(s)
		}}
	})
}

// number is a policy of a picker that is made with a number.
func number[P balance.Picker](byDefault float64, of func(float64) (P, error), policy func(string, func() balance.Picker) bench.Policy) func(string, string) (bench.Policy, error) {
	return func(name, argument string) (bench.Policy, error) {
		value := byDefault
		if argument != "" {
			var err error
			if value, err = strconv.ParseFloat(argument, 64); err != nil {
				return bench.Policy{}, fmt.Errorf("%q is no number", argument)
			}
		}
		return checked(name, func() (balance.Picker, error) { return of(value) }, policy)
	}
}

func engineLB(name, argument string) (bench.Policy, error) {
	if argument == "" {
		argument = "0.26.0"
	}
	return checked(name, func() (balance.Picker, error) { return balance.EngineLB(argument) }, homeless)
}

// checked makes a picker once to see whether it can be made.
func checked(name string, of func() (balance.Picker, error), policy func(string, func() balance.Picker) bench.Policy) (bench.Policy, error) {
	if _, err := of(); err != nil {
		return bench.Policy{}, err
	}
	return policy(name, func() balance.Picker {
		p, err := of()
		if err != nil {
			return balance.PickerFunc(func(*balance.Request, []balance.Candidate) (int, error) { return 0, err })
		}
		return p
	}), nil
}
