#!/usr/bin/env bash
# Compares Rukh's reading and writing of ONNX models with lc0's. lc0 converts all golden networks, in several types and
# opsets, and a test reads the results back and compares the weights. lc0 also describes the files that Rukh makes.
#
# usage: LC0=PATH scripts/checks/onnx_lc0_weights.sh [STEP ...]
# environment:
#   LC0=PATH          the binary of lc0 (any backend)
#   ONNX_FOLDER=PATH  where the files are put (default target/onnx-lc0)
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/checks/steps.sh

lc0=${LC0:-}
folder=$(realpath -m "${ONNX_FOLDER:-target/onnx-lc0}")
[[ " ${*:-} " =~ " -h " || " ${*:-} " =~ " --help " || -x $lc0 ]] || { echo "LC0 must name lc0's binary" >&2; exit 2; }

# The network files, each once.
networks() {
    find tests/data weights ../shared/nets -name '*.pb.gz' 2>/dev/null |
        awk -F/ '!seen[$NF]++' | sort
}

# by_lc0 FILE OPTIONS FLAG ...: converts with lc0's leela2onnx, and makes a network file of the result with its
# onnx2leela, which refuses bf16.
by_lc0() {
    local name flags=(--onnx-input=/input/planes --onnx-output-policy=/output/policy)
    name=$folder/$(basename "$1" .pb.gz)$2
    "$lc0" leela2onnx --input="$1" --output="$name.onnx" "${@:3}" >"$name.txt" 2>&1
    field() { sed -n "s/^ *$1: //p" "$name.txt" | head -1; }
    flags+=("--input-format=$(field Input)")
    case $(field Value) in
        VALUE_WDL) flags+=(--value-format=VALUE_WDL --onnx-output-wdl=/output/wdl) ;;
        *) flags+=(--value-format=VALUE_CLASSICAL --onnx-output-value=/output/value) ;;
    esac
    [[ -z $(field "Output MLH") ]] || flags+=(--onnx-output-mlh=/output/mlh)
    [[ $2 == *.bf16* ]] || "$lc0" onnx2leela --input="$name.onnx" --output="$name.pb.gz" "${flags[@]}" >/dev/null 2>&1
}

step_convert() {
    local network
    mkdir -p "$folder"
    for network in $(networks); do
        by_lc0 "$network" ""
        by_lc0 "$network" .f16 --onnx-data-type=f16
        by_lc0 "$network" .bf16 --onnx-data-type=bf16
    done
    for network in tests/data/micro-{attn,multihead,se-attnpol,classical-wdl,se-old}.pb.gz; do
        for opset in 7 12 18; do by_lc0 "$network" ".opset$opset" --onnx-opset=$opset; done
        by_lc0 "$network" .batch --onnx-batch-size=4
        by_lc0 "$network" .elementary --onnx2pytorch
        by_lc0 "$network" .elementary.f16 --onnx2pytorch --onnx-data-type=f16
    done
    for head in optimistic soft opponent; do
        by_lc0 tests/data/micro-multihead.pb.gz ".policy-$head" --policy-head=$head
    done
    for head in q st; do by_lc0 tests/data/micro-multihead.pb.gz ".value-$head" --value-head=$head; done
}

step_weights() {
    RUKH_TEST_ONNX=$folder cargo test --test integration files_of_lc0 -- --nocapture | grep -v '^running'
}

# described FILE: what lc0 says about a file, apart from the program that made it.
described() {
    "$lc0" describenet --weights="$1" 2>/dev/null | sed 's/\x1b\[[0-9;]*m//g' |
        grep -v 'Producer\|built\|^[_| ]*$\|Minimal Lc0\|Weights encoding'
}

step_describe() {
    local network name rukh ours native
    cargo build --quiet
    rukh=${CARGO_TARGET_DIR:-target}/debug/rukh
    ours=$folder/ours && mkdir -p "$ours"
    for network in $(networks); do
        name=$(basename "$network" .pb.gz)
        native=$ours/$name.native.pb.gz
        "$rukh" leela2onnx --input="$network" --output="$ours/$name.onnx" >/dev/null
        "$rukh" onnx2leela --input="$ours/$name.onnx" --output="$ours/$name.pb.gz" >/dev/null
        "$rukh" onnx2leela --input="$ours/$name.onnx" --output="$native" --weights-format=native >/dev/null
        diff <(described "$folder/$name.pb.gz") <(described "$ours/$name.pb.gz") >"$ours/$name.diff" ||
            { echo "$name: lc0 describes Rukh's file otherwise than its own:"; cat "$ours/$name.diff"; exit 1; }
        described "$native" >/dev/null
        printf '%-24s ok\n' "$name"
    done
}

run_steps "convert weights describe" "$@"
