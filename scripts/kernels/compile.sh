#!/usr/bin/env bash
# Compiles the GPU kernels for every architecture whose code object is kept in the repository, and fails if a kernel
# spills registers or exchanges numbers between lanes where some of them may be inactive (lanes.py).
#
# usage: scripts/kernels/compile.sh [--check] [ARCHITECTURE ...]
#   without --check    writes hip/kernels/objects/ARCHITECTURE.co.gz and, if no architecture is named,
#                      hip/kernels/RESOURCES.md and, from that, EXPECTED_TIMES.md
#   with --check       writes nothing, and fails if one of those files would change, or if hip/kernels/README.md does
#                      not have the table of bank_conflicts.py
# Without architectures, the script compiles all whose objects are stored, and also checks those whose code is that of a
# stored object (objects/same_code.txt). Without --check it compiles every kernel for these. With --check it compiles some
# kernels, and checks that the source of the others is the same for both, which takes a tenth of the time.
#
# Needs clang 19.1.7 with lld, llvm-readelf and llvm-objdump of the same version, python3, and no ROCm. Debian 12 and 13
# have that version: apt-get install --no-install-recommends clang-19 lld-19 llvm-19. LLVM_BIN names another folder.
# Only that version makes the same bytes. With another version --check fails, unless RUKH_ANY_CLANG=1 is set: then it
# checks everything but the bytes, and says so.
set -euo pipefail
cd "$(dirname "$0")/../.."

objects_version=19.1.7
stored=(gfx90a gfx942 gfx906 gfx908 gfx1030 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1200)
same_code=hip/kernels/objects/same_code.txt
architectures=("${stored[@]}")
mapfile -t renamed < <(grep -o '^gfx[0-9a-f]*' $same_code)
check=false
if [ "${1:-}" = --check ]; then
    check=true
    shift
fi
if [ $# -gt 0 ]; then
    architectures=("$@")
    renamed=()
fi

tools=""
for candidate in "${LLVM_BIN:-}" /usr/lib/llvm-19/bin "$(dirname "$(command -v llvm-objdump || echo /nowhere/x)")"; do
    if [ -x "$candidate/clang" ] && [ -x "$candidate/llvm-objdump" ] && [ -x "$candidate/ld.lld" ]; then
        tools=$candidate
        break
    fi
done
if [ -z "$tools" ]; then
    echo "clang with ld.lld and llvm-objdump was not found: apt-get install clang-19 lld-19 llvm-19, or set LLVM_BIN" >&2
    exit 1
fi
version=$("$tools/clang" --version | sed -n 's/.*clang version \([0-9.]*\).*/\1/p')
if [ "$version" = $objects_version ]; then
    is_same_version=true
elif [ "${RUKH_ANY_CLANG:-}" = 1 ]; then
    is_same_version=false
    echo "clang is $version, not $objects_version: the bytes of the code objects are not compared"
else
    echo "clang is $version, but the code objects in the repository are made by $objects_version, and only that version" \
        "makes the same bytes: install it, or set RUKH_ANY_CLANG=1 to skip the comparison of bytes" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# These are the flags of build.rs. Further flags make warnings errors and print remarks on each kernel's resources.
compile() {
    local tools=$1 work=$2 architecture=$3
    "$tools/clang" -x hip --cuda-device-only -nogpuinc -nogpulib -O3 -std=c++17 --no-gpu-bundle-output \
        -mcode-object-version=5 -fuse-cuid=none -Wall -Wextra -Werror -Rpass-analysis=kernel-resource-usage \
        --offload-arch="$architecture" -o "$work/$architecture.co" all.hip 2>"$work/$architecture.remarks" || {
        grep -v 'remark:' "$work/$architecture.remarks" >&2
        return 1
    }
    "$tools/llvm-readelf" --notes --dyn-syms "$work/$architecture.co" >"$work/$architecture.notes"
    "$tools/llvm-objdump" -d --no-show-raw-insn "$work/$architecture.co" >"$work/$architecture.text"
}
export -f compile

# Kernels of these files use products of all kinds, local memory, exchanges between lanes and conversions.
some_kernels=(attention_any.hip bytes.hip layer_norm.hip policy.hip)

# Makes WORK/ARCHITECTURE.co from some kernels, and WORK/ARCHITECTURE.source from all of them after the preprocessor.
compile_some() {
    local tools=$1 work=$2 architecture=$3
    local flags=(-x hip --cuda-device-only -nogpuinc -nogpulib -std=c++17 --offload-arch="$architecture")
    "$tools/clang" "${flags[@]}" -E -P -o "$work/$architecture.source" all.hip
    printf '#include "%s"\n' "${@:4}" | "$tools/clang" "${flags[@]}" -I . -O3 --no-gpu-bundle-output \
        -mcode-object-version=5 -fuse-cuid=none -o "$work/$architecture.co" -
}
export -f compile_some
whole=("${architectures[@]}")
in_part=()
if $check && [ ${#renamed[@]} -gt 0 ]; then
    mkdir "$work/some"
    mapfile -t in_part < <(grep '^gfx' $same_code | awk '{ print $1; print $2 }' | sort -u)
else
    whole+=("${renamed[@]}")
fi
# The objects must not depend on the place where they are made: the compiler sees relative names, and -fuse-cuid=none
# keeps it from hashing the output's name into a symbol.
(
    cd hip/kernels
    printf '%s\n' "${whole[@]}" |
        xargs -P "$(nproc)" -I '{}' bash -c 'set -euo pipefail; compile "$@"' compile "$tools" "$work" '{}'
    printf '%s\n' "${in_part[@]}" |
        xargs -r -P "$(nproc)" -I '{}' bash -c 'set -euo pipefail; compile_some "$@"' compile_some \
            "$tools" "$work/some" '{}' "${some_kernels[@]}"
)

if [ ${#renamed[@]} -gt 0 ]; then
    if $check; then
        python3 scripts/kernels/same_code.py "$work/some" $same_code
    else
        python3 scripts/kernels/same_code.py "$work" $same_code
    fi
fi
# The sizes in RESOURCES.md are those of the stored files, because other versions of gzip may compress differently.
failed=false
for architecture in "${architectures[@]}"; do
    object=hip/kernels/objects/$architecture.co.gz
    if ! $check; then
        gzip -9nc "$work/$architecture.co" >"$work/$architecture.co.gz"
    elif ! cp "$object" "$work/" || { $is_same_version && ! gzip -dc "$object" | cmp -s - "$work/$architecture.co"; }; then
        echo "$object is not what its source compiles to: run scripts/kernels/compile.sh" >&2
        failed=true
    fi
done
python3 scripts/kernels/resources.py "$work" "$version" $same_code "${architectures[@]}" >"$work/RESOURCES.md"
if ! $check; then
    for architecture in "${architectures[@]}"; do
        cp "$work/$architecture.co.gz" hip/kernels/objects/
    done
fi
if [ "${architectures[*]}" = "${stored[*]}" ]; then
    if ! $check; then
        cp "$work/RESOURCES.md" hip/kernels/RESOURCES.md
        python3 scripts/kernels/expected_times.py hip/kernels/RESOURCES.md >hip/kernels/EXPECTED_TIMES.md
    elif $is_same_version && ! cmp -s "$work/RESOURCES.md" hip/kernels/RESOURCES.md; then
        diff "$work/RESOURCES.md" hip/kernels/RESOURCES.md | head -20 >&2
        echo "hip/kernels/RESOURCES.md is out of date: run scripts/kernels/compile.sh" >&2
        failed=true
    elif ! python3 scripts/kernels/expected_times.py hip/kernels/RESOURCES.md | cmp -s - hip/kernels/EXPECTED_TIMES.md; then
        echo "hip/kernels/EXPECTED_TIMES.md is out of date: run scripts/kernels/compile.sh" >&2
        failed=true
    fi
    if $check && ! python3 scripts/kernels/bank_conflicts.py --check hip/kernels/README.md; then
        failed=true
    fi
fi
if $failed; then
    exit 1
fi
kernels=$(grep -cE '^\| [a-z]+_[a-z0-9_]+ \|' "$work/RESOURCES.md")
echo "clang $version: ${#architectures[@]} architectures, ${#renamed[@]} with the code of one of them, $kernels kernels;" \
    "none spills, none is empty, every exchange between lanes runs with all of them active"
