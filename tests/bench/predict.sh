#!/usr/bin/env bash
# predict.sh - how well a profile predicts steps, and whether processes stay within their budgets.
#
#   tests/bench/predict.sh TEXT [options that tide profile and tide train share]
#   tests/bench/predict.sh corpus.txt --device cuda --model gpt2-124m --batch 32
#
# TIDE is the program (default build/tide), STEPS how many each row runs (default 20), PROFILE a profile to use
# instead of measuring one. A row is wrong, and the exit status 1, where the measured step (the median) is
# not within PERCENT (default 3) of the predicted one, or the process took more than its budget.
set -euo pipefail
tide=${TIDE:-$(dirname "$0")/../../build/tide}
steps=${STEPS:-20}
percent=${PERCENT:-3}
[ $# -gt 0 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
text=$1
shift
profile=${PROFILE:-}
if [ -z "$profile" ]; then
    profile=$(mktemp)
    trap 'rm -f "$profile"' EXIT
    rm -f "$profile"
    begin=$(date +%s.%N)
    "$tide" profile -o "$profile" "$@"
    awk -v b="$begin" -v e="$(date +%s.%N)" 'BEGIN { printf "profiled in %.1f s\n", e - b }'
fi

# One number of a JSON document.
field() { sed -n "s/^ *\"$2\": \([^\",]*\),\{0,1\}$/\1/p" <<<"$1" | head -1; }

wrong=0
printf '%-22s %12s %12s %7s %14s %14s\n' policy 'predicted ms' 'measured ms' ratio 'process bytes' 'budget bytes'
while read -r name options; do
    # shellcheck disable=SC2086 # several words are meant
    run=$("$tide" train --data "$text" --profile "$profile" --steps "$steps" --eval-batches 1 --quiet --json $options "$@")
    awk -v n="$name" -v p="$(field "$run" predicted_step_seconds)" -v m="$(field "$run" step_seconds)" \
        -v took="$(field "$run" process_bytes)" -v may="$(field "$run" budget_bytes)" -v within="$percent" '
        BEGIN { r = m / p; bad = r > 1 + within / 100 || r < 1 - within / 100 || (may != "null" && took > may)
                printf "%-22s %12.3f %12.3f %7.3f %14s %14s%s\n", n, p * 1e3, m * 1e3, r, took, may, bad ? "  wrong" : ""
                exit bad }' || wrong=1
done <<'ROWS'
keep            --policy keep
recompute       --policy recompute
offload-inputs  --policy offload-inputs
auto-70%        --budget 70%
auto-40%        --budget 40%
auto-15%        --budget 15%
ROWS
exit $wrong
