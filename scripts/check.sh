#!/usr/bin/env bash
# Runs the checks that a change must pass before it is merged, and stops at the first failure. Continuous integration
# runs all of them. A step whose tools are not installed is skipped and says so; with CI set it fails instead. Tests
# that need PyTorch are skipped in either case: CI runs them in a job of their own.
#
# usage: scripts/check.sh [STEP ...]
#   without arguments    all steps but `quick` and `long`: about 30 minutes on two cores from a fresh clone
#   quick                format, lint, unit tests and signature: under a minute after an edit
#   long                 tests that take minutes each
# environment:
#   PYTHON               the Python of the steps `training`, `onnx` and `second_emulator` (default:
#                        target/python/bin/python, else python3)
#   RUKH_SCHEDULES=20    random schedules of each search in the step `models`
#   RUKH_TEST_NETS       a folder of lc0's networks for the step `long`
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/checks/steps.sh

# Skips the current step. In continuous integration, where nobody would notice that, it fails instead.
skip() {
    if [ -n "${CI:-}" ]; then
        echo "cannot be skipped in CI: $1" >&2
        return 1
    fi
    echo "skipped: $1"
}

step_format() { cargo fmt --all --check; }

step_lint() { cargo clippy --workspace --all-targets -- -D warnings; }

step_docs() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet; }

step_test() { cargo test --workspace --quiet; }

# The signature is the same on every machine. A test computes it. All targets are named, as in the step `test`, because
# for fewer targets Cargo would build the engine again.
step_signature() {
    local said
    said=$(cargo test --workspace --quiet -- --exact --nocapture the_search_has_the_signature_in_the_repository 2>&1) || {
        echo "$said"
        return 1
    }
    grep '^signature ' <<<"$said"
}

step_quick() {
    step_format
    step_lint
    cargo test --quiet --workspace --lib
    cargo test --quiet --workspace --test signature -- --nocapture
}

# Checks that the processor's products reach a good part of what its arithmetic can do.
step_cpu_speed() {
    cargo build --quiet --profile quick --bin rukh
    python3 scripts/checks/cpu_speed.py target/quick/rukh
}

# Checks the protocols between threads: all interleavings of a few steps, and random schedules of a few whole searches.
step_models() { RUKH_SCHEDULES=${RUKH_SCHEDULES:-20} scripts/checks/concurrency.sh; }

# Tests the training scripts. Where PyTorch is missing, only the tests of the records run.
step_training() {
    local python=${PYTHON:-target/python/bin/python}
    [ -x "$python" ] || python=${PYTHON:-python3}
    if ! "$python" -c 'import chess, numpy' 2>/dev/null; then
        skip "the tests of scripts/training need Python with numpy and python-chess (pip install numpy chess)"
        return
    fi
    if "$python" -c 'import torch' 2>/dev/null; then
        unless_unchanged training scripts/training "$("$python" --version)" -- \
            "$python" -m unittest discover --quiet --start-directory scripts/training
    else
        "$python" -m unittest discover --quiet --start-directory scripts/training --pattern 'test_[rc]*.py'
        echo "skipped: test_train.py and test_int8.py need PyTorch"
    fi
}

# Evaluates the ONNX models of `rukh leela2onnx` with onnxruntime.
step_onnx() {
    local python=${PYTHON:-target/python/bin/python}
    [ -x "$python" ] || python=${PYTHON:-python3}
    if "$python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
        "$python" scripts/checks/onnx_models.py
    else
        skip "ONNX models are evaluated by Python with numpy, onnx and onnxruntime (pip install numpy onnx onnxruntime)"
    fi
}

# Checks for every architecture that the stored code objects match the kernels' source and that no kernel spills.
step_kernels() {
    if [ -x /usr/lib/llvm-19/bin/clang ] || [ -n "${LLVM_BIN:-}" ]; then
        unless_unchanged kernels hip/kernels scripts/kernels "${LLVM_BIN:-/usr/lib/llvm-19/bin}" -- \
            scripts/kernels/compile.sh --check
    else
        skip "the kernels need clang 19: apt-get install --no-install-recommends clang-19 lld-19 llvm-19"
    fi
}

# Runs the kernels of every stored code object on the second emulator, which shares no code with the tests' emulator.
step_second_emulator() {
    local python=${PYTHON:-target/python/bin/python}
    [ -x "$python" ] || python=${PYTHON:-python3}
    if [ ! -x "${LLVM_BIN:-/usr/lib/llvm-19/bin}/llvm-objdump" ] || ! "$python" -c 'import numpy' 2>/dev/null; then
        skip "the second emulator needs LLVM 19 (apt-get install --no-install-recommends llvm-19) and numpy (pip)"
        return
    fi
    unless_unchanged second_emulator hip/kernels/objects scripts/kernels/second_emulator "$("$python" --version)" -- \
        run_second_emulator "$python"
}

run_second_emulator() {
    "$1" -m unittest discover --quiet --start-directory scripts/kernels/second_emulator
    "$1" scripts/kernels/second_emulator --processes 2
}

# Runs the kernels' source on the host under sanitizers, and compares the results with those of the table of cases.
step_kernels_host() {
    if command -v "${CXX:-g++}" >/dev/null; then
        unless_unchanged kernels_host hip/kernels src/backend/gpu scripts/kernels/host.sh "$("${CXX:-g++}" --version)" -- \
            scripts/kernels/host.sh
    else
        skip "there is no C++ compiler: install g++ 12 or newer, or name one in CXX"
    fi
}

# Runs a thousand sequences of commands, graph searches of 100,000 nodes (if ../shared/nets has maia-1900), every network
# of the repository on the emulated cards for which the step `test` has only some, and those of RUKH_TEST_NETS.
step_long() {
    local tests=(thousand_sequences graph:: rocm::every_network rocm::own::every_network
        rocm::byte_weights::every_network)
    if [ -n "${RUKH_TEST_NETS:-}" ]; then
        tests+=(networks_of_a_folder)
    else
        echo "skipped: networks_of_a_folder needs a folder of networks in RUKH_TEST_NETS"
    fi
    cargo test --profile quick --test integration -- --ignored --nocapture "${tests[@]}"
}

STEPS_BESIDE="kernels second_emulator kernels_host"
STEPS_ON_REQUEST="quick long"
run_steps "format lint docs test signature cpu_speed onnx models training" "$@"
