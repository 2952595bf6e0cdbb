# Functions for the checks in this directory: a throw-away server, free ports, comparisons. Sourced from the repository's root.

ship_directory=$(mktemp -d)
ship_processes=()

# Ends the processes that this script started.
end_processes() {
  local process
  for process in "${ship_processes[@]}"; do
    kill "$process" 2>/dev/null || true
  done
  for process in "${ship_processes[@]}"; do
    wait "$process" 2>/dev/null || true
  done
  rm -rf "$ship_directory"
}
trap end_processes EXIT

fail() {
  echo "$*" >&2
  exit 1
}

# The program under test, built unless RATEKEEPER_BIN names one.
ratekeeper_program() {
  if [ -n "${RATEKEEPER_BIN:-}" ]; then
    [ -x "$RATEKEEPER_BIN" ] || fail "RATEKEEPER_BIN=$RATEKEEPER_BIN is not a program"
    ratekeeper=$RATEKEEPER_BIN
  else
    ratekeeper=$PWD/target/debug/ratekeeper
    [ -x "$ratekeeper" ] || cargo build --quiet -p ratekeeper-cli
  fi
}

# Starts a process that ends with this script; its output goes to a file.
launch() { # name command...
  local name=$1
  shift
  "$@" >"$ship_directory/$name.log" 2>&1 &
  ship_processes+=($!)
}

# Waits until a command succeeds, for at most 60 s.
wait_for() { # what log command...
  local what=$1 log=$2 deadline=$((SECONDS + 60))
  shift 2
  until "$@" >/dev/null 2>&1; do
    if [ $SECONDS -ge $deadline ]; then
      cat "$ship_directory/$log.log" >&2
      fail "$what did not start within 60 s"
    fi
    sleep 0.1
  done
}

# Starts a server on free ports of loopback; sets http, grpc, resp and admin to their addresses.
start_ratekeeper() { # arguments of serve...
  ratekeeper_program
  launch ratekeeper "$ratekeeper" serve --http 0 --grpc 0 --resp 0 --admin 0 "$@"
  local log=$ship_directory/ratekeeper.log
  wait_for "the server" ratekeeper grep -q '^  admin ' "$log"
  http=$(sed -nE 's|^  http .*http://([0-9.:]+)/.*|\1|p' "$log")
  grpc=$(sed -nE 's|^  grpc +([0-9.:]+) .*|\1|p' "$log")
  resp=127.0.0.1:$(sed -nE 's|^  resp .* -p ([0-9]+) .*|\1|p' "$log")
  admin=$(sed -nE 's|^  admin +http://([0-9.:]+)/.*|\1|p' "$log")
}

# Prints free ports of loopback.
free_ports() { # number
  python3 - "$1" <<'P'
import socket, sys
held = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in held:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))
P
}

# Compares output with what is expected.
same() { # what expected actual
  if [ "$2" != "$3" ]; then
    diff <(echo "$2") <(echo "$3") >&2 || true
    fail "$1: the output differs (< expected, > printed)"
  fi
  echo "ok    $1"
}
