package family_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/internal/family"
)

// FuzzPrefix gives it any bytes, and any texts in bodies that are well-formed.
func FuzzPrefix(f *testing.F) {
	f.Add([]byte(`{"tools":[{"a":"\""}],"system":[{"text":"x"}],"messages":[{"role":"system","content":"y"}],"prompt":["z"]}`), "tools", "system", uint16(3))
	f.Add([]byte(`{"messages":[{"role":"developer","content":"\\`), "x-anthropic-billing-header: a\nb", "\\\"\u00e9", uint16(2000))
	f.Add([]byte(`[[[{"a`), "", "", uint16(0))
	f.Fuzz(func(t *testing.T, raw []byte, tool, system string, at uint16) {
		kept := slices.Clone(raw)
		p := family.Prefix(raw, 0, &seed)
		assert.Equal(t, kept, raw, "the body is as it was")
		assert.Equal(t, p, family.Prefix(kept, 0, &seed), "equal bodies, equal hashes")
		checkSteps(t, &p)
		// A body that is cut off begins as the whole one does, or is not known.
		checkSteps(t, new(family.Prefix(raw[:min(len(raw), int(at))], 0, &seed)))

		pad := words("p", 1024)
		body := func(tool, system string) []byte {
			b, err := json.Marshal(map[string]any{
				"tools":    []string{tool},
				"messages": []map[string]string{{"role": "system", "content": system}, {"role": "user", "content": tool + system}},
			})
			assert.NoError(t, err)
			return b
		}
		a := family.Prefix(body("a"+tool+pad, system), 0, &seed)
		assert.True(t, a.Known())
		assert.Equal(t, a, family.Prefix(body("a"+tool+pad, system), 0, &seed))
		b := family.Prefix(body("b"+tool+pad, system), 0, &seed)
		assert.NotEqual(t, a.Hashes[0], b.Hashes[0], "another first step")
		longer := family.Prefix(body("a"+tool+pad, "b"+pad+system), 0, &seed)
		assert.Equal(t, a.Hashes[0], longer.Hashes[0], "the same tools")
		if a.Bytes > 0 {
			assert.NotEqual(t, a.Hashes[balance.PrefixSteps-1], longer.Hashes[balance.PrefixSteps-1], "another system prompt")
		}
	})
}

// checkSteps checks that there is no hash behind one that is missing, but for the
// last.
func checkSteps(t *testing.T, p *balance.Prefix) {
	t.Helper()
	const last = balance.PrefixSteps - 1
	n := slices.Index(p.Hashes[:last], 0)
	if n < 0 {
		n = last
	}
	for _, h := range p.Hashes[n:last] {
		assert.Zero(t, h)
	}
	assert.Equal(t, p.Hashes[last] != 0, p.Bytes != 0)
	assert.False(t, p.Bytes != 0 && n == 0)
}
