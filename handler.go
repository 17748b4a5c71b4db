package warmroute

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/warmroute/warmroute/internal/livepage"
	"github.com/warmroute/warmroute/metrics"
)

// Handler returns a read-only handler of
//
//	(its root)  a live page for browsers; for others, such as curl, the table
//	table       the replicas as plain text
//	stats       [Stats] as JSON
//	history     [History] as JSON
//	events      what the page shows, once a second, as server-sent events
//	metrics     Prometheus text
//
// and of the page's parts below assets/. Methods other than GET and HEAD are
// answered 405. Mount it below any path:
// http.StripPrefix("/debug/warmroute", router.Handler()). It shows the replicas'
// addresses and takes no credentials: wrap it in what your program uses for
// that. The page needs nothing from elsewhere, and allows its browser nothing
// else (Content-Security-Policy).
//
// All that watch events, of all handlers of a router, share one reading of the
// stats a second; at most 64 may at once. Their responses end when the router is
// closed and when Run ends, so that http.Server.Shutdown does not wait for them.
func (r *Router) Handler() http.Handler {
	mux := http.NewServeMux()
	livepage.Register(mux)
	mux.Handle("GET /events", r.feed)
	mux.HandleFunc("GET /history", func(w http.ResponseWriter, _ *http.Request) {
		var body bytes.Buffer
		page(w, "application/json", &body, json.NewEncoder(&body).Encode(r.History()))
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		var body bytes.Buffer
		enc := json.NewEncoder(&body)
		enc.SetIndent("", "  ")
		page(w, "application/json", &body, enc.Encode(r.Stats()))
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		var body bytes.Buffer
		page(w, metrics.ContentType, &body, r.WriteMetrics(&body))
	})
	table := func(w http.ResponseWriter, _ *http.Request) {
		var body bytes.Buffer
		page(w, "text/plain; charset=utf-8", &body, writeTable(&body, r.Stats()))
	}
	mux.HandleFunc("GET /table", table)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Vary", "Accept")
		if strings.Contains(req.Header.Get("Accept"), "text/html") {
			livepage.Serve(w, req)
			return
		}
		table(w, req)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead { // the mux would redirect some
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		if req.URL.Path == "" { // the prefix without its slash: the mux would redirect to the server's root
			address, _, _ := strings.Cut(req.RequestURI, "?")
			w.Header().Set("Location", "./"+path.Base(address)+"/")
			w.WriteHeader(http.StatusFound)
			return
		}
		mux.ServeHTTP(w, req)
	})
}

func page(w http.ResponseWriter, contentType string, body *bytes.Buffer, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body.Bytes()) // the reader is gone if this fails
}

func writeTable(body *bytes.Buffer, s Stats) error {
	for _, p := range s.Pools {
		model := p.Model
		if model == "" {
			model = "(default pool)"
		}
		affinity := "off"
		if p.Affinity {
			affinity = "on"
		}
		waiting := "off"
		if p.Queue.Active {
			waiting = fmt.Sprintf("%d of %d (longest %.1f s)", p.Queue.Waiting, p.Queue.MaxWaiting, p.Queue.Longest)
		}
		fmt.Fprintf(body, "%s  affinity %s  spill above %d (%s)  sticky %s  in flight %d  waiting for room %s  sessions %d  cached in the last hour %s\n",
			model, affinity, p.Spill.Value, p.Spill.Source, percent(p.StickyShare), p.InFlight, waiting, p.Sessions, percent(p.Tokens.CachedShareLastHour))
		w := tabwriter.NewWriter(body, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "replica\tstate\tin flight\tsessions\tsticky\tplaced\tspilled in\tpinned\tunkeyed\tfailed\trunning\twaiting\tKV used\tprefix hits\tverified\tscraped s ago\t")
		for _, m := range p.Replicas {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n",
				m.Name, m.State, m.InFlight, m.Sessions, m.Sticky, m.Placed, m.SpilledIn, m.Pinned, m.Unkeyed, m.Failed,
				number(m.Running), number(m.Waiting), percent(m.KVUsage), percent(m.PrefixHitRate), percent(m.VerifiedShare), seconds(m.ScrapedAgo))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, problem := range p.Problems {
			body.WriteString("PROBLEM: " + problem + "\n")
		}
		body.WriteByte('\n')
	}
	body.WriteString("stats: JSON   history: JSON   metrics: Prometheus text   a browser is shown a live page\n")
	return nil
}

// unknown stands for a number that is not known.
const unknown = "-"

func percent(v *float64) string {
	if v == nil {
		return unknown
	}
	return strconv.FormatFloat(*v*100, 'f', 1, 64) + "%"
}

func number(v *int) string {
	if v == nil {
		return unknown
	}
	return strconv.Itoa(*v)
}

func seconds(v *float64) string {
	if v == nil {
		return unknown
	}
	return strconv.FormatFloat(*v, 'f', 1, 64)
}
