# shellcheck shell=bash
# shellcheck disable=SC2034  # the scripts use the variables
# What the scripts of this folder share; they source it. It enters the repository's root.
script=$(realpath "$0")
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
# The version of the release.
version=$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The folder of finished packages. Its folders hold what is not published.
results=$PWD/target/packages
# The oldest glibc that a program for Linux runs with. `depends` in Cargo.toml has it too.
glibc=2.28
export CARGO_TARGET_DIR=$PWD/target
mkdir -p "$results"

# check_libraries FILE [NAME ...]: fails if a program or library for Linux or Windows needs a library that not every such
# system has, but for those named, or a newer glibc.
check_libraries() {
    local file=$1 needed
    shift
    if [[ $(head --bytes 2 "$file") == MZ ]]; then
        x86_64-w64-mingw32-objdump --private-headers "$file" | sed -n 's/.*DLL Name: \([^ ]*\)\r\{0,1\}$/\1/p' |
            only "$file" advapi32.dll api-ms-win-core-synch-l1-2-0.dll bcryptprimitives.dll kernel32.dll msvcrt.dll \
                ntdll.dll oleaut32.dll pdh.dll powrprof.dll psapi.dll shell32.dll userenv.dll "$@"
        return
    fi
    readelf --dynamic --wide "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | only "$file" libc.so.6 libm.so.6 \
        libdl.so.2 libpthread.so.0 librt.so.1 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 "$@"
    needed=$(readelf --version-info --wide "$file" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
    echo "$file needs glibc ${needed#GLIBC_} or newer" >&2
    if [ "$(printf '%s\n' "$needed" "GLIBC_$glibc" | sort -V | tail -n 1)" != "GLIBC_$glibc" ]; then
        echo "that is newer than $glibc" >&2
        return 1
    fi
}

# only FILE NAME ...: fails unless the libraries on standard input, which the file needs, are among these.
only() {
    local library
    while read -r library; do
        if [[ " ${*:2} " != *" ${library,,} "* ]]; then
            echo "$1 needs $library, which not every system has" >&2
            return 1
        fi
    done
}

# usage: prints the comment at the top of the script, without its first line, and fails.
usage() {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$script" >&2
    exit 2
}
