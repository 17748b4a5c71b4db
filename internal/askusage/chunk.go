package askusage

import "github.com/warmroute/warmroute/internal/jsonscan"

// verdict is what is known of the data of an event.
type verdict uint8

const (
	undecided verdict = iota
	hasChoice         // it is no usage chunk, whatever comes after this
	other             // it is none
	usageOnly         // it is one, and has ended
)

// chunk reads the JSON object that is the data of an event, only as far as it
// takes to tell whether it is a usage chunk: choices is an empty array, usage
// an object, and there is no error. If a key is there twice, each has to be so.
type chunk struct {
	scan    jsonscan.Scanner
	choices bool
	usage   bool
}

func (c *chunk) reset() {
	c.scan.Reset(0)
	c.choices, c.usage = false, false
}

// read reads the next piece, and returns how much of it that took.
func (c *chunk) read(p []byte) (n int, v verdict) {
	for {
		size, token := c.scan.Next(p[n:])
		n += size
		switch token {
		case jsonscan.Member:
			if v := c.member(); v != undecided {
				return n, v
			}
		case jsonscan.End:
			if c.choices && c.usage {
				return n, usageOnly
			}
			return n, other
		case jsonscan.More:
			return n, undecided
		default:
			return n, other
		}
	}
}

// member takes the member just read.
func (c *chunk) member() verdict {
	s := &c.scan
	if s.Depth() > 1 {
		return hasChoice // nothing else is descended into
	}
	fits := true
	switch string(s.Key(0)) {
	case "choices":
		fits = s.Kind() == jsonscan.Array && s.Descend()
		c.choices = true
	case "usage":
		fits = s.Kind() == jsonscan.Object
		c.usage = true
	case "error":
		fits = s.Kind() == jsonscan.Null
	}
	if !fits {
		return other
	}
	return undecided
}
