# For scripts that run several tiers of tests: runs make targets, counts what tap counted in them, and prints a table.
# SKIP names tiers to leave out, separated by spaces or commas: SKIP=card-test,power-test

SKIP=${SKIP:-}
passed=0 failed=0
rows=() tiers=()
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# tap prints at the end of a run: # { total: 9, pass: 6, fail: 2, skip: 1 }
count() { sed -nE "s/^# \{ total: .*\<$1: ([0-9]+).*/\1/p" "$output" | awk '{ sum += $1 } END { print sum + 0 }'; }

# row TIER SECONDS PASSED FAILED [REMARK]
row() {
  rows+=("$(printf '%-12s %7s %8s %8s  %s' "$@")")
  passed=$((passed + $3)) failed=$((failed + $4))
}

# tier TARGET [WITHIN]: make TARGET, unless it is to be left out by name. A tier that cannot run has failed: without root
# where it needs root, or after WITHIN seconds of the script. MADE names targets that are there already, and are not made again.
tier() {
  tiers+=("$1")
  if [[ ",${SKIP//[ ,]/,}," == *",$1,"* ]]; then
    echo "== make $1: left out, as SKIP says"
    row "$1" 0 0 0 'left out by SKIP'
    return
  fi
  if ((SECONDS > ${2:-SECONDS})); then
    echo "== make $1: not run: it is late"
    row "$1" 0 0 1 'not run: late'
    return
  fi
  echo "== make $1"
  local began=$SECONDS status=0 made
  read -ra made <<<"${MADE:-}"
  make "${made[@]/#/--assume-old=}" "$1" 2>&1 | tee "$output" || status=1
  local failures
  failures=$(count fail)
  # A target that broke off has counted no failures.
  if ((status > 0 && failures == 0)); then failures=1; fi
  row "$1" $((SECONDS - began)) "$(count pass)" "$failures"
  echo "== make $1: $((SECONDS - began)) s"
}

# Prints the table, and exits with 1 if anything failed.
conclude() {
  local name
  for name in ${SKIP//,/ }; do
    [[ " ${tiers[*]} " == *" $name "* ]] || row "$name" 0 0 1 "SKIP names no tier of these: ${tiers[*]}"
  done
  printf '%-12s %7s %8s %8s\n' tier seconds passed failed
  printf '%s\n' "${rows[@]}"
  echo "$passed passed, $failed failed"
  exit $((failed > 0))
}
