package warmroute

import (
	"math"
	"strconv"
)

// Spill is the number of requests in flight on a home above which a
// conversation's request goes elsewhere, if another replica has fewer. It
// judges the home alone, never the fleet.
type Spill int

// Auto is a quarter of the engine's max_num_seqs, at least 1. That number is,
// in this order: what [WithMaxNumSeqs] says; what /server_info says, where it
// is served (VLLM_SERVER_DEV_MODE=1); the most requests seen running while
// others waited for capacity, the threshold then being at least 4, since the
// KV cache and not max_num_seqs may be what they waited for; vLLM's own default
// for servers, 256.
const Auto Spill = math.MinInt

const (
	defaultMaxNumSeqs = 256
	minLearnedSpill   = 4
)

// String is "auto" or the number.
func (s Spill) String() string {
	if s == Auto {
		return "auto"
	}
	return strconv.Itoa(int(s))
}

// MarshalText returns what String does.
func (s Spill) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads "auto" or a number of at least 1, so that a *Spill can be
// given to flag.TextVar or be a field of a configuration file.
func (s *Spill) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*s = Auto
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return spillError(string(text))
	}
	*s = Spill(n)
	return nil
}

func (s Spill) validate() error {
	if s != Auto && s < 1 {
		return spillError(s.String())
	}
	return nil
}

func spillError(value string) error {
	return &ConfigError{Field: "spill", Value: value, Allowed: "auto, or a number of requests of at least 1"}
}

// Sources of a spill threshold.
const (
	SpillFixed      = "fixed"        // given as a number
	SpillConfigured = "max_num_seqs" // a quarter of WithMaxNumSeqs
	SpillServerInfo = "server_info"  // a quarter of what /server_info says
	SpillLearned    = "learned"      // a quarter of the most seen running while others waited
	SpillDefault    = "default"      // a quarter of 256
)

// Threshold is a spill threshold in force and where it came from.
type Threshold struct {
	Value  int    `json:"value"`
	Source string `json:"source"`
}

// threshold puts the sources in their order. Zero stands for not known.
func threshold(s Spill, configured, serverInfo, learned int) Threshold {
	quarter := func(n int) int { return max(1, n/4) }
	switch {
	case s != Auto:
		return Threshold{int(s), SpillFixed}
	case configured > 0:
		return Threshold{quarter(configured), SpillConfigured}
	case serverInfo > 0:
		return Threshold{quarter(serverInfo), SpillServerInfo}
	case learned > 0:
		return Threshold{max(minLearnedSpill, quarter(learned)), SpillLearned}
	}
	return Threshold{quarter(defaultMaxNumSeqs), SpillDefault}
}
