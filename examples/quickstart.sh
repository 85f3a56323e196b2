#!/usr/bin/env bash
# quickstart.sh - from a fresh Debian or Ubuntu machine to a small GPT that learns from a real book
# inside a budget that keeping everything would break.
#
#   examples/quickstart.sh [TEXT] [options of tide train]
#
# Without TEXT, the first argument that does not begin with a dash, the King James Bible of Debian's
# bible-kjv is the book. Options, such as --device cuda or --budget 60%, are passed on and win.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/setup.sh

text=
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
    text=$1
    shift
    [ -f "$text" ] || { echo "quickstart: there is no file $text" >&2; exit 2; }
fi

packages="gcc libc6-dev cmake ninja-build pkg-config libopenblas-dev libjansson-dev"
[ -n "$text" ] || packages="$packages bible-kjv"
# shellcheck disable=SC2086
need_packages $packages

echo "== building"
mkdir -p build
if ! { cmake -S . -B build -G Ninja -DTIDE_TESTS=OFF && cmake --build build -j "$(nproc)" --target tide_program; } \
    >build/quickstart.log 2>&1; then
    cat build/quickstart.log >&2
    exit 1
fi

if [ -z "$text" ]; then
    text=build/bible.txt
    [ -s "$text" ] || bible -f 'gen1:1-rev22:21' >"$text"
fi

model=(--model gpt-char --no-bias --gelu erf)
plan=build/quickstart-plan.json

# The plan belongs to a model and a device, so options that change those are passed on.
changes=()
for ((i = 1; i < $#; i++)); do
    case ${!i} in
    --device | --dtype | --batch | --seq | --layers | --width | --heads | --accum | --link | --dropout)
        next=$((i + 1))
        changes+=("${!i}" "${!next}") ;;
    esac
done

# On a GPU one product of matrices may work in more than that share of so small a model.
budget=40% code=0
build/tide plan "${model[@]}" "${changes[@]}" --profile guess --budget $budget >/dev/null 2>&1 || code=$?
[ $code -ne 3 ] || budget=least

echo "== learning from $text in a budget of $budget"
build/tide train "${model[@]}" --budget $budget --data "$text" --steps 1000 --lr 1e-3 --warmup 50 --min-lr 1e-4 \
    --beta2 0.99 --eval-every 250 --sample 400 --dump "$plan" "$@"
echo
echo "== the plan that it followed ($plan)"
build/tide plan "${model[@]}" --plan "$plan" "${changes[@]}"
