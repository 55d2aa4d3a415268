# shellcheck shell=bash
# Functions for scripts that build for another system than this one, and run what they built. A script that runs tests
# sets `target`, and `left_out`, a file with the tests that it leaves out. The functions need Debian on x86-64 with its
# mirrors and the crates registry, and nothing else. What they fetch and build lies in target/cross.
#
# environment:
#   RUKH_CROSS_RUST=sid   the release of Debian that a Rust compiler is taken from, if the installed one lacks the
#                         target's standard library
cross=$PWD/target/cross
# The packages of the engine: all `rukh-*` but rukh-fleet.
engine=(--package rukh --package "rukh-[!f]*")

# need PROGRAM=PACKAGE ...: installs the packages of the programs that are missing. A path instead of a program is any
# file.
need() {
    local entry packages=()
    for entry in "$@"; do
        [ -e "${entry%%=*}" ] || command -v "${entry%%=*}" >/dev/null || packages+=("${entry#*=}")
    done
    [ ${#packages[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        echo "these packages are missing; install them as root: apt-get install ${packages[*]}" >&2
        return 1
    fi
    apt-get update --quiet=2
    apt-get install --quiet=2 --yes --no-install-recommends "${packages[@]}"
}

# Wine's folder of Windows, with an empty registry and without its own .NET and web browser.
export WINEPREFIX=$cross/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="

# make_wine: installs MinGW's linker and Wine. Makes Wine's folder of Windows, and target/cross/wine64, which starts a
# program for Windows.
make_wine() {
    need x86_64-w64-mingw32-gcc=gcc-mingw-w64-x86-64-win32 wine=wine /usr/lib/wine/wine64=wine64
    mkdir -p "$cross"
    # Debian's `wine` complains on every start that 32-bit Windows programs cannot run.
    printf '#!/bin/sh\nexec /usr/lib/wine/wine64 "$@"\n' >"$cross/wine64"
    chmod +x "$cross/wine64"
    [ -e "$WINEPREFIX/system.reg" ] || "$cross/wine64" wineboot --init
    local system=$WINEPREFIX/drive_c/windows/system32
    # Rust's standard library imports one function of a DLL that Windows has since version 10 and Wine since version 9.
    if [ ! -e "$system/bcryptprimitives.dll" ]; then
        cat >"$cross/bcryptprimitives.c" <<'END'
int __stdcall SystemFunction036(void *buffer, unsigned long bytes);
__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *buffer, unsigned long long bytes)
{
    return SystemFunction036(buffer, (unsigned long)bytes);
}
END
        x86_64-w64-mingw32-gcc -shared -O2 -s "$cross/bcryptprimitives.c" -o "$system/bcryptprimitives.dll" -ladvapi32
    fi
}

# use_compiler_for TARGET: sets `cargo_for_target`, Cargo's arguments for this target. The compiler is the installed one
# if it has the target's standard library. Otherwise it is Debian's, which is unpacked and not installed.
use_compiler_for() {
    local target=$1
    # A test needs no debug information, and it makes the target's programs several times as large.
    export CARGO_TARGET_DIR=$cross CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0
    cargo_for_target=(--locked --target "$target")
    if compgen -G "$(rustc --print target-libdir --target "$target")/libstd-*.rlib" >/dev/null; then
        return
    fi
    unpack_debian_rust
    # RUSTC_BOOTSTRAP permits `-Z build-std` with a stable compiler.
    export RUSTC=$cross/debian/rustc RUSTC_BOOTSTRAP=1
    # The newer compiler may have new warnings, which are no matter for this check.
    export RUSTFLAGS=-Awarnings
    if ! compgen -G "$("$RUSTC" --print target-libdir --target "$target")/libstd-*.rlib" >/dev/null; then
        cargo_for_target+=(-Z "build-std=std,panic_abort,panic_unwind,test")
    fi
}

# unpack_debian_rust: makes target/cross/debian/rustc, Debian's compiler with its own libraries, the source of the
# standard library, and the standard library for 64-bit ARM.
unpack_debian_rust() {
    local root=$cross/debian/root deb
    [ ! -x "$cross/debian/rustc" ] || return 0
    mkdir -p "$root"
    private_apt amd64 update
    private_apt amd64 install --yes --no-install-recommends --download-only rustc rust-src
    for deb in "$cross"/debian/apt-amd64/cache/archives/*.deb; do
        case $(basename "$deb") in
            # The C compiler is the installed one.
            cpp* | gcc-1* | gcc-x86* | gcc_* | binutils* | libgcc-*-dev* | libc6-dev* | linux-libc-dev*) ;;
            *) dpkg-deb --extract "$deb" "$root" ;;
        esac
    done
    private_apt arm64 update
    (cd "$cross/debian" && private_apt arm64 download libstd-rust-dev)
    dpkg-deb --extract "$cross"/debian/libstd-rust-dev_*_arm64.deb "$root"
    # The compiler needs the C library that it was built with.
    cat >"$cross/debian/rustc" <<END
#!/bin/sh
exec $root/usr/lib64/ld-linux-x86-64.so.2 --library-path $root/usr/lib/x86_64-linux-gnu --argv0 rustc \\
    $root/usr/bin/rustc --sysroot $root/usr "\$@"
END
    chmod +x "$cross/debian/rustc"
    "$cross/debian/rustc" --version
}

# debian_mirror: prints the address of Debian's packages.
debian_mirror() {
    local mirror
    # shellcheck disable=SC2016  # apt-get expands REPO_URI
    mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' | head -n 1)}
    if [ -z "$mirror" ]; then
        echo "no Debian mirror was found: set DEBIAN_MIRROR" >&2
        return 1
    fi
    echo "$mirror"
}

# private_apt ARCHITECTURE COMMAND ...: runs apt-get with lists, a cache and a status of its own.
private_apt() {
    local architecture=$1 folder=$cross/debian/apt-$1 mirror
    shift
    mirror=$(debian_mirror)
    mkdir -p "$folder"/{lists,cache/archives}/partial
    : >"$folder/status"
    echo "deb [arch=$architecture signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
        "$mirror ${RUKH_CROSS_RUST:-sid} main" >"$folder/list"
    apt-get --quiet=2 -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture" \
        -o "Dir::Etc::SourceList=$folder/list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$folder/lists" \
        -o "Dir::Cache=$folder/cache" -o "Dir::State::status=$folder/status" -o APT::Sandbox::User=root "$@"
}

# all_but_left_out: prints `--skip NAME` for each test that the file `left_out` names, for the test programs of Rust. A
# line of the file is a test's name, and then the reason why it is left out.
all_but_left_out() { sed -n 's/^\([a-z][^ ]*\) .*/--skip \1/p' "$left_out" | tr '\n' ' '; }

# tests WHICH ... [-- ARGUMENT ...]: runs tests of `target`, without those that `left_out` names.
tests() {
    use_compiler_for "$target"
    local which=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        which+=("$1")
        shift
    done
    # shellcheck disable=SC2046  # the names of tests have no spaces
    cargo test "${cargo_for_target[@]}" "${engine[@]}" "${which[@]}" "${@:---}" $(all_but_left_out)
}
