package bench

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// Engines are simulated replicas: equal endpoints, each a vLLM 0.26 server with
// some data-parallel ranks. A step of a rank lasts
//
//	StepTime + prefilled tokens / PrefillRate + decoding requests' context / 1,000 * ContextCost
//
// A zero field is the value stated on it.
type Engines struct {
	// Name says in one line what is simulated: cards, model, engine.
	Name string
	// Endpoints is the number of servers. Default 1.
	Endpoints int
	// Ranks is the number of replicas behind each endpoint. Default 1.
	Ranks int
	// MaxNumSeqs is the number of requests that run at once on a replica.
	// Default 32.
	MaxNumSeqs int
	// KVTokens is the capacity of a replica's KV cache in tokens, at
	// least a block. Default 22,000.
	KVTokens int
	// BlockSize is in tokens. Default 16.
	BlockSize int
	// BatchedTokens is the token budget of a step, --max-num-batched-tokens.
	// Default 2048.
	BatchedTokens int
	// PrefillRate is in tokens a second. Default 2300.
	PrefillRate float64
	// StepTime is the fixed part of a step. Default 30 ms.
	StepTime time.Duration
	// ContextCost is the time that 1,000 tokens of context of decoding requests
	// add to a step. Default 350 µs.
	ContextCost time.Duration
	// APIServers is --api-server-count, the number of front-end processes of an
	// endpoint. Default Ranks, as in vLLM.
	APIServers int
	// MoE says that the model is a mixture of experts: its ranks report their
	// load to vLLM's own balancing, which those of dense models do not from 0.14
	// to 0.26 (vllm#30739, vllm#49204).
	MoE bool
	// AdmitByChunk admits a waiting request when its first chunk fits, not its
	// whole prompt: --no-scheduler-reserve-full-isl. vLLM 0.26 does not.
	AdmitByChunk bool
	// StreamInterval is --stream-interval, the tokens in an event of a stream.
	// It changes the run's cost and, but for the first token, when a client
	// sees a token, not when it is made. Default 16; vLLM's is 1.
	StreamInterval int
}

// DefaultEngines are the engines of the published figures of [SeedTable]: 4 RTX
// A4000, each a data-parallel rank with Qwen3-4B on vLLM 0.26, max_num_seqs 32.
// The speeds are fitted to those figures; the README of this package states
// how near they come.
func DefaultEngines() Engines {
	return Engines{
		Name:       "4x RTX A4000, Qwen3-4B, vLLM 0.26, data parallel",
		Ranks:      4,
		MaxNumSeqs: 32,
	}.filled()
}

// filled has no zero field.
func (e Engines) filled() Engines {
	e.Endpoints = or(e.Endpoints, 1)
	e.Ranks = or(e.Ranks, 1)
	e.MaxNumSeqs = or(e.MaxNumSeqs, 32)
	e.KVTokens = or(e.KVTokens, 22_000)
	e.BlockSize = or(e.BlockSize, 16)
	e.BatchedTokens = or(e.BatchedTokens, 2048)
	e.PrefillRate = or(e.PrefillRate, 2300)
	e.StepTime = or(e.StepTime, 30*time.Millisecond)
	e.ContextCost = or(e.ContextCost, 350*time.Microsecond)
	e.APIServers = or(e.APIServers, e.Ranks)
	e.StreamInterval = or(e.StreamInterval, 16)
	return e
}

// check returns an error for engines, filled in, that cannot be simulated and
// of which fakevllm.New would not notice.
func (e Engines) check() error {
	switch {
	case e.Endpoints < 1:
		return fmt.Errorf("bench: engines: Endpoints is %d, want at least 1", e.Endpoints)
	case e.BlockSize < 1:
		return fmt.Errorf("bench: engines: BlockSize is %d, want at least 1", e.BlockSize)
	case e.KVTokens < e.BlockSize:
		return fmt.Errorf("bench: engines: KVTokens is %d, want at least BlockSize, %d", e.KVTokens, e.BlockSize)
	}
	return nil
}

func or[T comparable](value, byDefault T) T {
	var zero T
	if value == zero {
		return byDefault
	}
	return value
}

// String is one line: the name, and what the simulation goes by.
func (e Engines) String() string {
	e = e.filled()
	s := fmt.Sprintf("%d x %d ranks, max_num_seqs %d, %d KV tokens a rank, prefill %.0f tokens/s, step %v + %v per 1,000 tokens of context",
		e.Endpoints, e.Ranks, e.MaxNumSeqs, e.KVTokens, e.PrefillRate, e.StepTime, e.ContextCost)
	if e.Name != "" {
		s = e.Name + ": " + s
	}
	return s
}

// model is the name under which the engines serve.
const model = "sim"

func (e Engines) endpoint(i int) warmroute.Endpoint {
	return warmroute.Endpoint{URL: fmt.Sprintf("http://engine-%d:8000", i), Ranks: e.Ranks}
}

func (e Engines) config(seed uint64) fakevllm.Config {
	return fakevllm.Config{
		Model: model, Ranks: e.Ranks, APIServers: e.APIServers, MoE: e.MoE,
		Blocks: e.KVTokens/e.BlockSize + 1, BlockSize: e.BlockSize,
		MaxNumSeqs: e.MaxNumSeqs, MaxBatchedTokens: e.BatchedTokens, AdmitByChunk: e.AdmitByChunk,
		PrefillRate: e.PrefillRate, StepTime: e.StepTime, ContextCost: e.ContextCost,
		StreamInterval: e.StreamInterval,
		LogSize:        maxRuns, LogHeader: conversationHeader, Seed: seed,
	}
}

// maxRuns is how many requests an endpoint remembers, to tell where the turns
// of each conversation went.
const maxRuns = 1 << 22
