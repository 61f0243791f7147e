# For scripts that run several tiers of tests: runs make targets, counts what tap counted in them, and prints a table.
# SKIP names tiers to leave out, separated by spaces or commas: SKIP=card-test,power-test

SKIP=${SKIP:-}
# Rows of the table, and the tiers that SKIP may name: files, for what runs beside the script.
record=$(mktemp --directory)
trap 'rm -rf "$record"' EXIT

# tap prints at the end of a run: # { total: 9, pass: 6, fail: 2, skip: 1 }
count() { sed -nE "s/^# \{ total: .*\<$2: ([0-9]+).*/\1/p" "$1" | awk '{ sum += $1 } END { print sum + 0 }'; }

# row TIER SECONDS PASSED FAILED [REMARK]
row() { printf '%-12s %7s %8s %8s  %s\n' "$@" >>"$record/rows"; }

# tier TARGET [WITHIN]: make TARGET, unless it is to be left out by name. A tier that cannot run has failed: without root
# where it needs root, or after WITHIN seconds of the script. MADE names targets that are there already, and are not made again.
tier() {
  echo "$1" >>"$record/tiers"
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
  local began=$SECONDS status=0 output=$record/$1 made
  read -ra made <<<"${MADE:-}"
  make "${made[@]/#/--assume-old=}" "$1" 2>&1 | tee "$output" || status=1
  local failures
  failures=$(count "$output" fail)
  # A target that broke off has counted no failures.
  if ((status > 0 && failures == 0)); then failures=1; fi
  row "$1" $((SECONDS - began)) "$(count "$output" pass)" "$failures"
  echo "== make $1: $((SECONDS - began)) s"
}

# beside FUNCTION: calls it while the script goes on, until `join`. Its output has a mark in front of each line.
beside() { { "$1" 2>&1 || row "$1" 0 0 1 'broke off'; } | sed --unbuffered 's/^/  | /' & }
join() { wait; }

# Prints the table, and exits with 1 if anything failed.
conclude() {
  local name
  for name in ${SKIP//,/ }; do
    grep -qxF "$name" "$record/tiers" || row "$name" 0 0 1 "SKIP names no tier of these: $(paste -sd ' ' "$record/tiers")"
  done
  printf '%-12s %7s %8s %8s\n' tier seconds passed failed
  cat "$record/rows"
  awk '{ passed += $3; failed += $4 } END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 }' "$record/rows"
}
