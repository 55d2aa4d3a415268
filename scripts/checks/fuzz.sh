#!/usr/bin/env bash
# Runs fuzz targets for a time each, with address sanitizer, and ends at the first input that a target does not survive.
# Needs cargo-fuzz (`cargo install cargo-fuzz --locked`), g++, and a nightly toolchain or the usual one.
#
# usage: scripts/checks/fuzz.sh [TARGET ...]
#   TARGET          a file of tests/fuzz/fuzz_targets, without `.rs`; all of them without arguments
# environment:
#   FUZZ_SECONDS    how long each target runs (default 60)
#   FUZZ_FOLDER     where seeds, corpora and such inputs are kept (default target/fuzz)
set -euo pipefail
cd "$(dirname "$0")/../.."

case ${1:-} in
    -h | --help)
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
        exit
        ;;
esac
seconds=${FUZZ_SECONDS:-60}
folder=$(realpath -m "${FUZZ_FOLDER:-target/fuzz}")
toolchain=()
if rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    toolchain=(+nightly)
else
    # Lets the usual compiler take the flags of a nightly one.
    export RUSTC_BOOTSTRAP=1
fi

# The smallest test networks: one without attention, one with it, and one with smolgen.
networks=(tests/data/micro-{relu-nogate,attn,smolgen}.pb.gz)

# seed TARGET: writes inputs that the target takes into $seeds.
seed() {
    local file model number=0
    case $1 in
        weights_file)
            for file in "${networks[@]}"; do gzip -dc "$file" >"$seeds/$(basename "$file" .pb.gz)"; done
            ;;
        onnx_model)
            for file in "${networks[@]}"; do
                model=$seeds/$(basename "$file" .pb.gz)
                [ -s "$model" ] || cargo run --quiet -- leela2onnx --input="$file" --output="$model" >/dev/null
            done
            ;;
        syzygy_file)
            # The first byte is the number of the table's name in src/fuzzing.rs.
            for file in tests/data/syzygy/K{P,Q,R}vK.rtb{w,z}; do
                { printf '%b' "\\x0$number" && cat "$file"; } >"$seeds/$(basename "$file")"
                number=$((number + 1))
            done
            ;;
        *) cp -r "tests/fuzz/seeds/$1/." "$seeds/" ;;
    esac
}

# Inputs are no longer than these, because longer ones take longer and find little more. A seed that is longer is cut.
longest() {
    case $1 in
        weights_file) echo 800000 ;;
        onnx_model) echo 1600000 ;;
        training_chunk) echo 200000 ;;
        syzygy_file) echo 10000 ;;
        *) echo 4096 ;;
    esac
}

targets=("$@")
if [ $# = 0 ]; then
    for file in tests/fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi
for target in "${targets[@]}"; do
    corpus=$folder/corpus/$target seeds=$folder/seeds/$target
    mkdir -p "$corpus" "$seeds" "$folder/crashes"
    seed "$target"
    echo "== $target"
    cargo "${toolchain[@]}" fuzz run --fuzz-dir tests/fuzz "$target" "$corpus" "$seeds" -- \
        -max_total_time="$seconds" -max_len="$(longest "$target")" -timeout=20 -rss_limit_mb=2048 \
        -artifact_prefix="$folder/crashes/$target-" -print_final_stats=1
done
