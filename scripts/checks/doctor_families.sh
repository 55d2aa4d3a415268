#!/usr/bin/env bash
# Runs `rukh doctor` on the emulator for one architecture of each family: RDNA 2, 3 and 4, CDNA 2 and 3. Prints a line
# for each, and fails if a report finds something wrong.
#
# usage: scripts/checks/doctor_families.sh [ARCHITECTURE ...]
# With NETWORK set, that network is examined, and otherwise a small one. PROFILE is the profile to build with.
set -euo pipefail
cd "$(dirname "$0")/../.."
profile=${PROFILE:-quick}
network=${NETWORK:-tests/data/micro-attn.pb.gz}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cargo build --quiet --profile "$profile" --package rukh --package rocm-emulator
built=target/$profile
[ "$profile" != dev ] || built=target/debug
mkdir -p "$folder/libraries/rocblas/library"
for name in libamdhip64 libhiprtc librocblas libhipblaslt; do
    ln -s "$PWD/$built/librocm_emulator.so" "$folder/libraries/$name.so"
done

failed=0
for architecture in "${@:-gfx1030}" $([ $# -gt 0 ] || echo gfx1100 gfx1200 gfx90a gfx942); do
    : >"$folder/libraries/rocblas/library/TensileLibrary_lazy_$architecture.dat"
    report=$folder/$architecture
    RUKH_ROCM_LIBRARY_PATH=$folder/libraries RUKH_EMULATOR_ARCH=$architecture XDG_CACHE_HOME=$folder/cache \
        "$built/rukh" doctor --quick --config= --weights="$network" --backend-opts=max_batch=4,streams=2,wait=block \
        --report="$report" >"$report.log" 2>&1 || { cat "$report.log" >&2; failed=1; continue; }
    findings=$(sed -n '/^Findings$/,/^$/p' "$report.txt" | sed '1d; /^$/d; s/^ *//; s/  */ /g')
    echo "$architecture: $(paste -sd ';' <<<"$findings" | sed 's/;/; /g')"
    if grep -vqE '^[a-z]+ (all [0-9]+ right|done)$' <<<"$findings"; then
        failed=1
    fi
done
exit "$failed"
