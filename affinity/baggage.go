package affinity

import (
	"net/http"
	"net/url"
	"strings"
)

// Baggage returns the value of a member of the W3C Baggage headers as the key,
// percent-decoded and without its properties. LiteLLM takes session.id there for
// a session:
//
//	affinity.First(affinity.Default(), affinity.Baggage("session.id"))
//
// It is not among [Default]: what traces a web page sends the same member for a
// visit of a user, in which there may be many conversations.
//
// Source: LiteLLM configuration; W3C Baggage; OpenTelemetry semantic conventions,
// session.
func Baggage(member string) KeyFunc {
	source := "header Baggage " + member
	return func(r *Request) Key { return found(baggageMember(r.Header, member), source) }
}

// baggageMember is the first member of that name that is well formed.
func baggageMember(h http.Header, member string) string {
	for _, list := range h["Baggage"] {
		for item := range strings.SplitSeq(list, ",") {
			item, _, _ = strings.Cut(item, ";")
			name, value, ok := strings.Cut(item, "=")
			if !ok || strings.Trim(name, " \t") != member {
				continue
			}
			if value, err := url.PathUnescape(strings.Trim(value, " \t")); err == nil && value != "" {
				return value
			}
		}
	}
	return ""
}
