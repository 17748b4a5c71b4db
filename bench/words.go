package bench

import (
	"hash/fnv"
	"math/rand/v2"
)

// The words of all texts: three letters and a space, which most tokenizers make
// one token of. Nothing in them needs escaping in JSON.
const (
	someWords = "act aid air ant arm art ash axe bar bat bay bed bee bow bus cap " +
		"car cat cow cup dog ear eel egg elk elm fan fig fin fog fox gem " +
		"gum hat hen hut ice ink ivy jam jar jet keg key kit lab lid log " +
		"mud nut oak oar owl pan pea pie pin pot ray rib rug sky sun toy "
	wordBytes = 4
)

// appendWords appends n bytes of random words.
func appendWords(b []byte, rng *rand.Rand, n int) []byte {
	end := len(b) + n
	for len(b) < end {
		// 10 words of 6 bits each
		for bits, i := rng.Uint64(), 0; i < 10 && len(b) < end; i++ {
			at := bits & 63 * wordBytes
			b = append(b, someWords[at:at+min(wordBytes, uint64(end-len(b)))]...)
			bits >>= 6
		}
	}
	return b
}

// named is the source of the words of the texts with a name.
func named(name string) *rand.Rand { return rand.New(rand.NewPCG(hashOf(name), 0)) }

// hashOf is the hash of a name; 0 for the empty one.
func hashOf(name string) uint64 {
	if name == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
