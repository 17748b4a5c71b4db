package fakevllm

// tokenBytes is how many bytes of text make a token. The end of a segment
// ends a token early.
const tokenBytes = 4

// tokenizer turns text into the hashes of its full blocks, each over the
// block's tokens and all before them, so that equal hashes mean equal
// prefixes. It keeps no tokens.
//
// Text comes in segments that are cut on their own: what follows a message
// does not move its tokens. The words of an answer are whole tokens, so an
// answer sent back as a message has the tokens that were generated.
type tokenizer struct {
	blockSize int
	tokens    int
	state     uint64 // over all tokens so far
	hashes    []uint64
}

// newTokenizer returns an empty one. Prompts share blocks only if their salts
// are equal, as with the cache_salt of a request.
func newTokenizer(blockSize int, salt string) *tokenizer {
	t := &tokenizer{blockSize: blockSize}
	for i := range len(salt) {
		t.state = mix(t.state, uint64(salt[i])+1)
	}
	return t
}

// segment adds a text.
func (t *tokenizer) segment(text string) {
	for len(text) > 0 {
		n := min(tokenBytes, len(text))
		token := uint64(n) << (8 * tokenBytes)
		for i := range n {
			token |= uint64(text[i]) << (8 * i)
		}
		t.add(token)
		text = text[n:]
	}
}

// answerHeader stands before the model's answer. It is the header of the
// message that the answer becomes.
const answerHeader = "<|assistant|>\n"

// message adds one message of a conversation.
func (t *tokenizer) message(role, text string) {
	t.segment("<|" + role + "|>\n")
	t.segment(text)
	t.segment("<|end|>\n")
}

func (t *tokenizer) add(token uint64) {
	t.state = mix(t.state, token)
	t.tokens++
	if t.tokens%t.blockSize == 0 {
		t.hashes = append(t.hashes, t.state)
	}
}

// mix folds v into h, with the finishing steps of splitmix64.
func mix(h, v uint64) uint64 {
	h = (h ^ v) + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// The words of answers: three letters, so that a word and the space before it
// are one token. The first word of an answer has a fourth letter instead of
// the space, so clients that trim answers change nothing.
const (
	openings = "alsobothdoeseachgivehavejustkeeplongmostnextonlypartreadsometake"
	words    = " add all and any are ask bad big box but can cut day end far few" +
		" fit for get got had has how its key law let low man map may net" +
		" new not now off old one our out put red row run say see set six" +
		" tax ten the top try two use via war was way who why yes yet you"
)

// answer is the text of an answer, decided by its key.
type answer uint64

// word returns the text of the i-th token.
func (a answer) word(i int) string {
	from := words
	if i == 0 {
		from = openings
	}
	at := int(mix(uint64(a), uint64(i))%uint64(len(from)/tokenBytes)) * tokenBytes
	return from[at : at+tokenBytes]
}

// text returns the first n tokens.
func (a answer) text(n int) string { return a.part(0, n) }

// part returns n tokens, the first of them the from-th.
func (a answer) part(from, n int) string {
	if n == 1 {
		return a.word(from)
	}
	b := make([]byte, 0, n*tokenBytes)
	for i := range n {
		b = append(b, a.word(from+i)...)
	}
	return string(b)
}
