#!/usr/bin/env bash
# Checks the protocols between threads. loom runs the protocols of the tree, of parked minibatches and of the batch
# queue in all interleavings of a few steps; shuttle runs whole searches on random schedules. On request the script runs
# the searches of the integration tests under ThreadSanitizer.
#
# usage: scripts/checks/concurrency.sh [STEP ...]      loom and shuttle without arguments; sanitizer on request
# environment:
#   RUKH_SCHEDULES=10000      schedules of each search under shuttle (default 200); more for longer runs
#   LOOM_MAX_PREEMPTIONS=4    preemptions in every loom model (default: each model's own number, with which it takes
#                             seconds)
#   RUSTUP_NIGHTLY=nightly    the toolchain of the step `sanitizer`, which needs the component rust-src
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/checks/steps.sh

# test_with FEATURE PACKAGE ...: runs the tests of each package in modules with the name FEATURE_tests, built with the
# feature. Fails if a package has no such tests.
test_with() {
    # Most of the time is spent in the model checkers, so that dependencies are optimized. Our own packages are not: their
    # optimized functions overflow loom's small stacks.
    local output arguments=(--config 'profile.dev.package."*".opt-level=3')
    for package in base options chess net backend tree search; do
        arguments+=(--config "profile.dev.package.rukh-$package.opt-level=0")
    done
    for package in "${@:2}"; do
        arguments+=(--package "$package" --features "$package/$1")
    done
    output=$(cargo test --quiet --lib "${arguments[@]}" -- "$1_tests::" | tee -a /dev/stderr)
    if grep -q '^running 0 tests' <<<"$output"; then
        echo "a package has no tests in modules with the name $1_tests" >&2
        return 1
    fi
} 2>&1

step_loom() { test_with loom rukh-backend rukh-tree rukh-search; }

step_shuttle() { test_with shuttle rukh-search; }

# The standard library must be instrumented too, because the sanitizer would report its locks as races. Tests that fail
# if the search is slow are left out.
step_sanitizer() {
    local toolchain=${RUSTUP_NIGHTLY:-nightly} target
    target=$(rustc -vV | sed -n 's/^host: //p')
    if ! [ -d "$(rustc "+$toolchain" --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library" ]; then
        echo "skipped: the sanitizer needs a nightly Rust (rustup toolchain install nightly --component rust-src)"
        return 0
    fi
    # Newer compilers have newer warnings.
    RUSTFLAGS="-Zsanitizer=thread --cap-lints allow" TSAN_OPTIONS="halt_on_error=1" \
        cargo "+$toolchain" test --quiet -Zbuild-std --target "$target" --target-dir target/sanitizer \
        --test integration -- --test-threads=1 search_stress::any graph:: in_flight::
}

STEPS_ON_REQUEST=sanitizer
run_steps "loom shuttle" "$@"
