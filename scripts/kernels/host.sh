#!/usr/bin/env bash
# Runs the GPU kernels' own source on the host, thread by thread, under AddressSanitizer and UndefinedBehaviorSanitizer,
# and compares the results with plain C++: once for each layout that a matrix instruction has on some GPU
# (hip/kernels/matrix.h).
#
# usage: scripts/kernels/host.sh [COMPILER]      default: $CXX, else g++; g++ 12 or newer, or clang with its sanitizers
set -euo pipefail
cd "$(dirname "$0")/../../hip/kernels/host"

compiler=${1:-${CXX:-g++}}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

run() {
    local compiler=$1 work=$2 test=$3 layout=$4
    local program=$work/$test-$layout
    "$compiler" -x c++ -std=c++20 -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -Wall -Wextra -Werror \
        -Wno-unknown-pragmas -DMATRIX_LAYOUT="$layout" "$test.cc" -o "$program"
    "$program" >"$program.out" 2>"$program.err" || {
        # GCC's runtime prints this warning in every run. It does not apply here, because the host's fibers tell the
        # sanitizer about their stacks.
        grep -v 'ASan doesn.t fully support makecontext' "$program.err" >&2
        return 1
    }
    { echo "== $test, matrix layout $layout" && cat "$program.out"; } >"$program.text"
    cat "$program.text"
}
export -f run

# Test and matrix layout, the longest first. Layouts 1 and 3 have 32 and 64 lanes in a wave.
xargs -P "$(nproc)" -L 1 bash -c 'set -euo pipefail; run "$@"' run "$compiler" "$work" <<END
attention_test 3
attention_test 4
attention_test 1
attention_test 2
rows_test 3
rows_test 1
gemm_test 3
gemm_test 4
gemm_test 1
gemm_test 2
byte_weights_test 3
byte_weights_test 4
byte_weights_test 1
byte_weights_test 2
bytes_test 3
bytes_test 4
bytes_test 1
bytes_test 2
dense_test 3
dense_test 4
dense_test 1
dense_test 2
convolution_test 1
END
echo "all kernels agree with plain C++ on the host"
