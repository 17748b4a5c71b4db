package report_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/warmroute/warmroute/bench/report"
)

func measured() *report.Table {
	off, affinity := report.NewRow("off", 8), report.NewRow("affinity", 8)
	off.OutputPerMinute, off.TTFB.P50, off.TTFB.P95, off.HitShare = 8410, 2.31, 6.4, .447
	affinity.OutputPerMinute, affinity.TTFB.P50, affinity.TTFB.P95, affinity.HitShare = 10690, .49, 5.1, .858
	published := report.NewRow("off", 8)
	published.OutputPerMinute, published.TTFB.P50, published.TTFB.P95, published.HitShare = 8364, 2.33, 6.32, .443
	return &report.Table{
		Title:     "Seed table",
		Engines:   "4 ranks, RTX A4000, Qwen3-4B",
		Rows:      []report.Row{off, affinity},
		Published: []report.Row{published},
	}
}

func ExampleTable_WriteText() {
	if err := measured().WriteText(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Seed table
	// engines   4 ranks, RTX A4000, Qwen3-4B
	//
	//                             output   TTFB   TTFB  prefix
	// sessions  policy           tok/min  p50 s  p95 s  hits %
	//        8  off                 8410   2.31   6.40    44.7
	//        8  affinity           10690   0.49   5.10    85.8
	//        8  off (published)     8364   2.33   6.32    44.3
}

func ExampleReadJSON() {
	table, err := report.ReadJSON(strings.NewReader(
		`{"rows": [{"policy": "off", "sessions": 8, "ttfb_seconds": {"p50": 2.31}}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	ttfb := table.Rows[0].TTFB
	fmt.Println(ttfb.P50, ttfb.P95.Known())
	// Output: 2.31 false
}

func ExampleTable_WriteJSON() {
	var b strings.Builder
	if err := measured().WriteJSON(&b); err != nil {
		fmt.Println(err)
		return
	}
	table, err := report.ReadJSON(strings.NewReader(b.String()))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(table.Rows[1].Policy, table.Rows[1].HitShare)
	// Output: affinity 0.858
}

func ExampleTable_WriteCSV() {
	row := report.NewRow("affinity", 8)
	row.Seconds, row.TTFB.P50 = 180, .49
	if err := (&report.Table{Rows: []report.Row{row}}).WriteCSV(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// policy,sessions,published,seconds,sessions_per_hour,output_tokens_per_minute,ttfb_seconds.mean,ttfb_seconds.p50,ttfb_seconds.p95,ttfb_seconds.p99,ttfb_seconds.max,completion_seconds.mean,completion_seconds.p50,completion_seconds.p95,completion_seconds.p99,completion_seconds.max,busy_replicas,hit_share,cached_share,stayed_share,preemptions,fairness,requests,failed
	// affinity,8,false,180,,,,0.49,,,,,,,,,,,,,,,,
}

func ExampleTable_WriteHTML() {
	var page strings.Builder
	if err := measured().WriteHTML(&page); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.Count(page.String(), `<svg id="chart-`), "charts")
	fmt.Println(strings.Contains(page.String(), "<script"))
	// Output:
	// 4 charts
	// false
}

func ExampleProgress() {
	p := report.NewProgress(os.Stdout, 2, false)
	p.Step("8 sessions, off")
	p.Step("8 sessions, affinity")
	if err := p.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// step 1 of 2: 8 sessions, off
	// step 2 of 2: 8 sessions, affinity
}
