#!/usr/bin/env bash
# Compiles the GPU kernels for every architecture whose code object is kept in the repository.
#
# usage: scripts/kernels/compile.sh [--check] [architecture ...]
#   without --check: writes hip/kernels/objects/ARCHITECTURE.co.gz and hip/kernels/RESOURCES.md
#   with --check:    changes nothing, and fails if either would change
# Both fail where a kernel spills, or takes numbers of lanes that may be asleep (lanes.py).
#
# Needs clang with the amdgcn target, lld, llvm-readelf and llvm-objdump of one version, and no ROCm: on Debian,
# apt-get install --no-install-recommends clang-19 lld-19 llvm-19. The stored objects are clang 19.1.7's; with
# another version --check compiles everything and holds the resources to the same rules, but compares no bytes.
set -euo pipefail
cd "$(dirname "$0")/../.."

architectures=(gfx90a gfx942 gfx1030 gfx1100 gfx1101 gfx1102 gfx1151 gfx1200 gfx1201)
check=false
if [ "${1:-}" = --check ]; then
    check=true
    shift
fi
if [ $# -gt 0 ]; then
    architectures=("$@")
fi

tools=""
for candidate in "${LLVM_BIN:-}" /usr/lib/llvm-19/bin "$(dirname "$(command -v llvm-objdump || echo /nowhere/x)")"; do
    if [ -x "$candidate/clang" ] && [ -x "$candidate/llvm-objdump" ] && [ -x "$candidate/ld.lld" ]; then
        tools=$candidate
        break
    fi
done
if [ -z "$tools" ]; then
    echo "no clang with lld and llvm-objdump: set LLVM_BIN, or apt-get install clang-19 lld-19 llvm-19" >&2
    exit 1
fi
version=$("$tools/clang" --version | sed -n 's/.*clang version \([0-9.]*\).*/\1/p')
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# The same flags as build.rs gives.
flags=(-x hip --cuda-device-only -nogpuinc -nogpulib -O3 -std=c++17 --no-gpu-bundle-output
    -mcode-object-version=5 -fuse-cuid=none -Wall -Wextra -Werror -Rpass-analysis=kernel-resource-usage)
compile() {
    "$tools/clang" "${flags[@]}" --offload-arch="$1" -o "$work/$1.co" all.hip 2>"$work/$1.remarks" || {
        grep -v 'remark:' "$work/$1.remarks" >&2
        return 1
    }
    "$tools/llvm-readelf" --notes --dyn-syms "$work/$1.co" >"$work/$1.notes"
    "$tools/llvm-objdump" -d --no-show-raw-insn "$work/$1.co" >"$work/$1.text"
}
# Objects must not depend on where they are made: the compiler sees relative names, and -fuse-cuid=none keeps it from
# hashing the output's into a symbol.
cd hip/kernels
compile_all() {
    local architecture
    for architecture in "$@"; do compile "$architecture"; done
}
half=$(((${#architectures[@]} + 1) / 2))
compile_all "${architectures[@]:0:half}" &
compile_all "${architectures[@]:half}"
wait $!
cd ../..

python3 scripts/kernels/resources.py "$work" "$version" "${architectures[@]}" >"$work/RESOURCES.md"

failed=false
for architecture in "${architectures[@]}"; do
    object=hip/kernels/objects/$architecture.co.gz
    if ! $check; then
        gzip -9nc "$work/$architecture.co" >"$object"
    elif [ "$version" = 19.1.7 ] && ! gzip -dc "$object" | cmp -s - "$work/$architecture.co"; then
        echo "$object is not what the sources compile to: run scripts/kernels/compile.sh" >&2
        failed=true
    fi
done
if [ ${#architectures[@]} = 9 ]; then
    if ! $check; then
        cp "$work/RESOURCES.md" hip/kernels/RESOURCES.md
    elif [ "$version" = 19.1.7 ] && ! cmp -s "$work/RESOURCES.md" hip/kernels/RESOURCES.md; then
        diff "$work/RESOURCES.md" hip/kernels/RESOURCES.md | head -20 >&2
        echo "hip/kernels/RESOURCES.md does not hold: run scripts/kernels/compile.sh" >&2
        failed=true
    fi
fi
if $failed; then
    exit 1
fi
echo "clang $version: ${#architectures[@]} architectures, $(grep -c '^| [a-z]' "$work/RESOURCES.md") kernels, nothing spilled, nothing empty, no lane asleep in an exchange"
