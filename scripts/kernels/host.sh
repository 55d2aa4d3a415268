#!/usr/bin/env bash
# Runs the GPU kernels' own source on the host, thread by thread, under AddressSanitizer and UndefinedBehaviorSanitizer,
# on the cases that the package rukh-gpu has for all kernels: once for each layout that a matrix instruction has on some
# GPU (hip/kernels/matrix.h).
#
# usage: scripts/kernels/host.sh [COMPILER]      default: $CXX, else g++; g++ 12 or newer, or clang with its sanitizers
# environment:
#   KERNEL_CASES    a folder that the example kernel_cases has written; without it, cargo builds the example and runs it
set -euo pipefail
cd "$(dirname "$0")/../.."

compiler=${1:-${CXX:-g++}}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# Up to here every tile is examined on both sides of its edges. Larger cases would take minutes.
largest_cost=3100000
if [ -z "${KERNEL_CASES:-}" ]; then
    KERNEL_CASES=$work/cases
    # For fewer packages, Cargo would build what the checks have built again.
    cargo build --quiet --workspace --example kernel_cases
    "${CARGO_TARGET_DIR:-target}/debug/examples/kernel_cases" "$KERNEL_CASES" "$largest_cost"
fi
export KERNEL_CASES

run() {
    local compiler=$1 work=$2 layout=$3
    local program=$work/cases_test-$layout
    "$compiler" -x c++ -std=c++20 -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -Wall -Wextra -Werror \
        -Wno-unknown-pragmas -DMATRIX_LAYOUT="$layout" hip/kernels/host/cases_test.cc -o "$program"
    "$program" "$KERNEL_CASES" >"$program.out" 2>"$program.err" || {
        # GCC's runtime prints this warning in every run. It does not apply here, because the host's fibers tell the
        # sanitizer about their stacks.
        grep -v 'ASan doesn.t fully support makecontext' "$program.err" >&2
        echo "matrix layout $layout: wrong" >&2
        return 1
    }
    { echo "== matrix layout $layout" && cat "$program.out"; } >"$program.text"
    cat "$program.text"
}
export -f run

# The matrix layouts, the longest first. Layout 3 has waves of 64 lanes, the others of 32.
xargs -P "$(nproc)" -L 1 bash -c 'set -euo pipefail; run "$@"' run "$compiler" "$work" <<END
3
4
1
2
END
echo "all kernels compute on the host what their cases say"
