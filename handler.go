package warmroute

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"text/tabwriter"

	"github.com/warmroute/warmroute/metrics"
)

// Handler returns a read-only handler of three pages: stats ([Stats] as JSON),
// metrics (Prometheus text) and, at its root, a table to read. Mount it below
// any path: http.StripPrefix("/debug/warmroute", router.Handler()). It shows
// the replicas' addresses and takes no credentials: wrap it in what your
// program uses for that.
func (r *Router) Handler() http.Handler {
	mux := http.NewServeMux()
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
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		var body bytes.Buffer
		page(w, "text/plain; charset=utf-8", &body, writeTable(&body, r.Stats()))
	})
	return mux
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
		fmt.Fprintf(body, "%s  affinity %s  spill above %d (%s)  sticky %s  in flight %d  sessions %d  cached in the last hour %s\n",
			model, affinity, p.Spill.Value, p.Spill.Source, percent(p.StickyShare), p.InFlight, p.Sessions, percent(p.Tokens.CachedShareLastHour))
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
	body.WriteString("stats: JSON   metrics: Prometheus text\n")
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
