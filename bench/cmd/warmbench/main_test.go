package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/report"
)

// call runs the program.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func table(t *testing.T, file string) *report.Table {
	t.Helper()
	read, err := readTable(file)
	require.NoError(t, err)
	return read
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"-h"}} {
		code, stdout, stderr := call(t, args...)
		assert.Equal(t, exitDone, code)
		assert.Contains(t, stdout, "warmbench live")
		assert.Empty(t, stderr)
	}
	for name := range commands() {
		code, stdout, stderr := call(t, name, "-h")
		assert.Equal(t, exitDone, code, name)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, "warmbench "+name)
	}
	_, _, help := call(t, "sim", "-h")
	for _, w := range workloads() {
		assert.Contains(t, help, "  "+w.name)
	}
	for _, p := range policies() {
		assert.Contains(t, help, "  "+p.name)
	}
}

func TestWrongUsage(t *testing.T) {
	for says, args := range map[string]string{
		"warmbench compares":                "",
		`no command "simulate"`:             "simulate",
		"flag provided but not defined: -x": "sim -x",
		`unexpected argument "more"`:        "sim more",
		`no policy "best"`:                  "sim -policies best",
		"it takes no argument":              "sim -policies off:3",
		"nothing behind the colon":          "sim -policies affinity:",
		`policy "affinity:0"`:               "sim -policies affinity:0",
		`"x" is no number`:                  "sim -policies bounded-load:x",
		`policy "bounded-load:1"`:           "sim -policies bounded-load:1",
		`policy "engine-lb:new"`:            "sim -policies engine-lb:new",
		`"2" is no number from 0 to 1`:      "sim -policies residents:2",
		"an empty name":                     "sim -policies off,,affinity",
		`no workload "mine"`:                "sim -workload mine",
		`"0" is no whole number above 0`:    "sim -sessions 0",
		"-step is -1s":                      "sim -step -1s",
		"-trace is for the workload trace":  "sim -trace f",
		"-speed is for the workload trace":  "sim -speed 10",
		"-max-turns is for the workload":    "live -target a=http://a -workload churn -max-turns 3",
		"-trace FILE is missing":            "trace",
		"-parallel is -1":                   "sim -parallel -1",
		"-speed is 0":                       "trace -speed 0 -trace ../../testdata/trace.jsonl",
		"-max-pause is 0":                   "trace -max-pause 0 -trace ../../testdata/trace.jsonl",
		"-token-bytes from 0 to 1000":       "live -target a=http://a -token-bytes NaN",
		"Speed is -1":                       "trace -speed -1 -trace ../../testdata/trace.jsonl",
		"-target NAME=URL is missing":       "live",
		"want NAME=URL":                     "live -target http://a",
		`"a" is no http URL`:                "live -target a=a",
		"-max-requests and -drain":          "live -target a=http://a -max-requests 0",
		"want NAME: VALUE":                  "live -header x",
		"-n and -for have to be above 0":    "engines -n 0",
		"PrefillRate is -1":                 "engines -prefill-rate -1",
		"no file is named":                  "show",
		"-html comes after a file":          "show a.json -html b.html",
	} {
		code, stdout, stderr := call(t, strings.Fields(args)...)
		assert.Equal(t, exitUsage, code, args)
		assert.Contains(t, stderr, says, args)
		assert.Equal(t, 1, strings.Count(stderr, says), args)
		assert.Empty(t, stdout, args)
	}
}

func TestFailures(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for says, args := range map[string][]string{
		"no such file":         {"trace", "-trace", missing},
		"no rows":              {"show", "testdata/none.json"},
		"bench: trace, line 1": {"trace", "-trace", "main.go"},
		"prefill":              {"sim", "-prefill-rate", "-1"},
		"endpoints is -1":      {"sim", "-endpoints", "-1"},
		"kvtokens is 5":        {"sim", "-kv-tokens", "5"},
		"which model":          {"live", "-target", "a=http://127.0.0.1:1"},
		"is a directory":       {"sim", "-step", "1s", "-seeds", "1", "-sessions", "1", "-json", t.TempDir()},
		"outages":              {"live", "-workload", "churn", "-target", "a=http://127.0.0.1:1"},
	} {
		code, _, stderr := call(t, args...)
		assert.Equal(t, exitFailed, code, args)
		assert.Contains(t, strings.ToLower(stderr), says, args)
	}
}

func TestSim(t *testing.T) {
	dir := t.TempDir()
	names := []string{}
	for _, p := range policies() {
		names = append(names, p.name)
	}
	names = append(names, "affinity:2", "residents:0", "soft-affinity:0.5", "bounded-load:2", "engine-lb:0.27.0")
	args := []string{"sim", "-sessions", "2,3", "-step", "10s", "-seeds", "3", "-policies", strings.Join(names, ","),
		"-html", filepath.Join(dir, "t.html"), "-json", filepath.Join(dir, "t.json"), "-csv", filepath.Join(dir, "t.csv")}
	code, stdout, stderr := call(t, args...)
	require.Equal(t, exitDone, code, stderr)
	assert.Contains(t, stderr, fmt.Sprintf("step 1 of %d: off, 2 to 3 sessions, seed 3\n", len(names)))
	written := table(t, filepath.Join(dir, "t.json"))
	require.Len(t, written.Rows, 2*len(names))
	assert.Equal(t, []uint64{3}, written.Seeds)
	assert.Contains(t, written.Workload, "changed: steps of [2 3] of 10s")
	for i, r := range written.Rows {
		assert.Equal(t, names[i%len(names)], r.Policy)
		assert.Equal(t, report.Value(10), r.Seconds)
		assert.Zero(t, r.Failed, r.Policy)
		assert.Contains(t, stdout, r.Policy)
	}
	for _, name := range []string{"t.html", "t.csv"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Contains(t, string(b), "power-of-two")
	}
	again := filepath.Join(dir, "again.json")
	code, _, _ = call(t, append(args, "-json", again)...)
	require.Equal(t, exitDone, code)
	for i, r := range table(t, again).Rows {
		assert.Equal(t, fmt.Sprint(written.Rows[i]), fmt.Sprint(r), "the same again, chance included")
	}
}

func TestSimEngines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.json")
	code, _, stderr := call(t, "sim", "-workload", "churn", "-sessions", "2", "-step", "5m", "-seeds", "1", "-policies", "affinity", "-kv-tokens", "30000", "-step-time", "40ms", "-json", file)
	require.Equal(t, exitDone, code, stderr)
	written := table(t, file)
	assert.Equal(t, "changed engines: 4 x 1 ranks, max_num_seqs 32, 30000 KV tokens a rank, prefill 2300 tokens/s, step 40ms + 350µs per 1,000 tokens of context", written.Engines)
	assert.Len(t, written.Rows, 1)
}

func TestTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.json")
	code, stdout, stderr := call(t, "trace", "-trace", "../../testdata/trace.jsonl", "-speed", "10", "-sessions", "3", "-step", "20s", "-reworded", "-json", file)
	require.Equal(t, exitDone, code, stderr)
	assert.Contains(t, stdout, "pauses at 10 times the speed")
	written := table(t, file)
	require.Len(t, written.Rows, 2)
	assert.Positive(t, float64(written.Rows[1].SessionsPerHour))
}

// serve runs the simulated engines until the test ends.
func serve(t *testing.T, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	reader, writer := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, append([]string{"engines"}, args...), writer, io.Discard)
		_ = writer.Close()
		ended <- code
	}()
	t.Cleanup(func() {
		cancel()
		assert.Equal(t, exitDone, <-ended)
	})
	var urls []string
	for lines := bufio.NewScanner(reader); len(urls) < 2 && lines.Scan(); {
		urls = append(urls, lines.Text())
	}
	require.Len(t, urls, 2)
	return urls
}

func TestLiveOnSimulatedEngines(t *testing.T) {
	urls := serve(t, "-n", "2", "-prefill-rate", "1e6", "-step-time", "100us")
	dir := t.TempDir()
	one, two := filepath.Join(dir, "1.json"), filepath.Join(dir, "2.json")
	args := []string{"live", "-sessions", "4", "-step", "20s", "-max-requests", "30", "-metrics", strings.Join(urls, ","),
		"-replica-header", engineHeader, "-session-header", "X-Chat", "-header", "X-More: yes", "-ignore-eos", "-salt", "s", "-seeds", "1"}
	code, stdout, stderr := call(t, append(args, "-json", one, "-target", "direct="+strings.Join(urls, ","))...)
	require.Equal(t, exitDone, code, stderr)
	assert.Contains(t, stderr, "step 1 of 1: direct, 4 sessions, seed 1\n")
	assert.Contains(t, stdout, "model sim, 2 replicas, 4.00 bytes of text a token")
	row := table(t, one).Rows[0]
	assert.Equal(t, [2]report.Value{30, 0}, [2]report.Value{row.Requests, row.Failed})
	assert.Equal(t, report.Value(1), row.Stayed)
	assert.True(t, row.HitShare.Known())

	code, _, stderr = call(t, append(args, "-json", two, "-token-bytes", "4", "-model", "sim", "-target", "one="+urls[0])...)
	require.Equal(t, exitDone, code, stderr)
	code, stdout, stderr = call(t, "show", one, two)
	require.Equal(t, exitDone, code, stderr)
	assert.Contains(t, stdout, "direct")
	assert.Contains(t, stdout, "one ")
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr bytes.Buffer
	assert.Equal(t, exitFailed, run(ctx, []string{"sim"}, io.Discard, &stderr))
	assert.Contains(t, stderr.String(), "context canceled")
}

func TestPortInUse(t *testing.T) {
	urls := serve(t, "-n", "2")
	port := urls[0][strings.LastIndex(urls[0], ":")+1:]
	code, stdout, stderr := call(t, "engines", "-port", port)
	assert.Equal(t, exitFailed, code)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "in use")
}
