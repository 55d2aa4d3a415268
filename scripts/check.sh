#!/usr/bin/env bash
# Everything that must hold before a change is merged: what CI runs. Stops at the first failure.
#
# usage: scripts/check.sh [step ...]      all steps without arguments, but for `long`: the tests that take minutes
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/checks/steps.sh

step_format() { cargo fmt --all --check; }
step_lint() { cargo clippy --workspace --all-targets -- -D warnings; }
step_docs() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet; }
step_test() { cargo test --workspace --quiet; }

# The search on the trivial backend is the same on every machine: its signature is under version control.
step_signature() {
    local expected found
    expected=$(cat scripts/signature.txt)
    found=$(cargo run --quiet -- bench --signature)
    if [ "$found" != "$expected" ]; then
        echo "the search has changed: its signature is $found, scripts/signature.txt has $expected" >&2
        echo "if that is what you want, write the new one there" >&2
        return 1
    fi
    echo "signature $found"
}

# The GPU kernels for every architecture: the code objects in the repository are those of the source, without spills.
step_kernels() {
    if [ ! -x /usr/lib/llvm-19/bin/clang ] && [ -z "${LLVM_BIN:-}" ]; then
        echo "skipped: clang 19 compiles the kernels; apt-get install --no-install-recommends clang-19 lld-19 llvm-19"
        return 0
    fi
    scripts/kernels/compile.sh --check
}

# The same source on the host, under sanitizers, beside plain C++.
step_kernels_host() {
    if ! command -v "${CXX:-g++}" >/dev/null; then
        echo "skipped: no C++ compiler (g++ 12 or newer, or CXX)"
        return 0
    fi
    scripts/kernels/host.sh
}

# The protocols between threads: in all orders of a few steps, and a few whole searches.
step_models() { RUKH_SCHEDULES=${RUKH_SCHEDULES:-20} scripts/checks/concurrency.sh; }

# A thousand sequences of commands, searches of 100,000 nodes as graphs, and every network of RUKH_TEST_NETS on the
# emulator.
step_long() {
    local tests=(thousand_sequences graph::)
    if [ -n "${RUKH_TEST_NETS:-}" ]; then
        tests+=(networks_of_a_folder)
    else
        echo "skipped: networks_of_a_folder wants a folder of networks in RUKH_TEST_NETS"
    fi
    cargo test --profile quick --test integration -- --ignored --nocapture "${tests[@]}"
}

STEPS_ON_REQUEST=long
run_steps "format lint docs test signature models kernels kernels_host" "$@"
