# For scripts that run several tiers of tests: runs make targets, counts what tap counted in them, and prints a table.
# SKIP names tiers to leave out, separated by spaces or commas: SKIP=card-test,power-test
# DEADLINE is the time, in seconds from the start of the script, at which everything ends; without it, nothing is ended.

SKIP=${SKIP:-} DEADLINE=${DEADLINE:-0}
passed=0 failed=0
rows=() tiers=()
output=$(mktemp) failures=$(mktemp)
trap 'rm -f "$output" "$failures"' EXIT

# tap prints at the end of a run: # { total: 9, pass: 6, fail: 2, skip: 1 }
count() { sed -nE "s/^# \{ total: .*\<$1: ([0-9]+).*/\1/p" "$output" | awk '{ sum += $1 } END { print sum + 0 }'; }

# The failures that tap printed, each with the lines that follow it.
excerpt() { grep --text --extended-regexp --after-context=25 '^ *(not ok|✖|make: \*\*\*)' "$output" | head --lines=150 || true; }

# row TIER SECONDS PASSED FAILED [REMARK]
row() {
  rows+=("$(printf '%-12s %7s %8s %8s  %s' "$@")")
  passed=$((passed + $3)) failed=$((failed + $4))
}

# tier TARGET: make TARGET, unless it is to be left out by name. A tier that cannot run has failed: without root where it needs
# root, or past the deadline. MADE names targets that are there already, and are not made again.
tier() {
  tiers+=("$1")
  if [[ ",${SKIP//[ ,]/,}," == *",$1,"* ]]; then
    echo "== make $1: left out, as SKIP says"
    row "$1" 0 0 0 'left out by SKIP'
    return
  fi
  if ((DEADLINE > 0 && SECONDS >= DEADLINE)); then
    echo "== make $1: not run: it is late"
    row "$1" 0 0 1 'not run: late'
    return
  fi
  echo "== make $1"
  local began=$SECONDS status=0 made remark= within=0
  # To timeout(1), 0 is forever.
  if ((DEADLINE > 0)); then within=$((DEADLINE - SECONDS)); fi
  read -ra made <<<"${MADE:-}"
  timeout --kill-after=60 "$within" make "${made[@]/#/--assume-old=}" "$1" 2>&1 | tee "$output" || status=$?
  if ((status == 124 || status == 137)); then remark='ended: late'; fi
  local failed_here
  failed_here=$(count fail)
  # A target that broke off has counted no failures.
  if ((status > 0 && failed_here == 0)); then failed_here=1; fi
  if ((failed_here > 0)); then { echo "== failed in make $1"; excerpt; } >>"$failures"; fi
  row "$1" $((SECONDS - began)) "$(count pass)" "$failed_here" "$remark"
  echo "== make $1: $((SECONDS - began)) s"
}

# Prints the failures again, and the table, and exits with 1 if anything failed.
conclude() {
  local name
  for name in ${SKIP//,/ }; do
    [[ " ${tiers[*]} " == *" $name "* ]] || row "$name" 0 0 1 "SKIP names no tier of these: ${tiers[*]}"
  done
  cat "$failures"
  printf '%-12s %7s %8s %8s\n' tier seconds passed failed
  printf '%s\n' "${rows[@]}"
  echo "$passed passed, $failed failed"
  exit $((failed > 0))
}
