# shellcheck shell=bash
# Shared by the scripts beside it. Source it from the repository's root; it runs nothing by itself.

# A login shell is not a given (cron, CI): find cargo where rustup puts it, and our own tools where we put them.
export PATH="$PWD/target/tools/bin:$PATH"
command -v cargo >/dev/null || PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"

# What a test or a script could not do for want of something, one "NAME: REASON" a line. Tests append to it too.
export WEIR_SKIPS="${WEIR_SKIPS:-$PWD/target/test/skips}"

# The exit status of a step that did not run and said why in $WEIR_SKIPS (the number automake uses for it).
SKIPPED=77

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }
is_ci() { [ "${CI:-}" = true ] || [ "${CI:-}" = 1 ]; }

# skip NAME REASON: notes what is left out, and ends the script. Never a failure, not even in CI.
skip() { note_skip "$1" "$2"; exit "$SKIPPED"; }

# missing NAME REASON: like skip, but in CI, where everything can be installed, it is a failure.
missing() {
  note_skip "$1" "$2"
  if is_ci; then die "$1: $2; with CI=true that is a failure"; fi
  exit "$SKIPPED"
}

note_skip() {
  mkdir -p "$(dirname "$WEIR_SKIPS")"
  printf '%s: %s\n' "$1" "$2" >>"$WEIR_SKIPS"
  say "skipped: $1: $2"
}

# cargo_tool NAME: makes `cargo NAME` available, building it into target/tools if it is missing.
cargo_tool() {
  command -v "cargo-$1" >/dev/null && return
  say "installing cargo-$1 into target/tools"
  # Unoptimised: it is built more slowly than it ever runs here.
  CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug --locked --quiet --root target/tools "cargo-$1" </dev/null
}
