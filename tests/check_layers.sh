#!/usr/bin/env bash
# check_layers.sh - who may include whom. Prints every include that breaks a rule and fails.
#
# Rules are read from the top; the first whose files match decides. A rule lists what may stand
# in #include "..." (shell patterns); names in <...> are the C library unless listed below.
set -euo pipefail
cd "$(dirname "$0")/.."

rules() {
    cat <<'RULES'
runtime/plan_check*.[ch]  runtime/plan_check.h runtime/base.h runtime/graph.h runtime/plan.h
runtime/place*.[ch]       runtime/place*.h runtime/base.h runtime/tide.h runtime/pool.h
runtime/tide.h
runtime/base.h
runtime/op.h              runtime/tide.h
runtime/backend.h         runtime/op.h runtime/tide.h
runtime/plan.h            runtime/tide.h
runtime/graph.h           runtime/backend.h runtime/op.h runtime/tide.h
runtime/exec.[ch]         runtime/exec.h runtime/base.h runtime/graph.h runtime/plan.h
runtime/report/*          runtime/report/* runtime/*.h runtime/io/*.h
runtime/io/*              runtime/io/*.h runtime/base.h runtime/op.h runtime/graph.h runtime/tide.h
runtime/*                 runtime/*.h runtime/io/*.h
kernels/ops.h             kernels/ops.def runtime/op.h
kernels/ops/*             kernels/ops.h kernels/ops/*.h
kernels/cpu/*             kernels/ops.h kernels/ops.def kernels/ops/*.h kernels/cpu/*.h runtime/backend.h runtime/base.h
kernels/cuda/*            kernels/ops.h kernels/ops.def kernels/ops/*.h kernels/cuda/*.h kernels/cuda/*.cuh runtime/backend.h runtime/base.h
models/text/*             models/*.h kernels/ops.h runtime/tide.h runtime/op.h runtime/base.h runtime/io/*.h
models/files/*            models/*.h kernels/ops.h runtime/tide.h runtime/op.h runtime/base.h runtime/io/*.h
models/*                  models/*.h kernels/ops.h runtime/tide.h runtime/op.h runtime/base.h
examples/0*.c             models/*.h kernels/ops.h runtime/tide.h
examples/*                examples/*.h models/*.h kernels/ops.h runtime/tide.h runtime/base.h runtime/plan.h runtime/place.h runtime/report/*.h runtime/io/*.h
tests/*                   *
RULES
}

# Libraries, and the only places that may know them.
libraries() {
    cat <<'LIBRARIES'
jansson.h   runtime/io/* runtime/report/* runtime/profile*.c runtime/plan_*.c kernels/cuda/numerics.c models/files/* examples/* tests/*
cblas.h     kernels/cpu/*
omp.h       kernels/cpu/*
pthread.h   kernels/cpu/* kernels/cuda/* models/text/* tests/*
cuda*       kernels/cuda/*
cublas*     kernels/cuda/*
cudnn*      kernels/cuda/*
nv*         kernels/cuda/*
criterion/* tests/*
LIBRARIES
}

# matches TEXT PATTERN...: true if one of the patterns fits.
matches() {
    local text=$1 pattern
    shift
    for pattern; do
        # shellcheck disable=SC2254 # patterns are meant
        case $text in $pattern) return 0 ;; esac
    done
    return 1
}

# allowed FILE: the patterns of the first rule for it.
allowed() {
    local files patterns
    while read -r files patterns; do
        if matches "$1" "$files"; then
            echo "$patterns"
            return
        fi
    done < <(rules)
    echo "NONE"
}

set -f # patterns stay patterns
bad=0 checked=0
while read -r file; do
    read -ra patterns <<<"$(allowed "$file")"
    while read -r included; do
        checked=$((checked + 1))
        name=${included:1:-1}
        case $included in
        \"*) if ! matches "$name" "${patterns[@]:-}"; then
            echo "$file includes \"$name\"; it may include: ${patterns[*]:-nothing of ours}"
            bad=$((bad + 1))
        fi ;;
        *) while read -r library homes; do
            read -ra homes <<<"$homes"
            if matches "$name" "$library" && ! matches "$file" "${homes[@]}"; then
                echo "$file includes <$name>; only these may: ${homes[*]}"
                bad=$((bad + 1))
            fi
        done < <(libraries) ;;
        esac
    done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]+(<[^>]*>|"[^"]*").*/\1/p' "$file")
done < <(find runtime kernels models examples tests -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | sort)

# One #ifdef in all of the library: device.c lists a backend if it was built.
while read -r line; do
    echo "conditional code: $line"
    bad=$((bad + 1))
done < <(grep -rnE '^[[:space:]]*#[[:space:]]*(if|ifdef|ifndef)\b' runtime kernels models examples --include='*.[ch]' --include='*.cu' --include='*.cuh' |
    grep -vE ':#ifndef TIDE_([A-Z0-9_]+_)?(H|CUH)$|:#ifdef __cplusplus$|^runtime/device\.c:[0-9]+:#ifdef TIDE_CUDA$' || true)

# Two macros with logic: TRY and TIDE_OP.
while read -r line; do
    echo "a macro of its own: $line"
    bad=$((bad + 1))
done < <(grep -rnE '^[[:space:]]*#[[:space:]]*define[[:space:]]+[A-Za-z_0-9]+\(' runtime kernels models examples --include='*.[ch]' --include='*.cu' --include='*.cuh' |
    grep -vE 'define (TRY|TIDE_OP)\(' || true)

echo "$checked includes checked, $bad broken rules"
[ "$checked" -gt 0 ] && [ "$bad" -eq 0 ]
