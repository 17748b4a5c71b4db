package warmroute

import "sync"

// claim is a finished request that was sent to one rank of an endpoint. If the
// rank header was honoured, that rank's engine has counted its prompt.
type claim struct {
	before  float64 // the engine's prompt tokens, on the last page before it was sent
	prompt  int64
	verdict Verdict // so far; "" if the request was no turn at home
	api     string
}

// claims are a member's, until a page shows whether they can be true. Other
// requests on the engine only add to its count, so one that is too low proves
// that a request was served elsewhere, however many gateways there are; one that
// is high enough proves nothing.
type claims struct {
	mu    sync.Mutex
	fresh []claim // finished since the last page
	ripe  []claim // finished before the last page: the next one has counted them
}

// maxClaims bounds what is kept between two pages. Claims beyond it are not
// checked.
const maxClaims = 1024

// add notes a claim, or reports false if it cannot be checked.
func (c *claims) add(cl claim) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fresh) >= maxClaims {
		return false
	}
	c.fresh = append(c.fresh, cl)
	return true
}

// page holds the ripe claims against the engine's count on a page, and returns
// them with those that were proved wrong first. Claims that finished since the
// page before ripen.
func (c *claims) page(counted float64) (wrong, right []claim) {
	c.mu.Lock()
	ripe := c.ripe
	c.ripe, c.fresh = c.fresh, nil
	c.mu.Unlock()
	return refute(ripe, counted)
}

// drop returns all claims unchecked: the engine has begun to count anew.
func (c *claims) drop() []claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append(c.ripe, c.fresh...)
	c.ripe, c.fresh = nil, nil
	return all
}

// refute splits claims into those that cannot be true and the others. A single
// one is wrong if the engine has counted less since it was sent than it has
// tokens; of several together as many are wrong as it takes to make their sum
// fit, and it is those that found no cache.
func refute(claims []claim, counted float64) (wrong, right []claim) {
	if len(claims) == 0 {
		return nil, nil
	}
	first, sum := claims[0].before, int64(0)
	for _, cl := range claims {
		first = min(first, cl.before)
		sum += cl.prompt
	}
	missing := sum - int64(counted-first)
	for _, cl := range claims {
		alone := float64(cl.prompt) > counted-cl.before
		cold := cl.verdict == Lost || cl.verdict == Rewritten
		if alone || missing > 0 && cold {
			missing -= cl.prompt
			wrong = append(wrong, cl)
		} else {
			right = append(right, cl)
		}
	}
	return wrong, right
}
