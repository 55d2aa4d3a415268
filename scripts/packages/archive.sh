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

# only NAME ...: fails unless the libraries on standard input are among these.
only() {
    local library
    while read -r library; do
        if [[ " $* " != *" ${library,,} "* ]]; then
            echo "$program needs $library, which not every system has" >&2
            return 1
        fi
    done
}
if [ $system = linux ]; then
    readelf --dynamic --wide "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        only libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1
    needed=$(readelf --version-info --wide "$program" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
    echo "$name needs glibc ${needed#GLIBC_} or newer" >&2
    if [ "$(printf '%s\n' "$needed" "GLIBC_$glibc" | sort -V | tail -n 1)" != "GLIBC_$glibc" ]; then
        echo "that is newer than $glibc" >&2
        exit 1
    fi
elif [ $system = windows ]; then
    x86_64-w64-mingw32-objdump --private-headers "$program" | sed -n 's/.*DLL Name: \([^ ]*\)\r\{0,1\}$/\1/p' |
        only advapi32.dll api-ms-win-core-synch-l1-2-0.dll bcryptprimitives.dll kernel32.dll msvcrt.dll ntdll.dll \
            oleaut32.dll pdh.dll powrprof.dll psapi.dll shell32.dll userenv.dll
fi

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
