#!/usr/bin/env bash
# The protocols between threads, under model checkers: the node protocol, parking and the batch queue in all orders
# of a few steps (loom), and whole searches on random schedules (shuttle). On request the searches of the integration
# tests under ThreadSanitizer.
#
# usage: scripts/checks/concurrency.sh [step ...]      models and schedules without arguments; sanitizer on request
#   RUKH_SCHEDULES=10000      schedules of whole searches a test (200): for longer runs
#   LOOM_MAX_PREEMPTIONS=4    interruptions of threads in a model (each has its own number, for which it takes seconds)
#   RUSTUP_NIGHTLY=nightly    for the sanitizer: a nightly toolchain with the component rust-src
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/checks/steps.sh

step_models() { cargo test --quiet --lib --features loom -- loom_tests::; }

step_schedules() { cargo test --quiet --lib --features shuttle -- shuttle_tests::; }

# The standard library must be instrumented too: without, its locks look like races. Tests that a slow search fails are
# left out.
step_sanitizer() {
    local toolchain=${RUSTUP_NIGHTLY:-nightly} target
    target=$(rustc -vV | sed -n 's/^host: //p')
    if ! [ -d "$(rustc "+$toolchain" --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library" ]; then
        echo "skipped: rustup toolchain install nightly --component rust-src"
        return 0
    fi
    # Compilers newer than the project's have newer warnings.
    RUSTFLAGS="-Zsanitizer=thread --cap-lints allow" TSAN_OPTIONS="halt_on_error=1" \
        cargo "+$toolchain" test --quiet -Zbuild-std --target "$target" --target-dir target/sanitizer \
        --test integration -- --test-threads=1 search_stress::any graph:: in_flight::
}

STEPS_ON_REQUEST=sanitizer
run_steps "models schedules" "$@"
