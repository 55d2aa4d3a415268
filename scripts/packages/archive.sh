#!/usr/bin/env bash
# Builds Rukh and packs it, with its documentation, into target/packages/rukh-VERSION-SYSTEM-PROCESSOR.tar.gz, or .zip
# for Windows. Prints the path of the archive.
#
# usage: scripts/packages/archive.sh [TARGET]
#   TARGET                Rust's name of the system to build for, such as aarch64-unknown-linux-gnu (default: this one)
# environment:
#   RUKH_PROGRAM          packs this program and builds nothing
#   RUKH_FOR_PAGES        a program that runs on this machine and writes the manual page (default: the packed one)
#   RUKH_NEWEST_GLIBC     fails if the program for Linux needs a newer glibc than this version, such as 2.28
#   STRIP, OBJDUMP        the tools for another target, such as aarch64-linux-gnu-strip and aarch64-linux-gnu-objdump
set -euo pipefail
cd "$(dirname "$0")/../.."

host=$(rustc -vV | sed -n 's/^host: //p')
target=${1:-$host}
version=$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)
case $target in
*-linux-*) system=linux suffix='' ;;
*-windows-*) system=windows suffix=.exe ;;
*-apple-darwin) system=macos suffix='' ;;
*)
    echo "archive.sh knows no system for the target $target" >&2
    exit 2
    ;;
esac

program=${RUKH_PROGRAM:-}
if [ -z "$program" ]; then
    cargo build --release --locked --target "$target" >&2
    program=${CARGO_TARGET_DIR:-target}/$target/release/rukh$suffix
fi

name=rukh-$version-$system-${target%%-*}
packages=${CARGO_TARGET_DIR:-target}/packages
folder=$packages/$name
rm -rf "$folder"
mkdir -p "$folder/weights"
cp "$program" "$folder/rukh$suffix"
# The names of functions are for developers and are two thirds of the file.
if [[ $system = linux || $target = *-windows-gnu ]]; then
    "${STRIP:-strip}" "$folder/rukh$suffix"
elif [ $system = macos ]; then
    strip -x "$folder/rukh"
    # Stripping removes the signature, without which a Mac with Apple's processor does not start a program.
    codesign --force --sign - "$folder/rukh"
fi
scripts/packages/shell_files.sh "${RUKH_FOR_PAGES:-$folder/rukh$suffix}" "$folder/completions"
mv "$folder/completions/rukh.6" "$folder/"
cp -r LICENSE README.md CHANGELOG.md CONTRIBUTING.md docs "$folder/"
cp weights/README.md "$folder/weights/"

if [ $system = linux ]; then
    needed=$("${OBJDUMP:-objdump}" -T "$folder/rukh" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
    echo "$name needs glibc $needed or newer" >&2
    newest=${RUKH_NEWEST_GLIBC:-$needed}
    if [ "$(printf '%s\n' "$needed" "$newest" | sort -V | tail -n 1)" != "$newest" ]; then
        echo "that is newer than $newest; build on an older system" >&2
        exit 1
    fi
fi

cd "$packages"
if [ $system = windows ]; then
    archive=$name.zip
    rm -f "$archive"
    if command -v zip >/dev/null; then
        zip --quiet --recurse-paths "$archive" "$name"
    else
        7z a -bso0 "$archive" "$name"
    fi
else
    archive=$name.tar.gz
    tar --create --gzip --file "$archive" "$name"
fi
echo "$packages/$archive"
