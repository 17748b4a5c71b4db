package fakevllm

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Config describes a simulated server. A zero field takes the default stated
// on it, so the zero Config is a server of four small ranks.
//
// The three time fields make a step last
//
//	StepTime + prefilled tokens / PrefillRate + decoding requests' context / 1,000 * ContextCost
//
// Tests in real time set StepTime and ContextCost to one nanosecond and
// PrefillRate to math.Inf(1), which leaves the order of events alone.
type Config struct {
	// Model is the served model name. Default "sim". As in vLLM 0.26 a request
	// without a model name gets this one, except on /v1/messages where the
	// name is required; another name is answered with status 404.
	Model string

	// Ranks is the number of data-parallel ranks. Default 4.
	Ranks int

	// APIServers is the number of front-end processes (--api-server-count).
	// Default 1; vLLM's own default is the number of ranks. A connection belongs
	// to one of them; here each request does, by chance. With several the
	// metrics page has no process_start_time_seconds.
	APIServers int

	// MoE says that the model is a mixture of experts. From 0.14 (vllm#30739) to
	// 0.26 (vllm#49204) the ranks of other models do not tell the front end how
	// busy they are, so that an API server gives out ranks in turn, whatever is
	// on them; see Server.submit.
	MoE bool

	// Blocks is the number of KV blocks of one rank, as num_gpu_blocks counts
	// them: one is vLLM's null block and never holds tokens. At least 2,
	// default 1437.
	Blocks int

	// BlockSize is the number of tokens in a block. Default 16, which with the
	// default Blocks makes about 23,000 tokens a rank.
	BlockSize int

	// MaxModelLen limits prompt and answer together, in tokens. The default,
	// and the greatest value allowed, is what the usable blocks of one rank
	// hold: vLLM does not start with more.
	MaxModelLen int

	// MaxNumSeqs is the number of requests that run at once on a rank.
	// Default 32.
	MaxNumSeqs int

	// MaxBatchedTokens is the token budget of one step. Default 2048.
	MaxBatchedTokens int

	// AdmitByChunk admits a waiting request when the tokens of its first step
	// fit into the free blocks. Without it the whole prompt has to fit, which is
	// the default of vLLM since vllm#37307 (--scheduler-reserve-full-isl; True
	// in 0.26).
	AdmitByChunk bool

	// StreamInterval is the number of tokens in an event of a stream, as
	// --stream-interval has it: the first token comes at once and alone, then
	// every StreamInterval tokens, and the rest with the last. Default 1.
	StreamInterval int

	// PrefillRate is in tokens a second. Default 3000; math.Inf(1) makes
	// prefill free.
	PrefillRate float64

	// StepTime is the fixed part of a step. Default 33 ms, at least 1 ns.
	StepTime time.Duration

	// ContextCost is the step time added for every 1,000 context tokens of the
	// requests that decode in it. Default 350 µs; 1 ns is as good as none.
	ContextCost time.Duration

	// AnswerTokens is where an answer ends by itself (finish reason "stop")
	// even if its limit is higher. With 0 an answer is exactly as long as the
	// request's limit allows, or 64 tokens if the request names no limit.
	AnswerTokens int

	// Version is what /version says. It also decides where the rank header
	// counts: 0.14 and later on chat completions, completions and messages,
	// 0.33 and later on responses too. Default "0.26.0".
	Version string

	// NoUsageDetails leaves the cached tokens out of the usage of chat
	// completions, completions and messages, as a server started without
	// --enable-prompt-tokens-details does.
	NoUsageDetails bool

	// DevMode serves GET /server_info, as VLLM_SERVER_DEV_MODE=1 does.
	DevMode bool

	// DisableLogStats leaves every vllm: series out of /metrics.
	DisableLogStats bool

	// LogSize is the number of runs that Server.Log keeps, the latest ones.
	// Default 0, none.
	LogSize int

	// LogHeader names the request header that fills Run.Session. Default
	// "X-Session-Id".
	LogHeader string

	// CountHeader names a request header by whose value POST requests are
	// counted; see Server.Delivery. Default none.
	CountHeader string

	// Seed decides the words of the answers and the ids.
	Seed uint64
}

// maxBlocks bounds the memory of a rank (40 bytes a block).
const maxBlocks = 1 << 24

// defaultAnswer is the length of an answer to a request that names no limit
// on a server without AnswerTokens.
const defaultAnswer = 64

// withDefaults returns c with its zero fields filled in, or an error that
// names the field that cannot be served.
func (c Config) withDefaults() (Config, error) {
	c.Model = orDefault(c.Model, "sim")
	c.Version = orDefault(c.Version, "0.26.0")
	c.LogHeader = orDefault(c.LogHeader, "X-Session-Id")
	c.Ranks = orDefault(c.Ranks, 4)
	c.APIServers = orDefault(c.APIServers, 1)
	c.Blocks = orDefault(c.Blocks, 1437)
	c.BlockSize = orDefault(c.BlockSize, 16)
	c.MaxNumSeqs = orDefault(c.MaxNumSeqs, 32)
	c.MaxBatchedTokens = orDefault(c.MaxBatchedTokens, 2048)
	c.StreamInterval = orDefault(c.StreamInterval, 1)
	c.PrefillRate = orDefault(c.PrefillRate, 3000)
	c.StepTime = orDefault(c.StepTime, 33*time.Millisecond)
	c.ContextCost = orDefault(c.ContextCost, 350*time.Microsecond)

	for _, f := range []struct {
		name            string
		value, min, max int
	}{
		{"Ranks", c.Ranks, 1, 1 << 16},
		{"APIServers", c.APIServers, 1, 1 << 16},
		{"Blocks", c.Blocks, 2, maxBlocks},
		{"BlockSize", c.BlockSize, 1, 1 << 20},
		{"MaxNumSeqs", c.MaxNumSeqs, 1, math.MaxInt32},
		{"MaxBatchedTokens", c.MaxBatchedTokens, 1, math.MaxInt32},
		{"StreamInterval", c.StreamInterval, 1, math.MaxInt32},
		{"AnswerTokens", c.AnswerTokens, 0, math.MaxInt32},
		{"LogSize", c.LogSize, 0, 1 << 24},
	} {
		if f.value < f.min || f.value > f.max {
			return Config{}, fmt.Errorf("fakevllm: %s is %d, want %d to %d", f.name, f.value, f.min, f.max)
		}
	}
	room := (c.Blocks - 1) * c.BlockSize
	c.MaxModelLen = orDefault(c.MaxModelLen, room)
	if c.MaxModelLen < 2 || c.MaxModelLen > room {
		return Config{}, fmt.Errorf("fakevllm: MaxModelLen is %d, want 2 to %d, what the blocks of a rank hold", c.MaxModelLen, room)
	}
	if !(c.PrefillRate > 0) {
		return Config{}, fmt.Errorf("fakevllm: PrefillRate is %v, want more than 0", c.PrefillRate)
	}
	if c.StepTime < 0 {
		return Config{}, fmt.Errorf("fakevllm: StepTime is %v, want more than 0", c.StepTime)
	}
	if c.ContextCost < 0 {
		return Config{}, fmt.Errorf("fakevllm: ContextCost is %v, want more than 0", c.ContextCost)
	}
	if _, _, ok := parseVersion(c.Version); !ok {
		return Config{}, fmt.Errorf("fakevllm: Version is %q, want one like \"0.26.0\"", c.Version)
	}
	return c, nil
}

func orDefault[T comparable](value, byDefault T) T {
	var zero T
	if value == zero {
		return byDefault
	}
	return value
}

// parseVersion reads the first two numbers of a version.
func parseVersion(version string) (major, minor int, ok bool) {
	first, rest, found := strings.Cut(version, ".")
	if !found {
		return 0, 0, false
	}
	second, _, _ := strings.Cut(rest, ".")
	major, errMajor := strconv.Atoi(first)
	minor, errMinor := strconv.Atoi(second)
	return major, minor, errMajor == nil && errMinor == nil
}

// stepTime returns how long a step lasts.
func (c *Config) stepTime(st step) time.Duration {
	d := float64(c.StepTime) +
		float64(st.prefill)/c.PrefillRate*float64(time.Second) +
		float64(st.context)/1000*float64(c.ContextCost)
	if d >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(d)
}
