package config

import (
	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
)

// keys are the options that say where session keys are looked for.
func (s Sessions) keys() []setting {
	var out []setting
	rest := affinity.Default()
	if s.Fingerprint {
		rest = affinity.First(rest, affinity.Fingerprint)
	}
	if s.ScopeHeader == "" {
		for i, h := range s.Headers {
			out = append(out, setting{path: []any{"sessions", "headers", i}, option: warmroute.WithSessionHeader(h)})
		}
		if s.Fingerprint {
			out = append(out, setting{path: []any{"sessions", "fingerprint"}, option: warmroute.WithKey(rest)})
		}
		return out
	}
	// The router looks at session headers before its key, and so without the scope:
	// they are made part of the key here.
	var all []affinity.KeyFunc
	for i, h := range s.Headers {
		if err := checkHeader(h); err != nil {
			out = append(out, setting{path: []any{"sessions", "headers", i}, err: err})
		}
		all = append(all, affinity.Header(h))
	}
	key := affinity.Scoped(affinity.First(append(all, rest)...), affinity.Header(s.ScopeHeader))
	return append(out, setting{path: []any{"sessions", "scope_header"}, option: warmroute.WithKey(key), err: checkHeader(s.ScopeHeader)})
}

// checkHeader refuses what is no header's name, in the way of a session header.
func checkHeader(name string) error {
	return warmroute.CheckOptions(warmroute.WithSessionHeader(name))
}
