#!/usr/bin/env bash
# Makes the wheel of the Python package in target/packages, and prints its path. One wheel serves every Python since 3.10.
#
# usage: scripts/packages/wheels.sh [TARGET]
#   TARGET     Rust's name of the system to build for (default: this one). Linux needs ziglang, which
#              `release.sh tools` installs, and Windows (x86_64-pc-windows-gnu) needs MinGW.
# environment:
#   PYTHON     a Python with maturin (default: python3)
set -euo pipefail
. "$(dirname "$0")/common.sh"

target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
made=$results/unpacked/wheel-$target
options=(--release --locked --manifest-path src/python/Cargo.toml --target "$target" --out "$made")
[[ $target != *-linux-gnu ]] || options+=(--zig --compatibility "manylinux_${glibc/./_}")
licences=src/python/licences
mkdir -p $licences
cp LICENSE $licences/
scripts/packages/licences.py "$target" librukh-python >$licences/licences-of-others.txt
rm -rf "$made"
[[ $target == *-apple-darwin ]] || export CARGO_PROFILE_RELEASE_STRIP=symbols
"${PYTHON:-python3}" -m maturin build "${options[@]}" >&2
if [[ $target != *-apple-darwin ]]; then
    unzip -q "$made"/*.whl 'rukh/_native*' -d "$made"
    # python3.dll, the stable interface, comes with Python for Windows.
    check_libraries "$(find "$made" -name "*.so" -o -name "*.pyd")" python3.dll
fi
mv "$made"/*.whl "$results/"
find "$results" -maxdepth 1 -name "rukh-*.whl" -newer $licences/licences-of-others.txt
