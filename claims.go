package warmroute

import (
	"slices"
	"sync"
	"time"
)

// claim is a finished request that was sent to one rank of an endpoint. If the
// rank header was honoured, that rank's engine has counted its prompt. Or it is a
// turn on an endpoint without ranks whose verdict waits for the next page to show
// that the engine has not restarted meanwhile.
type claim struct {
	// before is the engine's prompt tokens, on the last page before it was sent;
	// below 0 if there is no rank to claim it of.
	before  float64
	ended   time.Time
	prompt  int64
	turn    judgedTurn
	api     string
	suspect bool // a page has shown that it cannot be true
}

// judgedTurn is a turn at home and what it says.
type judgedTurn struct {
	verdict Verdict // "" if the request was no turn at home
	gap     time.Duration
	kept    float64 // of what the turn before left, 0 to 1
}

// claims are a member's, until a page shows whether they can be true. Other
// requests on the engine only add to its count, so one that is too low proves
// that a request was served elsewhere, however many gateways there are; one that
// is high enough proves nothing.
type claims struct {
	mu   sync.Mutex
	open []claim
}

// maxClaims bounds what is kept between two pages. Claims beyond it are not
// checked.
const maxClaims = 1024

// add notes a claim, or reports false if it cannot be checked.
func (c *claims) add(cl claim) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= maxClaims {
		return false
	}
	c.open = append(c.open, cl)
	return true
}

// countedWithin is how long after an answer's end the engine has counted its
// prompt, and much more than it takes: it counts with the first token.
const countedWithin = 500 * time.Millisecond

// page holds the claims of requests that had ended when a page was asked for
// against the engine's count on it, and returns those that are settled. It takes
// two pages in a row to prove one wrong, so that a count that is late proves
// nothing.
func (c *claims) page(counted float64, asked time.Time) (wrong, right []claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ripe, open []claim
	for _, cl := range c.open {
		if cl.ended.Add(countedWithin).After(asked) {
			open = append(open, cl)
		} else {
			ripe = append(ripe, cl)
		}
	}
	cannot, right := refute(ripe, counted)
	for _, cl := range cannot {
		if cl.suspect {
			wrong = append(wrong, cl)
			continue
		}
		cl.suspect = true
		open = append(open, cl)
	}
	c.open = open
	return wrong, right
}

// drop returns all claims unchecked: the engine has begun to count anew.
func (c *claims) drop() []claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.open
	c.open = nil
	return all
}

// refute splits claims into those that cannot be true and the others. One cannot
// if the engine has counted less since it was sent than it has tokens. Once that
// was seen of one, what the engine counts later must not hide it: together with
// the others that ended by now it still has to fit.
func refute(claims []claim, counted float64) (wrong, right []claim) {
	claims = slices.DeleteFunc(claims, func(cl claim) bool {
		if cl.before < 0 {
			right = append(right, cl)
		}
		return cl.before < 0
	})
	if len(claims) == 0 {
		return nil, right
	}
	first, sum := claims[0].before, int64(0)
	for _, cl := range claims {
		first = min(first, cl.before)
		sum += cl.prompt
	}
	missing := sum - int64(counted-first)
	slices.SortStableFunc(claims, func(a, b claim) int { return a.ended.Compare(b.ended) })
	for _, cl := range claims {
		if float64(cl.prompt) > counted-cl.before || missing > 0 && cl.suspect {
			missing -= cl.prompt
			wrong = append(wrong, cl)
		} else {
			right = append(right, cl)
		}
	}
	return wrong, right
}
