# Functions for the checks in this directory: tools, and the program under test. Sourced from the repository's root.
#
# Tools go to target/ship: helm, kubeconform, actionlint and compose-go through the Go module proxy, others from Debian. After the
# first run, nothing is downloaded.

tools=$PWD/target/ship
mkdir -p "$tools/bin"
PATH="$tools/bin:$PATH"

fail() {
  echo "${0#"$PWD/"}: $*" >&2
  exit 1
}

debian() { # program package
  command -v "$1" >/dev/null && return
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    fail "$1 is missing; install Debian's $2"
  fi
  apt-get install -y -qq --no-install-recommends "$2" >/dev/null
}

go_tool() { # program package version
  [ -x "$tools/bin/$1" ] && return
  command -v go >/dev/null || fail "$1 is installed with Go, which is missing"
  echo "installing $1 $3"
  mkdir -p "$tools/new"
  GOBIN="$tools/new" GOFLAGS=-buildvcs=false go install "$2@$3"
  mv "$tools/new"/* "$tools/bin/$1"
}

# The directory of a Go module, downloaded if needed. Only its files are used; nothing is built.
go_module() { # path version
  (cd "$tools" && go mod download -json "$1@$2") | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])'
}

# The version in Cargo.toml.
workspace_version() {
  sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml
}

# The program to run: RATEKEEPER_BIN, or a debug build.
program() {
  if [ -n "${RATEKEEPER_BIN:-}" ]; then
    [ -x "$RATEKEEPER_BIN" ] || fail "RATEKEEPER_BIN=$RATEKEEPER_BIN is not a program"
    realpath "$RATEKEEPER_BIN"
  else
    cargo build --quiet -p ratekeeper-cli >&2
    realpath "${CARGO_TARGET_DIR:-target}/debug/ratekeeper"
  fi
}

# Whether a program needs no loader. `ldd` succeeds for static programs that are position-independent.
is_static() { # program
  ! readelf -lW "$1" | grep -q INTERP
}
