#!/usr/bin/env bash
# Runs the benchmarks COUNT times over, each time every table once, so that the
# tables are interleaved in time and a busy minute hits all of them. The results
# go to one file, OUT, which benchstat reads.
#
#   COUNT      rounds (default 10)
#   BENCHTIME  for each benchmark, as go test -benchtime (default 2s)
#   N          conversations, a regular expression (default 100000|1000000)
#   BENCH      benchmarks, a regular expression (default GetOrCreate|Hit)
#   OUT        file of results (default results.txt), overwritten
set -euo pipefail
cd "$(dirname "$0")"

count=${COUNT:-10}
benchtime=${BENCHTIME:-2s}
n=${N:-100000|1000000}
bench=${BENCH:-GetOrCreate|Hit}
out=${OUT:-results.txt}
impls="${IMPLS:-ours xsync otter otter4M ttlcache naive expirable}"

binary=$(mktemp)
trap 'rm -f "$binary"' EXIT
go test -c -o "$binary" .

: >"$out"
for round in $(seq "$count"); do
  for impl in $impls; do
    echo "round $round of $count: $impl" >&2
    "$binary" -test.run '^$' -test.count 1 -test.cpu 2 -test.benchtime "$benchtime" \
      -test.bench "^Benchmark($bench)\$/^n=($n)\$/^impl=$impl\$" >>"$out"
  done
done

benchstat=$(command -v benchstat || echo "$(go env GOPATH)/bin/benchstat")
if [ ! -x "$benchstat" ]; then
  echo "no benchstat: go install golang.org/x/perf/cmd/benchstat@latest" >&2
  echo "then: benchstat -col '/impl@($impls)' $out" >&2
  exit 0
fi
"$benchstat" -col "/impl@($impls)" "$out"
