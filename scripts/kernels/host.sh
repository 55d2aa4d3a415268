#!/usr/bin/env bash
# Runs the GPU kernels' own source on the host, thread by thread, against plain C++ and under AddressSanitizer and
# UndefinedBehaviorSanitizer: once for each layout that a matrix instruction has on some GPU (hip/kernels/matrix.h).
#
# usage: scripts/kernels/host.sh [compiler]      default: $CXX or g++ (12 or newer, or clang with its sanitizers)
set -euo pipefail
cd "$(dirname "$0")/../../hip/kernels/host"

compiler=${1:-${CXX:-g++}}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
flags=(-x c++ -std=c++20 -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -Wall -Wextra -Werror
    -Wno-unknown-pragmas)
# gcc says it of each run; the fibers are announced to the sanitizer.
quiet='ASan doesn.t fully support makecontext'

run() {
    local test=$1 layout=$2 program=$work/$1-$2
    "$compiler" "${flags[@]}" -DMATRIX_LAYOUT="$layout" "$test.cc" -o "$program" || return 1
    "$program" >"$program.out" 2>"$program.err" || {
        grep -v "$quiet" "$program.err" >&2
        return 1
    }
    echo "== $test, matrix layout $layout"
    cat "$program.out"
}
# Layouts 1 and 3 have 32 and 64 lanes in a wave. Two programs at a time.
{ run attention_test 1 && run attention_test 2 && run rows_test 3 && run dense_test 1 && run dense_test 2; } &
run attention_test 3
run attention_test 4
run dense_test 3
run dense_test 4
run rows_test 1
run convolution_test 1
wait $!
echo "all kernels agree with plain C++ on the host"
