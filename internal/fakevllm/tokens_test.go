package fakevllm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWordsAreTokens(t *testing.T) {
	assert.Zero(t, len(openings)%tokenBytes)
	for i := 0; i < len(words); i += tokenBytes {
		assert.Regexp(t, `^ [a-z]{3}$`, words[i:i+tokenBytes])
	}
	a := answer(1)
	assert.Regexp(t, `^[a-z]{4}$`, a.word(0))
	assert.Equal(t, a.word(0)+a.word(1)+a.word(2), a.text(3))
	assert.Greater(t, len(strings.Fields(a.text(100))), 90)
}

func TestTokensOfAnAnswerAreThoseOfItsMessage(t *testing.T) {
	a := answer(5)
	generated := newTokenizer(1, "")
	generated.conversation([]message{{Role: "user", Content: "hello"}})
	for i := range 10 {
		generated.segment(a.word(i))
	}
	next := newTokenizer(1, "")
	next.conversation([]message{
		{Role: "user", Content: "hello"}, {Role: "assistant", Content: content(a.text(10))}, {Role: "user", Content: "and?"},
	})
	assert.Equal(t, generated.hashes, next.hashes[:len(generated.hashes)])
}

func TestTokenizer(t *testing.T) {
	hashes := func(blockSize int, salt string, segments ...string) []uint64 {
		tok := newTokenizer(blockSize, salt)
		for _, s := range segments {
			tok.segment(s)
		}
		return tok.hashes
	}
	tests := map[string]struct {
		a, b  []uint64
		equal int // leading hashes
	}{
		"same":              {hashes(2, "", "abcdefgh", "ijklmnop"), hashes(2, "", "abcdefgh", "ijklmnop"), 2},
		"longer":            {hashes(2, "", "abcdefgh"), hashes(2, "", "abcdefghijkl"), 1},
		"a block differs":   {hashes(1, "", "abcdefghijkl"), hashes(1, "", "abcdEfghijkl"), 1},
		"a segment ends":    {hashes(1, "", "ab", "cd"), hashes(1, "", "abcd"), 0},
		"a zero byte more":  {hashes(1, "", "ab"), hashes(1, "", "ab\x00"), 0},
		"other salt":        {hashes(1, "a", "ab"), hashes(1, "b", "ab"), 0},
		"a salt and none":   {hashes(1, "a", "ab"), hashes(1, "", "ab"), 0},
		"less than a block": {hashes(3, "", "abcdefgh"), hashes(3, "", "abcdefgh"), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := 0
			for n < min(len(test.a), len(test.b)) && test.a[n] == test.b[n] {
				n++
			}
			assert.Equal(t, test.equal, n)
			if n > 0 || name == "less than a block" {
				return
			}
			assert.NotEqual(t, test.a, test.b)
		})
	}
}
