package family_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/internal/family"
)

const last = balance.PrefixSteps - 1

var seed = family.NewSeed(1)

func prefix(body string) balance.Prefix { return family.Prefix([]byte(body), 0, &seed) }

// words are n bytes that need no escaping in JSON, other ones for each name.
func words(name string, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s %d, ", name, i)
	}
	return b.String()[:n]
}

// common is how many of the hashes two prefixes share from the first on.
func common(a, b balance.Prefix) int {
	n := 0
	for n < len(a.Hashes) && a.Hashes[n] != 0 && a.Hashes[n] == b.Hashes[n] {
		n++
	}
	return n
}

func TestStepsOfAPrefix(t *testing.T) {
	for _, tt := range []struct {
		size, steps int
		whole       bool
	}{
		{0, 0, false}, {1, 0, false}, {1023, 0, false}, {1024, 1, true}, {2047, 1, true}, {2048, 2, true}, {5000, 3, true},
		{64<<10 - 1, 6, true}, {64 << 10, 7, true}, {64<<10 + 1, 7, false}, {900 << 10, 7, false},
	} {
		p := prefix(`{"messages":[{"role":"system","content":"` + words("a", tt.size) + `"},{"role":"user","content":"hi"}],"model":"m"}`)
		steps := 0
		for steps < last && p.Hashes[steps] != 0 {
			steps++
		}
		assert.Equal(t, tt.steps, steps, tt.size)
		assert.Equal(t, tt.steps > 0, p.Known(), tt.size)
		assert.Equal(t, tt.whole, p.Hashes[last] != 0, "%d: %v", tt.size, p)
		if tt.whole {
			assert.Equal(t, tt.size, p.Bytes)
			assert.Equal(t, tt.size/4, p.Tokens(last))
		} else {
			assert.Zero(t, p.Bytes)
		}
		seen := map[uint64]bool{}
		for _, h := range p.Hashes {
			assert.False(t, h != 0 && seen[h], "%d: %v", tt.size, p)
			seen[h] = true
		}
	}
	p := balance.Prefix{}
	assert.Equal(t, 256, p.Tokens(0))
	assert.Equal(t, balance.MaxPrefixBytes/4, p.Tokens(last-1))
}

func TestWhatBeginsTheSame(t *testing.T) {
	long, other := words("a", 3000), words("b", 3000)
	tools := `[{"name":"read","description":"` + words("t", 3000) + `"}]`
	chat := func(system string) string {
		return `{"messages":[{"role":"system","content":"` + system + `"},{"role":"user","content":"hi"}]}`
	}
	tests := []struct {
		name   string
		a, b   string
		common int  // steps
		whole  bool // the last one
	}{
		{"the same", chat(long), chat(long), 2, true},
		{"another question", chat(long), `{"messages":[{"role":"system","content":"` + long + `"},{"role":"user","content":"` + other + `"}]}`, 2, true},
		{"another order of members", chat(long), `{ "stream" : true , "messages" : [ { "content" : "` + long + `" , "role" : "system" } , {"role":"user","content":[]}],"model":"m"}`, 2, true},
		{"developer", chat(long), strings.Replace(chat(long), "system", "developer", 1), 2, true},
		{"parts", chat(long), `{"messages":[{"role":"system","content":[{"type":"text","text":"` + long + `","cache_control":{"type":"ephemeral"}}]}]}`, 2, true},
		{"messages API", chat(long), `{"system":"` + long + `","messages":[{"role":"user","content":"hi"}]}`, 2, true},
		{"its parts", chat(long), `{"messages":[],"system":[{"type":"text","text":"` + long + `"}]}`, 2, true},
		{"responses", chat(long), `{"instructions":"` + long + `","input":"hi"}`, 2, true},
		{"items of responses", chat(long), `{"input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"` + long + `"}]},{"role":"user","content":"hi"}]}`, 2, true},
		{"completions", chat(long), `{"prompt":"` + long + `"}`, 2, false},
		{"several prompts", chat(long), `{"prompt":["` + long + `","` + other + `"]}`, 2, false},
		{"null tools", chat(long), `{"tools":null,` + chat(long)[1:], 2, true},
		{"no tools", chat(long), `{"tools":[],` + chat(long)[1:], 2, true},
		{"the last of two", chat(long), `{"messages":[{"role":"system","content":"` + other + `"}],` + chat(long)[1:], 2, true},
		{"cut off behind it", chat(long), strings.TrimSuffix(chat(long), `"}]}`), 2, false},
		{"cut off within it", chat(long), chat(long)[:2500], 2, false},
		{"a billing line", chat(long), chat(`x-anthropic-billing-header: cc_version=2.1.117.48f; cc_entrypoint=cli; cch=71fea;\n` + long), 2, true},
		{"a billing block", chat(long), `{"system":[{"type":"text","text":"x-anthropic-billing-header: cch=1;"},{"type":"text","text":"` + long + `"}]}`, 2, true},

		{"the same salt", `{"cache_salt":"x",` + chat(long)[1:], strings.TrimSuffix(chat(long), "}") + `,"cache_salt":"x"}`, 2, true},
		{"no salt", chat(long), `{"cache_salt":null,` + chat(long)[1:], 2, true},
		{"another salt", chat(long), `{"cache_salt":"x",` + chat(long)[1:], 0, false},

		{"another prompt", chat(long), chat(other), 0, false},
		{"another after 1 KiB", chat(long), chat(long[:1030] + other), 1, false},
		{"more of it", chat(long), chat(long + "b"), 2, false},
		{"more tools", chat(long), `{"tools":` + tools + `,` + chat(long)[1:], 0, false},
		{"the same tools", `{"tools":` + tools + `,` + chat(long)[1:], strings.TrimSuffix(chat(other), "}") + `,"tools":` + tools + `}`, 2, false},
		{"in one text and in two", chat(long), `{"system":[{"text":"` + long[:10] + `"},{"text":"` + long[10:] + `"}]}`, 0, false},
		{"a text that is written as tools", `{"tools":` + tools + `}`, `{"prompt":` + quoted(tools) + `}`, 0, false},
		{"a system prompt after the user", chat(long), `{"messages":[{"role":"user","content":"hi"},{"role":"system","content":"` + long + `"}]}`, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := prefix(tt.a), prefix(tt.b)
			require.True(t, a.Known())
			assert.Equal(t, tt.common, common(a, b), "%v\n%v", a, b)
			assert.Equal(t, tt.whole, a.Hashes[last] == b.Hashes[last] && a.Hashes[last] != 0)
		})
	}
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	return string(b)
}

func TestWhatHasNoBeginning(t *testing.T) {
	long := words("a", 3000)
	for _, body := range []string{
		"", " ", "{", "{}", "[]", "null", `"` + long + `"`, long, `[{"role":"system","content":"` + long + `"}]`,
		`{"messages":[{"role":"user","content":"` + long + `"}]}`, `{"messages":"` + long + `"}`, `{"messages":{"role":"system","content":"` + long + `"}}`,
		`{"input":"` + long + `"}`, `{"prompt":[1,2,3]}`, `{"prompt":null}`, `{"system":null,"tools":{}}`, `{"system":{"text":"` + long + `"}}`,
		`{"system":"x-anthropic-billing-header: ` + long + `"}`, `{"messages":[{"role":"system","content":[{"type":"image","text":5}]}]}`,
		`{"other":{"system":"` + long + `"}}`, `{"messages":[[],5,{"role":"system","content":"` + long + `"}]}`,
		`{,"system":"` + long + `"}`, `{"system" "` + long + `"}`, `{"a":1 "system":"` + long + `"}`, `{"a":,"system":"` + long + `"}`,
		`{"messages":[{"content":"` + long + `"`, // the role is not there yet
	} {
		assert.False(t, func() bool { p := prefix(body); return p.Known() }(), "%.60s", body)
	}
}

func TestMoreTextsThanAreTaken(t *testing.T) {
	part := `{"text":"` + words("a", 100) + `"}`
	most := prefix(`{"system":[` + strings.Repeat(part+",", 31) + part + `]}`)
	more := prefix(`{"system":[` + strings.Repeat(part+",", 32) + part + `]}`)
	assert.Equal(t, 2, common(most, more))
	assert.NotZero(t, most.Hashes[last])
	assert.Zero(t, more.Hashes[last], "it is not known how it ends")
}

func TestSeeds(t *testing.T) {
	body := []byte(`{"prompt":"` + words("a", 5000) + `"}`)
	one, same, two := family.NewSeed(1), family.NewSeed(1), family.NewSeed(2)
	assert.Equal(t, family.Prefix(body, 0, &one), family.Prefix(body, 0, &same))
	a, b := family.Prefix(body, 0, &one), family.Prefix(body, 0, &two)
	for i := range 3 {
		assert.NotEqual(t, a.Hashes[i], b.Hashes[i])
	}
}

func TestDomains(t *testing.T) {
	body := []byte(`{"prompt":"` + words("a", 5000) + `"}`)
	a, same, b := family.Prefix(body, 7, &seed), family.Prefix(body, 7, &seed), family.Prefix(body, 8, &seed)
	assert.Equal(t, a, same)
	assert.Zero(t, common(a, b))
}

// TestHashesDiffer has texts that differ in one byte, at any place and of any
// length up to that of two steps.
func TestHashesDiffer(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[uint64]string{}
	for range 20_000 {
		text := []byte(strings.Repeat("a", 1024+rng.IntN(1100)))
		text[rng.IntN(len(text))] = byte('b' + rng.IntN(20))
		p := prefix(`{"prompt":"` + string(text) + `"}`)
		begins := string(text[:1024])
		if was, ok := seen[p.Hashes[0]]; ok {
			require.Equal(t, was, begins)
		}
		seen[p.Hashes[0]] = begins
	}
	assert.Greater(t, len(seen), 5000)
}

func TestPrefixAllocatesNothing(t *testing.T) {
	body := []byte(`{"tools":[{"name":"` + words("t", 9000) + `"}],"messages":[{"role":"system","content":[{"text":"` + words("a", 9000) + `"}]}]}`)
	assert.Zero(t, testing.AllocsPerRun(100, func() { family.Prefix(body, 0, &seed) }))
}
