#!/usr/bin/env bash
# Compiles the GPU kernels to PTX, which NVIDIA's driver compiles for the card, and fails if ptxas does not accept it for
# the cards that it serves, or if a kernel spills registers or uses a stack.
#
# usage: scripts/kernels/ptx.sh [--check] [TARGET ...]
#        scripts/kernels/ptx.sh --chains FILE
#   without --check    writes hip/kernels/objects/TARGET.ptx.gz and, if no target is named and ptxas is found,
#                      hip/kernels/RESOURCES_NVIDIA.md
#   with --check       writes nothing, and fails if one of those files would change
#   --chains FILE      writes PTX for sm_80 with the kernels of chains, too, to FILE. It is not stored
# Without targets, the script compiles all that are stored.
#
# Needs clang 19.1.7 (apt-get install --no-install-recommends clang-19), for --chains also its llc (llvm-19), python3, and
# nothing of CUDA. LLVM_BIN names another folder. Only that version of clang makes the same bytes. With another version
# --check fails, unless RUKH_ANY_CLANG=1 is set: then it checks everything but the bytes, and says so.
#
# ptxas is only for the check. It is the program in PTXAS, or that of pip install nvidia-cuda-nvcc-cu12==12.9.86 in the
# Python in PYTHON, in target/python or in python3, or else that in PATH. Without it, nothing is checked by it.
set -euo pipefail
cd "$(dirname "$0")/../.."

objects_version=19.1.7
# For each target the version of PTX, the architectures of the cards for which ptxas compiles it here, the source, and the
# entry points that are kept. A new version of PTX needs a newer driver (hip/kernels/README.md), so that each is the oldest
# one with the target's instructions. For e4m3 there is a file of its own, which is used with that of sm_80: only the
# kernels for e4m3 need the newer PTX. Code for sm_90a runs only on cards of 9.0, and has only the GEMMs with its
# instructions.
stored=(sm_61 sm_75 sm_80 sm_89 sm_90a)
declare -A ptx=([sm_61]=60 [sm_75]=65 [sm_80]=70 [sm_89]=84 [sm_90a]=80)
declare -A cards=([sm_61]="61 70 75" [sm_75]="75" [sm_80]="80 86 89 90 100 103 120 121"
    [sm_89]="89 90 100 103 120 121" [sm_90a]="90a")
declare -A source=([sm_61]=all.hip [sm_75]=all.hip [sm_80]=all.hip [sm_89]=bytes.hip [sm_90a]=gemm_warpgroups.hip)
declare -A kept=([sm_61]=. [sm_75]=. [sm_80]=. [sm_89]=_fp8_ [sm_90a]=.)
# What makes a chain's arguments constants (ptx.py) needs PTX 7.7.
chains_ptx=77

check=false
chains=""
case ${1:-} in
    --check) check=true && shift ;;
    --chains)
        chains=${2:?"--chains needs the name of a file"}
        chains=$(realpath -m "$chains")
        shift 2
        ;;
esac
targets=("${stored[@]}")
if [ -n "$chains" ]; then
    targets=(sm_80)
    cards[sm_80]="80 90 120"
elif [ $# -gt 0 ]; then
    targets=("$@")
fi
for target in "${targets[@]}"; do
    if [ -z "${ptx[$target]:-}" ]; then
        echo "$target is not a target: they are ${stored[*]}" >&2
        exit 1
    fi
done

tools=""
for candidate in "${LLVM_BIN:-}" /usr/lib/llvm-19/bin "$(dirname "$(command -v clang-19 || echo /nowhere/x)")"; do
    if [ -x "$candidate/clang" ]; then
        tools=$candidate
        break
    fi
done
if [ -z "$tools" ]; then
    echo "clang was not found: apt-get install clang-19, or set LLVM_BIN" >&2
    exit 1
fi
version=$("$tools/clang" --version | sed -n 's/.*clang version \([0-9.]*\).*/\1/p')
is_same_version=true
if [ "$version" != $objects_version ]; then
    is_same_version=false
    if [ "${RUKH_ANY_CLANG:-}" != 1 ]; then
        echo "clang is $version, but the PTX in the repository is made by $objects_version, and only that version makes" \
            "the same bytes: install it, or set RUKH_ANY_CLANG=1 to skip the comparison of bytes" >&2
        exit 1
    fi
    echo "clang is $version, not $objects_version: the bytes of the PTX are not compared"
fi
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# The program ptxas, or nothing.
find_ptxas() {
    local python packages
    if [ -n "${PTXAS:-}" ]; then
        echo "$PTXAS"
        return
    fi
    for python in "${PYTHON:-}" target/python/bin/python python3; do
        packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2>/dev/null) || continue
        if [ -x "$packages/nvidia/cuda_nvcc/bin/ptxas" ]; then
            echo "$packages/nvidia/cuda_nvcc/bin/ptxas"
            return
        fi
    done
    command -v ptxas || true
}
ptxas=$(find_ptxas)

# Makes WORK/TARGET.ptx. The compiler sees relative names, so that the text does not depend on the place where it is made.
compile() {
    local tools=$1 work=$2 target=$3 ptx=$4 source=$5 kept=$6 chains_ptx=$7
    local flags=(-x cuda --cuda-device-only -nocudainc -nocudalib -fuse-cuid=none -O3 -std=c++17 -Wall -Wextra -Werror
        --cuda-gpu-arch="$target" -S)
    if [ -z "$chains_ptx" ]; then
        "$tools/clang" "${flags[@]}" --cuda-feature="+ptx$ptx" -o "$work/$target.raw" "$source"
    else
        "$tools/clang" "${flags[@]}" --cuda-feature="+ptx$chains_ptx" -DGPU_HAS_CHAINS=1 -emit-llvm -o "$work/$target.ll" \
            "$source"
        python3 ../../scripts/kernels/ptx.py grid_constant "$work/$target.ll"
        "$tools/llc" -O3 -march=nvptx64 -mcpu="$target" -mattr="+ptx$chains_ptx" -o "$work/$target.raw" "$work/$target.ll"
    fi
    python3 ../../scripts/kernels/ptx.py clean "$work/$target.raw" "$kept" >"$work/$target.ptx"
}
export -f compile
[ -n "$chains" ] || chains_ptx=""
# The longest first.
(
    cd hip/kernels
    for target in $(printf '%s\n' "${targets[@]}" | tac); do
        printf '%s\0' "$target" "${ptx[$target]}" "${source[$target]}" "${kept[$target]}" "$chains_ptx"
    done | xargs -0 -n 5 -P "$(nproc)" bash -c 'set -euo pipefail; compile "$@"' compile "$tools" "$work"
)

# Compiles WORK/TARGET.ptx for a card. WORK/TARGET.CARD.log has the kernels' resources, and WORK/TARGET.CARD.time the
# seconds.
assemble() {
    local ptxas=$1 work=$2 target=$3 card=$4
    local start=$EPOCHREALTIME
    "$ptxas" -v -arch "$card" -o /dev/null "$work/$target.ptx" >"$work/$target.$card.log" 2>&1 || {
        echo "ptxas does not accept $target.ptx for $card:" >&2
        grep -v '^ptxas info' "$work/$target.$card.log" | head -20 >&2
        return 1
    }
    awk -v start="$start" -v end="$EPOCHREALTIME" 'BEGIN { printf "%.1f\n", end - start }' >"$work/$target.$card.time"
}
export -f assemble
resources=hip/kernels/RESOURCES_NVIDIA.md
if [ -z "$ptxas" ]; then
    echo "skipped: ptxas was not found, so that it has not checked the PTX: pip install nvidia-cuda-nvcc-cu12==12.9.86"
else
    ptxas_version=$("$ptxas" --version | sed -n 's/.*release .*, V\([0-9.]*\).*/\1/p')
    ptxas_help=$("$ptxas" --help)
    for target in $(printf '%s\n' "${targets[@]}" | tac); do
        for card in ${cards[$target]}; do
            # ptxas of CUDA 13 no longer knows the oldest cards, and that of CUDA 12.6 not yet the newest.
            if [[ $ptxas_help == *"'sm_$card'"* ]]; then
                echo "$target sm_$card"
            else
                echo "ptxas $ptxas_version does not know sm_$card" >&2
            fi
        done
    done >"$work/all"
    xargs -r -L 1 -P "$(nproc)" bash -c 'set -euo pipefail; assemble "$@"' assemble "$ptxas" "$work" <"$work/all"
    python3 scripts/kernels/ptx.py resources "$work" "$version" "$ptxas_version" >"$work/resources.md"
fi

if [ -n "$chains" ]; then
    cp "$work/sm_80.ptx" "$chains"
    all=$(grep -c '^\.visible \.entry' "$chains")
    echo "$chains: $all kernels, of which $(grep -c '^\.visible \.entry gemm_chain' "$chains") of chains"
    exit 0
fi
failed=false
total=0
for target in "${targets[@]}"; do
    object=hip/kernels/objects/$target.ptx.gz
    if ! $check; then
        gzip -9nc "$work/$target.ptx" >"$object"
    elif [ ! -f "$object" ] || { $is_same_version && ! gzip -dc "$object" | cmp -s - "$work/$target.ptx"; }; then
        echo "$object is not what its source compiles to: run scripts/kernels/ptx.sh" >&2
        failed=true
    fi
done
if [ -n "$ptxas" ] && [ "${targets[*]}" = "${stored[*]}" ]; then
    if ! $check; then
        cp "$work/resources.md" $resources
    elif $is_same_version && grep -q "ptxas $ptxas_version" $resources && ! cmp -s "$work/resources.md" $resources; then
        diff "$work/resources.md" $resources | head -20 >&2
        echo "$resources is out of date: run scripts/kernels/ptx.sh" >&2
        failed=true
    fi
fi
if $failed; then
    exit 1
fi
for target in "${targets[@]}"; do
    size=$(stat -c %s "hip/kernels/objects/$target.ptx.gz")
    total=$((total + size))
    times=""
    for card in ${cards[$target]}; do
        [ ! -f "$work/$target.sm_$card.time" ] || times+=", sm_$card $(cat "$work/$target.sm_$card.time") s"
    done
    echo "$target: PTX ${ptx[$target]:0:1}.${ptx[$target]:1}, $(grep -c '^\.visible \.entry' "$work/$target.ptx") kernels," \
        "$(stat -c %s "$work/$target.ptx") bytes, compressed $size${times:+; ptxas${times:1}}"
done
[ -z "$ptxas" ] || accepted="; ptxas $ptxas_version accepts them, and no kernel spills but for those that ptx.py lists"
echo "clang $version: ${#targets[@]} targets, $total bytes compressed${accepted:-}"
