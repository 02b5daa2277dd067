# table.sh - how a row of the lab reports; sourced by run and by every row.

# Lines of the table are marked inside a row's output, which carries the row's chatter too.
mark='@lab '
[ -n "${VMLAB:-}" ] || mark_out=''
: "${mark_out=$mark}"

# result PEER ROLE SUITE RESULT : RESULT begins with ok, FAIL or skip.
result() { printf '%s%-28s %-9s %-47s %s\n' "$mark_out" "$1" "$2" "$3" "${*:4}"; }
heading() { result PEER ROLE SUITE RESULT; }

# check PEER ROLE SUITE COMMAND... : ok when COMMAND succeeds.
check() {
  local peer=$1 role=$2 suite=$3; shift 3
  if "$@"; then result "$peer" "$role" "$suite" ok; else result "$peer" "$role" "$suite" "FAIL: $*"; fi
}

# gotests NAME : runs $LAB_BIN/NAME.test, one line for each test. A test that needs ESP must find it.
gotests() {
  local name=$1 log=$LAB_OUT/$1.txt verb test; shift
  REQUIRE=kernel-esp "$LAB_BIN/$name.test" -test.v "$@" >"$log" 2>&1 || true
  cat "$log"
  while read -r verb test _; do
    case $verb in PASS:) result "$name" test "$test" ok ;; SKIP:) result "$name" test "$test" "skip: $(skipped "$log" "$test")" ;; FAIL:) result "$name" test "$test" "FAIL: see above" ;; esac
  done < <(sed -n 's/^--- \([A-Z]*: .*\)/\1/p' "$log")
  [ "$(tail -n 1 "$log")" = PASS ] || result "$name" test all "FAIL: $(grep -m1 -E '^(panic|fatal error|FAIL)' "$log" || tail -n 1 "$log")"
}
skipped() { grep -A1 -F -- "--- SKIP: $2 " "$1" | sed -n '2s/^ *[^ ]*: //p'; }

# interop PATTERN [FLAG...] : rows of test/interop, whose table has the same columns. Each row's evidence stands behind its OK.
interop() {
  local log=$LAB_OUT/interop.txt pattern=$1 rc; shift
  CYGNET_BIN=$LAB_BIN PEERS_ROOT=$LAB/peers-root REQUIRE=kernel-esp,peers "$LAB_BIN/interop.test" -test.run "$pattern" -test.v "$@" >"$log" 2>&1; rc=$?
  cat "$log"
  sed -n '/^peer  /,$p' "$log" | sed 1d | grep . | sed "s/^/$mark_out/"
  [ $rc = 0 ] || result interop - "$pattern" "FAIL: $(grep -m1 -E '^(panic|fatal error|.*rows were flaky|FAIL)' "$log" || echo "exit code $rc")"
}
