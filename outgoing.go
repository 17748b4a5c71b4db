package warmroute

import (
	"net/http"
	"strings"

	"github.com/warmroute/warmroute/replica"
)

// headerPrefix begins the names of the headers that are the router's own.
const headerPrefix = "X-Warmroute-"

// WithUntrustedClients says that requests come from clients that must not choose
// or learn anything of the fleet: their X-Data-Parallel-Rank and X-Warmroute-
// headers are taken off before routing and never sent on, as with
// [DropClientRank], unless [RefuseClientRank] refuses them, and no answer is given
// the headers of [WithDebugHeaders]. Bodies are passed on
// as they are; SGLang reads a rank from one (routed_dp_rank) where it has no header,
// which requests have that go to a server of several ranks. Session keys are the
// clients' to choose in any case: one who guesses another's shares its replica,
// and nothing else. Default off.
func WithUntrustedClients(on bool) Option {
	return option(func(c *config) { c.untrusted = on })
}

// outgoingHeader returns the header with the lease's rank and no other, and with
// its endpoint's key if it has one. The caller's map is never written to; it is
// used as it is if it need not change.
func outgoingHeader(h http.Header, lease Lease) http.Header {
	rank := lease.member.RankHeaderValues()
	if lease.rank != "" {
		rank = []string{lease.rank}
	}
	auth := lease.member.AuthorizationValues()
	untrusted := lease.pool.router.cfg.untrusted
	if rank == nil && auth == nil && !hasRankHeader(h) && !(untrusted && hasOwnHeader(h)) {
		return h
	}
	out := make(http.Header, len(h)+2)
	for name, v := range h {
		// Names that were put into the map by hand may not be canonical.
		switch {
		case isHeader(name, replica.RankHeader):
		case auth != nil && isHeader(name, "Authorization"):
		case untrusted && isOwnHeader(name):
		default:
			out[name] = v
		}
	}
	if rank != nil {
		out[replica.RankHeader] = rank
	}
	if auth != nil {
		out["Authorization"] = auth
	}
	return out
}

func isHeader(name, want string) bool { return len(name) == len(want) && strings.EqualFold(name, want) }

func isOwnHeader(name string) bool {
	return len(name) >= len(headerPrefix) && strings.EqualFold(name[:len(headerPrefix)], headerPrefix)
}

func hasOwnHeader(h http.Header) bool {
	for name := range h {
		if isOwnHeader(name) {
			return true
		}
	}
	return false
}

func hasRankHeader(h http.Header) bool { _, ok := clientRank(h); return ok }

// clientRank returns the rank that the client sent. Of several the first
// counts, as in vLLM.
func clientRank(h http.Header) (string, bool) {
	if v := h[replica.RankHeader]; len(v) > 0 {
		return v[0], true
	}
	for name, v := range h {
		if isHeader(name, replica.RankHeader) {
			if len(v) == 0 {
				return "", true
			}
			return v[0], true
		}
	}
	return "", false
}
