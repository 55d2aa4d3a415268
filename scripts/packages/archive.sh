#!/usr/bin/env bash
# Builds Rukh and packs it, with its documentation, into target/packages/rukh-VERSION-SYSTEM-PROCESSOR.tar.gz, or .zip
# for Windows. Prints the path of the archive. The unpacked folder stays in target/packages/unpacked.
#
# usage: scripts/packages/archive.sh [TARGET]
#   TARGET                Rust's name of the system to build for, such as aarch64-unknown-linux-gnu (default: this one).
#                         Linux needs cargo-zigbuild, and Windows (x86_64-pc-windows-gnu) needs MinGW.
# environment:
#   RUKH_FOR_PAGES        a program for this machine, which writes manual page and completions (default: the
#                         packed one)
set -euo pipefail
. "$(dirname "$0")/common.sh"

target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
build=(build) for_target=$target suffix=''
case $target in
*-linux-gnu) system=linux build=(zigbuild) for_target=$target.$glibc ;;
*-windows-gnu) system=windows suffix=.exe ;;
*-apple-darwin) system=macos ;;
*)
    echo "archive.sh makes no archive for the target $target" >&2
    exit 2
    ;;
esac
# The names of functions are for developers and are two thirds of the file. On a Mac, the linker's strip would leave a
# program whose signature is wrong.
[ $system = macos ] || export CARGO_PROFILE_RELEASE_STRIP=symbols
cargo "${build[@]}" --release --locked --target "$for_target" >&2

name=rukh-$version-$system-${target%%-*}
folder=$results/unpacked/$name
program=$folder/rukh$suffix
rm -rf "$folder"
mkdir -p "$folder/weights"
cp "target/$target/release/rukh$suffix" "$program"
if [ $system = macos ]; then
    strip -x "$program"
    # Stripping removes the signature, without which a Mac with Apple's processor does not start a program.
    codesign --force --sign - "$program"
fi
scripts/packages/shell_files.sh "${RUKH_FOR_PAGES:-$program}" "$folder/completions"
mv "$folder/completions/rukh.6" "$folder/"
cp -r LICENSE README.md CHANGELOG.md CONTRIBUTING.md docs "$folder/"
cp weights/README.md "$folder/weights/"
scripts/packages/licences.py "$target" >"$folder/licences-of-others.txt"

[ $system = macos ] || check_libraries "$program"

cd "$results/unpacked"
if [ $system = windows ]; then
    archive=$results/$name.zip
    rm -f "$archive"
    zip --quiet --recurse-paths "$archive" "$name"
else
    archive=$results/$name.tar.gz
    tar --create --gzip --file "$archive" "$name"
fi
echo "$archive"
