#!/usr/bin/env bash
# Runs the checks that a change must pass before it is merged, and stops at the first failure. Continuous integration
# runs them, too. A step whose tools are not installed is skipped and says so; with CI set it fails instead. Tests that
# need PyTorch are skipped in either case: CI runs them in a job of their own. A long check is left out if what it mainly
# checks has not changed since it passed (`scripts/checks/passed.txt`).
#
# usage: scripts/check.sh [STEP ...]
#   without arguments    all steps but those on request; each prints its time
#   quick                format, lint, unit tests and signature: under a minute after an edit
#   nightly              every check, whatever has changed, and those that take long; CI runs it every night
#   long                 tests that take minutes each
# environment:
#   PYTHON               the Python of the steps `python`, `training`, `onnx`, `second_emulator` and `ptx_emulator` (default:
#                        target/python/bin/python, else python3)
#   RUKH_CHECK_ALL=1     leaves out no check
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

# The Python of the steps that need packages: the user's, or that of .ci/run, or else the system's.
python_of_checks() {
    local python=${PYTHON:-target/python/bin/python}
    if [ -x "$python" ]; then echo "$python"; else echo "${PYTHON:-python3}"; fi
}

step_format() { cargo fmt --all --check; }

step_lint() { cargo clippy --workspace --all-targets -- -D warnings; }

step_docs() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet; }

# Every step that runs tests selects the whole workspace, because Cargo would build the engine again for fewer packages.
tests() { cargo test --workspace --quiet "$@"; }

# The unit tests of three packages, which take minutes to compile, and what they depend on. They are left out where
# nothing of that has changed since they passed.
BELOW=(src/base src/options src/chess src/net src/backend/{*.rs,multi,options_dict,queue,synthetic,wrap} weights/{rukh-128x6.*,*.rs,Cargo.toml} Cargo.lock)
declare -A SLOW_UNITS=(
    [rukh-cpu]="${BELOW[*]} src/backend/cpu"
    [rukh-gpu]="${BELOW[*]} src/backend/cpu src/backend/gpu hip"
    [rocm-emulator]="hip Cargo.lock"
)

# unit_tests ARGUMENT ...: runs the unit tests with these arguments of Cargo's.
unit_tests() {
    local package compiler left_out=() inputs
    local -A keys=()
    compiler=$(rustc --version)
    for package in "${!SLOW_UNITS[@]}"; do
        read -ra inputs <<<"${SLOW_UNITS[$package]}"
        keys[$package]=$(hash_of "${inputs[@]}" "$compiler")
        if has_passed "$package" "${keys[$package]}"; then
            left_out+=(--exclude "$package")
            unset "keys[$package]"
            echo "the unit tests of $package are not run: nothing that they check has changed since they passed"
        fi
    done
    tests --lib "$@" "${left_out[@]}"
    for package in "${!keys[@]}"; do
        # What changed meanwhile has not been checked.
        read -ra inputs <<<"${SLOW_UNITS[$package]}"
        [ "$(hash_of "${inputs[@]}" "$compiler")" != "${keys[$package]}" ] || note_passed "$package" "${keys[$package]}"
    done
}

# The tests that no other step runs.
step_test() {
    local others=() name
    unit_tests --bins --test signature
    # Many of these wait for a server or for a worker.
    tests --test fleet -- --test-threads=6
    for name in "${GPU_TESTS[@]}"; do others+=(--skip "$name"); done
    tests --test integration -- "${others[@]}"
}

# The library with each of its features alone, its public names, and the examples of its pages.
step_library() {
    local features
    for features in '' embedded engine gpu; do
        cargo clippy --quiet --package librukh --features "$features" -- -D warnings
    done
    features=librukh/embedded,librukh/engine,librukh/gpu
    tests --test public_api --features $features -- --nocapture
    tests --doc --features $features
}

# Packs each package that is to be published, and builds it from what was packed alone.
step_package() {
    cargo package --quiet --workspace --exclude labeler --exclude librukh-python --exclude nvidia-stand-in \
        --exclude rocm-emulator --exclude rukh-fleet
}

# The Python package: makes the wheel, installs it in an environment of its own, and runs its tests and examples.
step_python() {
    local python environment=target/wheel target=${CARGO_TARGET_DIR:-target}
    python=$(python_of_checks)
    if ! "$python" -c 'import chess, maturin, numpy' 2>/dev/null; then
        skip "the wheel is made by Python with maturin, numpy and python-chess (pip install maturin numpy chess)"
        return
    fi
    rm -rf "$environment"
    "$python" -m venv --system-site-packages "$environment"
    # Also the packages of this Python: if it is in an environment itself, `--system-site-packages` leaves them out.
    "$python" -c 'import site; print(*site.getsitepackages(), sep="\n")' \
        >"$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/packages.pth"
    "$python" -m maturin build --quiet --locked --manifest-path src/python/Cargo.toml --profile dev \
        --interpreter "$python" --target-dir "$target" --out "$environment/wheels"
    "$environment/bin/python" -m pip install --quiet --no-deps --no-index "$environment"/wheels/*.whl
    PATH=$PWD/$environment/bin:$PATH python_tests
}

python_tests() {
    local folder examples=src/python/examples
    folder=$(mktemp -d)
    python -m unittest discover --quiet --start-directory src/python/tests
    python $examples/puzzles.py src/python/tests/puzzles.csv --backend cpu
    rukh selfplay --backend=cpu --games=2 --visits=2 --training --training-input-format=2 \
        --training-dir="$folder/data" --pgn="$folder/games.pgn" >/dev/null
    python $examples/game_loss.py "$folder/games.pgn" --backend cpu
    python $examples/training_batch.py "$folder/data" --backend cpu --batch 64 | tee "$folder/batch"
    grep -q 'legal moves as the chunks say: 100.0%' "$folder/batch"
    rm -r "$folder"
}

# The integration tests of GPU backends: they need the emulator, and most of the time.
GPU_TESTS=(rocm:: rocm_ the_steps_of_a_pass_on_a_card of_8_bits_are_rated_by_a_ceiling batches_are_filled_as_far_as_the_card)

# The GPU backend on emulated cards. A few tests run in any case: networks of three kinds on gfx1100 in fp16, a fault of
# the card, and the check of its figures at the first start.
step_gpu() {
    tests --test integration -- rocm::smoke \
        rocm_startup::figures_are_checked_once rocm_faults::the_search_in_which_the_card_fails
    unless_unchanged gpu src/backend src/net hip weights/rukh-128x6.* tests/data/trained-network-goldens.json \
        tests/integration/{rocm*,profile.rs,full_batches.rs} Cargo.lock \
        "$(rustc --version)" -- all_gpu_tests
}

all_gpu_tests() {
    tests --test emulator
    tests --test integration -- "${GPU_TESTS[@]}"
}

# The signature is the same on every machine. A test computes it.
step_signature() { tests --test signature -- --nocapture | grep '^signature '; }

step_quick() {
    step_format
    step_lint
    unit_tests
    step_signature
}

# Checks that GEMMs on the processor reach a good part of its peak rate.
step_cpu_speed() {
    cargo build --quiet --profile quick --bin rukh
    python3 scripts/checks/cpu_speed.py target/quick/rukh
}

# Checks the protocols between threads: all interleavings of a few steps, and random schedules of a few whole searches.
step_models() {
    unless_unchanged models src/base src/backend/lib.rs src/backend/queue src/backend/wrap src/backend/multi src/tree \
        src/search scripts/checks/concurrency.sh "$(rustc --version)" -- model_checks
}

model_checks() { RUKH_SCHEDULES=${RUKH_SCHEDULES:-20} scripts/checks/concurrency.sh; }

# Tests the scripts of matches and of training. Where PyTorch is missing, only the tests of records and chunks run among
# those of training.
step_training() {
    local python
    python=$(python_of_checks)
    if ! "$python" -c 'import chess, numpy' 2>/dev/null; then
        skip "the tests of scripts/matches and scripts/training need Python with numpy and python-chess (pip install numpy chess)"
        return
    fi
    "$python" -m unittest discover --quiet --start-directory scripts/matches
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
    local python
    python=$(python_of_checks)
    if "$python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
        "$python" scripts/checks/onnx_models.py
    else
        skip "ONNX models are evaluated by Python with numpy, onnx and onnxruntime (pip install numpy onnx onnxruntime)"
    fi
}

# Checks for every architecture that the stored code objects match the kernels' source and that no kernel spills.
step_kernels() {
    if [ -x /usr/lib/llvm-19/bin/clang ] || [ -n "${LLVM_BIN:-}" ]; then
        unless_unchanged kernels hip/kernels scripts/kernels/*.{sh,py} "$("${LLVM_BIN:-/usr/lib/llvm-19/bin}/clang" --version)" -- \
            kernels_check
    else
        skip "the kernels need clang 19: apt-get install --no-install-recommends clang-19 lld-19 llvm-19"
    fi
}

kernels_check() {
    scripts/kernels/compile.sh --check
    python3 scripts/kernels/fragments.py
    scripts/kernels/ptx.sh --check
}

# The sources of the table of cases.
CASES=(src/backend/gpu/cases
    src/backend/gpu/{gemm/{chain,own},network/preshuffle,runtime/{activations,fp8,kernels,numbers,ffi/arguments}}.rs)

# Runs the kernels of every stored code object on the second emulator, which shares no code with the tests' emulator.
# The launches, and what they must compute, are those of the table in Rust. Cases that take long are left out.
step_second_emulator() {
    local python
    python=$(python_of_checks)
    if [ ! -x "${LLVM_BIN:-/usr/lib/llvm-19/bin}/llvm-objdump" ] || ! "$python" -c 'import numpy' 2>/dev/null; then
        skip "the second emulator needs LLVM 19 (apt-get install --no-install-recommends llvm-19) and numpy (pip)"
        return
    fi
    unless_unchanged second_emulator hip/kernels/objects scripts/kernels/second_emulator "${CASES[@]}" \
        "$("$python" --version)" -- run_second_emulator "$python"
}

run_second_emulator() {
    write_cases
    "$1" -m unittest discover --quiet --start-directory scripts/kernels/second_emulator
    "$1" scripts/kernels/second_emulator --processes 2 "$KERNEL_CASES"
}

# Writes the table of cases up to the largest cost that mutations and the emulator of PTX run. The second emulator runs
# cheaper ones.
write_cases() {
    export KERNEL_CASES=target/kernel_cases
    cargo build --quiet --workspace --example kernel_cases
    "${CARGO_TARGET_DIR:-target}/debug/examples/kernel_cases" "$KERNEL_CASES" 3000000
}

# Runs the kernels of the stored PTX, for NVIDIA's cards, on an emulator of PTX, with the same table.
step_ptx_emulator() {
    local python
    python=$(python_of_checks)
    if ! "$python" -c 'import numpy' 2>/dev/null; then
        skip "the emulator of PTX needs Python with numpy (pip install numpy)"
        return
    fi
    # Of the second emulator it imports these files (cases.py), of which results.py needs elements.py.
    unless_unchanged ptx_emulator hip/kernels/objects/sm_*.ptx.gz scripts/kernels/ptx_emulator \
        scripts/kernels/second_emulator/{elements,fault,results,table}.py "${CASES[@]}" \
        "$("$python" --version)" -- run_ptx_emulator "$python"
}

run_ptx_emulator() {
    write_cases
    "$1" -m unittest discover --quiet --start-directory scripts/kernels/ptx_emulator
    "$1" scripts/kernels/ptx_emulator --processes 2 "$KERNEL_CASES"
}

# Runs the kernels' source on the host under sanitizers, and compares the results with those of the table of cases.
step_kernels_host() {
    if command -v "${CXX:-g++}" >/dev/null; then
        unless_unchanged kernels_host hip/kernels "${CASES[@]}" scripts/kernels/host.sh "$("${CXX:-g++}" --version)" -- \
            scripts/kernels/host.sh
    else
        skip "there is no C++ compiler: install g++ 12 or newer, or name one in CXX"
    fi
}

# Runs a thousand sequences of commands, graph searches of 100,000 nodes (if ../shared/nets has maia-1900), the networks
# that the step `gpu` leaves out on emulated cards, and those of RUKH_TEST_NETS.
step_long() {
    local tests=(thousand_sequences graph:: rocm::every_network rocm::own::every_network
        rocm::byte_weights::every_network rocm_errors::later_failing_calls)
    if [ -n "${RUKH_TEST_NETS:-}" ]; then
        tests+=(networks_of_a_folder)
    else
        echo "skipped: networks_of_a_folder needs a folder of networks in RUKH_TEST_NETS"
    fi
    cargo test --profile quick --test integration -- --ignored --nocapture "${tests[@]}"
}

# Every check, and those that say more the longer they run.
step_nightly() {
    RUKH_CHECK_ALL=1 RUKH_SCHEDULES=${RUKH_SCHEDULES:-200} scripts/check.sh
    # The processor's arithmetic and the emulator, with checks of overflows and of pointers.
    cargo test --workspace --quiet --lib --test emulator \
        --config profile.dev.package.rukh-cpu.overflow-checks=true \
        --config profile.dev.package.rukh-cpu.debug-assertions=true \
        --config profile.dev.package.rocm-emulator.overflow-checks=true \
        --config profile.dev.package.rocm-emulator.debug-assertions=true
    scripts/check.sh cpu_speed long package
}

STEPS_BESIDE="kernels second_emulator ptx_emulator kernels_host"
STEPS_ON_REQUEST="quick nightly long signature cpu_speed package"
run_steps "format lint docs test library python gpu onnx models training" "$@"
