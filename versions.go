package warmroute

import (
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// responsesAPI is the one on which vLLM honours the rank header later than on
// the others.
const responsesAPI = "/v1/responses"

// rankFacts is what is known of an endpoint's ranks beyond their number. Its
// watcher and its members share it.
type rankFacts struct {
	// collapsed says that several engines are routed as one replica.
	collapsed atomic.Bool
	// notOnResponses says that by its version the server ignores the rank header
	// on /v1/responses.
	notOnResponses atomic.Bool
	// responses and others say which APIs were used since it started.
	responses, others atomic.Bool
}

func (f *rankFacts) forget() {
	for _, b := range [...]*atomic.Bool{&f.collapsed, &f.notOnResponses, &f.responses, &f.others} {
		b.Store(false)
	}
}

// use notes that an API was used.
func (f *rankFacts) use(api string) {
	used := &f.others
	switch api {
	case "":
		return
	case responsesAPI:
		used = &f.responses
	}
	if !used.Load() { // a look is cheaper than a write
		used.Store(true)
	}
}

// honours reports whether, as far as is known, a request on an API runs where the
// router sends it, and notes that the API is used. Behind an endpoint that is
// routed as one replica, but has several engines, it need not.
func (m *member) honours(api string) bool {
	f := m.facts.Load()
	if f == nil {
		return true
	}
	f.use(api)
	if m.Rank() == replica.NoRank {
		return !f.collapsed.Load()
	}
	return api != responsesAPI || !f.notOnResponses.Load()
}

// vllmRelease is the minor number of vLLM 0.x.
type vllmRelease int

// The releases from which on things are as the router wants them.
const (
	oldestKnown       vllmRelease = 8
	honoursRank       vllmRelease = 14 // vllm#29002
	countsByReason    vllmRelease = 20
	honoursOnResponse vllmRelease = 33
)

// parseRelease reads the version of a released vLLM. A build from between two
// releases, which has "dev" in its version, may have what the next one has, and a
// checkout without tags calls itself 0.1.dev, so nothing is known of those; nor of
// what is older than 0.8 or calls itself 1 or more, which is some other program's
// version, such as that of a proxy.
func parseRelease(version string) (vllmRelease, bool) {
	version, _, _ = strings.Cut(version, "+") // the build, such as cpu or cu129
	if strings.Contains(version, "dev") {
		return 0, false
	}
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 || parts[0] != "0" || parts[2] == "" || parts[2][0] < '0' || parts[2][0] > '9' {
		return 0, false
	}
	minor, err := strconv.ParseUint(parts[1], 10, 16)
	if err != nil || vllmRelease(minor) < oldestKnown {
		return 0, false
	}
	return vllmRelease(minor), true
}

// versionKnown takes in what the endpoint says its version is, and what that says
// of the rank header. The watcher's lock is held.
func (w *watcher) versionKnown(version string) {
	release, ok := parseRelease(version)
	if !ok || release < countsByReason && w.countsByReason {
		return // another program's version, or another program's page
	}
	w.version, w.release = version, release
	w.facts.notOnResponses.Store(release < honoursOnResponse)
}

// gate says loudly what the version says of the rank header, once it matters, and
// routes the endpoint accordingly. engines is how many it has.
func (w *watcher) gate(page metrics.Page) {
	if w.release == 0 || !page.RankHeader || len(page.Engines) < 2 {
		return
	}
	switch {
	case w.release < honoursRank:
		if !w.ignoresAll {
			w.ignoresAll = true
			w.loud(versionProblem(w.endpoint.URL, w.version))
		}
	case w.facts.notOnResponses.Load() && w.facts.responses.Load():
		if o := w.proof.of(responsesAPI); !o.ignored {
			o.ignored = true
			w.loud(ignoredProblem(w.endpoint.URL, responsesAPI))
		}
	}
}
