#!/usr/bin/env bash
# run.sh - install what is missing, build in every way that matters, and pass all tests.
#
#   1. gcc, ThreadSanitizer: the stress tests (OpenMP off: it does not know its barriers)
#   2. gcc, AddressSanitizer and UndefinedBehaviorSanitizer: all tests
#   3. clang, warnings are errors: everything compiles
#   4. the layout of the sources, where clang-format is installed
#   5. gcc, optimised, warnings are errors, with CUDA where nvcc is: all tests
#
# The last lines are CTest's own for the optimised build.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/setup.sh

need_packages gcc libc6-dev clang cmake ninja-build pkg-config libopenblas-dev libjansson-dev libcriterion-dev libomp-dev

jobs=$(nproc)
export CTEST_OUTPUT_ON_FAILURE=1

# build FOLDER COMPILER [cmake options]
build() {
    local folder=$1 compiler=$2
    shift 2
    echo "== $folder: $compiler $*"
    mkdir -p "$folder"
    if ! { CC=$compiler cmake -S . -B "$folder" -G Ninja -DTIDE_TESTS=ON -DTIDE_WERROR=ON "$@" &&
        cmake --build "$folder" -j "$jobs"; } >"$folder/build.log" 2>&1; then
        tail -n 60 "$folder/build.log" >&2
        exit 1
    fi
}

# Assertions are on only here.
checked=(-DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1 -DTIDE_CUDA=OFF)

build build-tsan gcc "${checked[@]}" -DTIDE_SANITIZE=thread -DTIDE_OPENMP=OFF
ctest --test-dir build-tsan -j "$jobs" -R '^stress_'

build build-asan gcc "${checked[@]}" -DTIDE_SANITIZE=address,undefined
# Left to the optimised build: comparing devices, of which there is one here, and reading the sources.
LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0 \
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ctest --test-dir build-asan -j "$jobs" -E '^test_agreement|^check_'

build build-clang clang -DTIDE_CUDA=OFF

if command -v clang-format >/dev/null && clang-format --version | grep -q 'version 14\.'; then
    echo "== layout"
    git ls-files '*.c' | xargs clang-format --dry-run -Werror
fi

# The CUDA sources are compiled wherever nvcc is, for the GPU that is here or else for one kind.
architecture=90
nvidia-smi >/dev/null 2>&1 && architecture=native
build build gcc -DCMAKE_CUDA_ARCHITECTURES=$architecture
ctest --test-dir build
