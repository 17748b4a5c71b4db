#!/usr/bin/env bash
# Puts routers, one after another, in front of the same simulated engines, sends
# the same workload through each and prints one table. See README.md.
#
#   bench/peers/run.sh [NAME...]      all, or those whose names begin with one of these
#
# Everything listens on 127.0.0.1 and is ended by its process id. Settings, by
# environment: SESSIONS (4,8,16), STEP (18s), SEED (1), WORKLOAD (seed-table),
# OUT (folder for the tables and logs; default a temporary one that is kept),
# CACHE (folder for the routers' Python environment).
set -u
cd "$(dirname "$0")/../.."
SESSIONS=${SESSIONS:-4,8,16} STEP=${STEP:-18s} SEED=${SEED:-1} WORKLOAD=${WORKLOAD:-seed-table}
OUT=${OUT:-$(mktemp -d)} CACHE=${CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/warmroute-peers}
mkdir -p "$OUT" "$CACHE" || exit 1
OUT=$(cd "$OUT" && pwd) CACHE=$(cd "$CACHE" && pwd)

say() { printf '%s\n' "$*" >&2; }

pids=()
end_all() {
  local i
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill "${pids[i]}" 2>/dev/null || continue
    for _ in $(seq 50); do
      kill -0 "${pids[i]}" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "${pids[i]}" 2>/dev/null
    wait "${pids[i]}" 2>/dev/null
  done
  pids=()
}
trap end_all EXIT
trap 'exit 130' INT TERM

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# start NAME COMMAND...: runs a command with its output in a log.
start() {
  local log=$OUT/$1.log
  shift
  : >"$log"
  "$@" >>"$log" 2>&1 </dev/null &
  pids+=($!)
}

# answers URL: waits until a request gets to an engine.
answers() {
  for _ in $(seq 120); do
    curl -fs -m 2 -o /dev/null -H 'Content-Type: application/json' "$1/v1/chat/completions" \
      -d '{"model":"sim","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}' && return 0
    kill -0 "${pids[-1]}" 2>/dev/null || return 1
    sleep 0.25
  done
  return 1
}

say "building"
go build -o "$OUT/warmbench" ./bench/cmd/warmbench && go build -o "$OUT/gateway" ./examples/gateway || exit 1

wheels=$CACHE/venv/bin
if [ ! -x "$wheels/vllm-router" ] || [ ! -x "$wheels/sglang-router" ]; then
  say "installing the routers' wheels"
  # Without dependencies: those of vllm-router are all of vLLM; the launchers need these.
  python3 -m venv "$CACHE/venv" &&
    "$wheels/pip" install -q --no-deps vllm-router==0.1.17 sglang-router==0.3.2 &&
    "$wheels/pip" install -q setproctitle aiohttp orjson uvicorn fastapi requests ||
    say "NOT INSTALLED: the wheels of vllm-router and sglang-router"
fi
for tool in haproxy nginx; do
  command -v $tool >/dev/null && continue
  say "installing $tool"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $tool; } >"$OUT/apt.log" 2>&1 ||
    say "NOT INSTALLED: $tool"
done

tables=()

# compare NAME HEADER [COMMAND...]: with fresh engines, and the router of the
# command before them; without a command straight to the engines. In the command
# PORT, MONITOR and URLS stand for two free ports and the engines' base URLs.
compare() {
  local name=$1 header=$2
  shift 2
  if [ ${#wanted[@]} -gt 0 ]; then
    local w match=
    for w in "${wanted[@]}"; do [[ $name == "$w"* ]] && match=1; done
    [ -n "$match" ] || return 0
  fi
  if [ $# -gt 0 ] && ! command -v "$1" >/dev/null; then
    say "NOT RUN: $name: ${1##*/} is not there"
    return 0
  fi
  start "engines-$name" "$OUT/warmbench" engines -for 10m
  for _ in $(seq 100); do
    [ "$(wc -l <"$OUT/engines-$name.log")" -ge 4 ] && break
    sleep 0.1
  done
  local urls target
  mapfile -t urls <"$OUT/engines-$name.log"
  target=$(IFS=,; printf '%s' "${urls[*]}")
  if [ $# -gt 0 ]; then
    local port monitor word command=()
    port=$(free_port) monitor=$(free_port)
    for word in "$@"; do
      case $word in
        PORT) command+=("$port") ;;
        ADDRESS) command+=("127.0.0.1:$port") ;;
        MONITOR) command+=("$monitor") ;;
        URLS) command+=("${urls[@]}") ;;
        ENDPOINTS) for url in "${urls[@]}"; do command+=(-endpoint "$url"); done ;;
        CONFIG) "config_$name" "$port" "${urls[@]#http://}" >"$OUT/$name.conf" && command+=("$OUT/$name.conf") ;;
        *) command+=("$word") ;;
      esac
    done
    start "$name" "${command[@]}"
    target=http://127.0.0.1:$port
    if ! answers "$target"; then
      say "NOT RUN: $name does not answer; see $OUT/$name.log"
      end_all
      return 0
    fi
  fi
  say "== $name"
  # A fixed salt: the engines are new, and hashes fall the same way each time.
  if timeout 600 "$OUT/warmbench" live -workload "$WORKLOAD" -sessions "$SESSIONS" -step "$STEP" -seeds "$SEED" \
    -model sim -salt peers -session-header "$header" -replica-header X-Engine -drain 60s -max-requests 5000 \
    -metrics "$(IFS=,; printf '%s' "${urls[*]}")" -target "$name=$target" -json "$OUT/$name.json" >"$OUT/$name.txt"; then
    tables+=("$OUT/$name.json")
  else
    say "FAILED: $name"
  fi
  end_all
}

config_haproxy() {
  local port=$1 i=0 url
  shift
  cat <<END
global
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 10m
  timeout server 10m
  option http-no-delay
frontend in
  bind 127.0.0.1:$port
  default_backend engines
backend engines
  balance leastconn
  stick-table type string len 64 size 1m expire 30m
  stick on req.hdr(X-Session-Id)
END
  for url in "$@"; do
    echo "  server engine-$i $url"
    i=$((i + 1))
  done
}

config_nginx() {
  local port=$1 url
  shift
  cat <<END
daemon off;
master_process off;
pid $OUT/nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path $OUT/nginx-body;
  proxy_temp_path $OUT/nginx-proxy;
  fastcgi_temp_path $OUT/nginx-fastcgi;
  uwsgi_temp_path $OUT/nginx-uwsgi;
  scgi_temp_path $OUT/nginx-scgi;
  client_max_body_size 64m;
  client_body_buffer_size 4m;
  upstream engines {
    hash \$http_x_session_id consistent;
END
  for url in "$@"; do echo "    server $url;"; done
  cat <<END
    keepalive 256;
  }
  server {
    listen 127.0.0.1:$port;
    location / {
      proxy_pass http://engines;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 10m;
    }
  }
}
END
}

wanted=("$@")
session=X-Session-Id
compare direct $session
compare warmroute $session "$OUT/gateway" -listen ADDRESS -max-num-seqs 32 ENDPOINTS
for policy in round_robin cache_aware consistent_hash sticky_least_loaded; do
  compare "vllm-router-$policy" $session "$wheels/vllm-router" --host 127.0.0.1 --port PORT --policy $policy \
    --prometheus-port MONITOR --worker-urls URLS
done
compare sglang-router-cache_aware $session "$wheels/sglang-router" launch --host 127.0.0.1 --port PORT --policy cache_aware \
  --prometheus-host 127.0.0.1 --prometheus-port MONITOR --worker-urls URLS
compare sglang-router-manual X-SMG-Routing-Key "$wheels/sglang-router" launch --host 127.0.0.1 --port PORT --policy manual \
  --assignment-mode min_load --prometheus-host 127.0.0.1 --prometheus-port MONITOR --worker-urls URLS
compare haproxy $session haproxy -f CONFIG
compare nginx $session nginx -c CONFIG

if [ ${#tables[@]} -eq 0 ]; then
  say "nothing was compared"
  exit 1
fi
"$OUT/warmbench" show -html "$OUT/peers.html" -json "$OUT/peers.json" "${tables[@]}"
say "tables, logs and a page with charts: $OUT"
