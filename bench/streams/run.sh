#!/usr/bin/env bash
# Builds what is compared and prints the table of the README. Flags are those of
# the program: ./bench/streams/run.sh -streams 2000
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
go build -o "$programs/streams" ./bench/streams
go build -o "$programs/gateway" ./examples/gateway
# Two descriptors a stream in the gateway, one in the client.
ulimit -n "$(ulimit -H -n)"
"$programs/streams" -gateway "$programs/gateway" "$@"
