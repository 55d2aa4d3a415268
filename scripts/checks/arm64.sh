#!/usr/bin/env bash
# Builds Rukh and its tests for 64-bit ARM (aarch64-unknown-linux-gnu) and runs those of the processor's backend under
# qemu, on Debian or Ubuntu. What is missing (a linker, qemu, and a compiler where the installed one has no library for
# ARM) is fetched from Debian. A search under qemu has some 5 nodes/s, so that the tests that search with a network for
# long are left out. The workflow runs all of them on ARM itself.
#
# usage: scripts/checks/arm64.sh [STEP ...]      without arguments, all steps run
#   build         the engine and its tests
#   unit          the unit tests and the signature
#   integration   the tests of the whole engine on the processor
#   loops         on request: counts the instructions of the matrix products' innermost loops
# scripts/checks/arm64.txt names the tests that are left out, with the reasons.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/checks/steps.sh
. scripts/checks/cross.sh

target=aarch64-unknown-linux-gnu
left_out=scripts/checks/arm64.txt
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$cross/qemu-aarch64"

step_build() {
    need aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu qemu-aarch64-static=qemu-user-static \
        /usr/aarch64-linux-gnu/lib/crti.o=libc6-dev-arm64-cross
    mkdir -p "$cross"
    printf '#!/bin/sh\nexec qemu-aarch64-static -L /usr/aarch64-linux-gnu "$@"\n' >"$cross/qemu-aarch64"
    chmod +x "$cross/qemu-aarch64"
    use_compiler_for $target
    cargo test "${cargo_for_target[@]}" "${engine[@]}" --lib --test integration --test signature --no-run
}

step_unit() {
    tests --lib
    tests_of_engine signature
}

# shellcheck disable=SC2046  # the names of tests have no spaces
step_integration() { tests_of_engine integration $(all_but_left_out); }

# tests_of_engine BINARY [ARGUMENT ...]: runs a test binary that starts the engine by its path. This system cannot start a
# program for ARM, so a script that starts it with qemu takes its place. Cargo would put the engine back before it runs the
# tests, so they run without Cargo.
tests_of_engine() {
    use_compiler_for $target
    local binary=$1 program engine=$cross/$target/debug/rukh
    program=$(cargo test "${cargo_for_target[@]}" --package rukh --test "$binary" --no-run --message-format=json |
        sed -n 's/.*"executable":"\([^"]*'"$binary"'-[^"]*\)".*/\1/p')
    mv "$engine" "$engine-arm64"
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$cross/qemu-aarch64" "$engine-arm64" >"$engine"
    chmod +x "$engine"
    "$cross/qemu-aarch64" "$program" "${@:2}"
}

step_loops() {
    use_compiler_for $target
    cargo build "${cargo_for_target[@]}" --package rukh --profile quick
    scripts/checks/arm64_loops.py "$cross/$target/quick/rukh"
}

STEPS_ON_REQUEST=loops
run_steps "build unit integration" "$@"
