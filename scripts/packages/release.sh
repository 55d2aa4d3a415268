#!/usr/bin/env bash
# Makes a release in target/packages: archives for Linux and Windows, Debian packages, the source, recipes and checksums.
# Unpacks each program where nothing of Rust is, and plays with it. Needs root on Debian for x86-64, its mirrors, Rust by
# rustup, and the registries of crates and of Python's packages; it installs the rest. Tools that are there are kept.
#
# usage: scripts/packages/release.sh [STEP ...]      without arguments, all steps run
#   tools      the linkers, the emulators, and Debian systems with nothing but the C library
#   archives   the archives
#   debs       the Debian packages of the same programs
#   source     the source of the last commit, and recipes that name it
#   linux      plays in a bare Debian of 2021 with the archive, and then with the package that it installs
#   arm        the same on an emulated processor for 64-bit ARM, with shorter searches, without installing
#   windows    plays under Wine
#   wheels     the wheels of the Python package; installs that for this system in a bare Debian, plays and evaluates
#   sums       SHA256SUMS, and a list of the files
# environment:
#   RUKH_REPOSITORY    the address of the project's page, which the recipes need
#   RUKH_MAINTAINER    who answers for the Debian packages, as `Name <address>`
#   DEBIAN_MIRROR      where Debian's packages are (default: where apt-get takes them from)
set -euo pipefail
. "$(dirname "$0")/common.sh"
. scripts/checks/steps.sh
. scripts/checks/cross.sh

linux=x86_64-unknown-linux-gnu arm=aarch64-unknown-linux-gnu windows=x86_64-pc-windows-gnu
# Each of these names the archive of its system, and `rukh` the program that runs here.
archive=$results/rukh-$version rukh=$results/unpacked/rukh-$version-linux-x86_64/rukh
# The oldest Debian that its mirrors have.
bare=bullseye
export PATH=$cross/tools/bin:$PATH

step_tools() {
    need debootstrap=debootstrap bwrap=bubblewrap qemu-aarch64-static=qemu-user-static zip=zip unzip=unzip \
        readelf=binutils cc=gcc python3=python3-venv \
        /usr/share/keyrings/debian-archive-keyring.gpg=debian-archive-keyring
    make_wine
    rustup target add $linux $arm $windows
    # Zig's linker has the interfaces of every version of glibc, for each processor.
    [ -x "$cross/tools/bin/python3" ] || python3 -m venv "$cross/tools"
    "$cross/tools/bin/pip" install --quiet cargo-zigbuild==0.24.1 ziglang==0.17.1 maturin==1.16.0
    cargo install --quiet --locked --root "$cross/tools" --target-dir "$cross/tools/target" cargo-deb@3.8.0
    make_bare amd64
    # The packages are unpacked only: their scripts would need a kernel that starts programs for ARM.
    make_bare arm64 --foreign
}

# make_bare ARCHITECTURE [OPTION ...]: makes a Debian system in target/cross, and target/cross/bare-ARCHITECTURE, which
# starts a program there. The program finds neither this system nor the network.
make_bare() {
    local root=$cross/debian-$1 emulator=''
    if [ ! -d "$root" ]; then
        rm -rf "$root.new"
        debootstrap --variant=minbase --arch="$1" "${@:2}" $bare "$root.new" "$(debian_mirror)" >"$root.log" ||
            { tail "$root.log" >&2; return 1; }
        # For another processor it is a link.
        [ ! -L "$root.new/proc" ] || { rm "$root.new/proc" && mkdir "$root.new/proc"; }
        mv "$root.new" "$root"
    fi
    if [ "$1" = arm64 ]; then
        cp "$(command -v qemu-aarch64-static)" "$root/usr/bin/"
        emulator=/usr/bin/qemu-aarch64-static
    fi
    start_in "$root" "$cross/bare-$1" $emulator
}

# start_in FOLDER FILE [EMULATOR]: makes a file that starts a program in the system of a folder.
start_in() {
    cat >"$2" <<EOF
#!/bin/sh
exec bwrap --ro-bind $1 / --dev /dev --proc /proc --tmpfs /root --bind /tmp /tmp --unshare-all --die-with-parent \\
    --clearenv --setenv HOME /root --chdir /root ${3:-} "\$@"
EOF
    chmod +x "$2"
}

step_archives() {
    find "$results" -maxdepth 1 -type f -delete
    scripts/packages/archive.sh $linux
    RUKH_FOR_PAGES=$rukh scripts/packages/archive.sh $arm
    RUKH_FOR_PAGES=$rukh scripts/packages/archive.sh $windows
}

step_debs() {
    scripts/packages/deb.sh $linux
    scripts/packages/deb.sh $arm
}

step_source() {
    local source=rukh-$version-source.tar.gz
    git diff --quiet HEAD || echo "the source is that of the last commit, without the changes since" >&2
    git archive --prefix="rukh-$version/" --output="$results/$source" HEAD
    if [ -z "${RUKH_REPOSITORY:-}" ]; then
        echo "no recipes are made, as RUKH_REPOSITORY is not set" >&2
        return
    fi
    scripts/packages/recipes.sh "$RUKH_REPOSITORY" "$results/$source" \
        "$RUKH_REPOSITORY/releases/download/v$version/$source"
}

step_linux() {
    scripts/packages/try.sh "$archive-linux-x86_64.tar.gz" "$cross/bare-amd64"
    local root=$cross/debian-amd64
    cp "$results/rukh_$version-1_amd64.deb" "$root/root/rukh.deb"
    chroot "$root" dpkg --install /root/rukh.deb
    scripts/packages/try.sh /usr/games/rukh "$cross/bare-amd64"
    chroot "$root" dpkg --purge rukh
}

step_arm() {
    RUKH_TRY_LIGHT=1 scripts/packages/try.sh "$archive-linux-aarch64.tar.gz" "$cross/bare-arm64"
    RUKH_TRY_LIGHT=1 scripts/packages/try.sh "$results/rukh_$version-1_arm64.deb" "$cross/bare-arm64"
}

# In another folder than the source, whose network it would find.
step_windows() { (cd "$WINEPREFIX" && "$OLDPWD/scripts/packages/try.sh" "$archive-windows-x86_64.zip" "$cross/wine64"); }

step_wheels() {
    local target root=$cross/debian-python
    for target in $linux $arm $windows; do
        PYTHON=$cross/tools/bin/python3 scripts/packages/wheels.sh "$target"
    done
    # The bare Debian above has a Python that is too old for numpy's wheels.
    [ -d "$root" ] || debootstrap --variant=minbase --include=python3-venv bookworm "$root" "$(debian_mirror)" >"$root.log"
    "$cross/tools/bin/pip" download --quiet --only-binary :all: --python-version 3.11 --no-deps \
        --dest "$cross/python-packages" numpy
    "$cross/tools/bin/pip" wheel --quiet --no-deps --wheel-dir "$cross/python-packages" chess
    start_in "$root" "$cross/bare-python"
    scripts/packages/try_wheel.sh "$results"/rukh-*-manylinux*_x86_64.whl "$cross/python-packages" "$cross/bare-python"
}

step_sums() {
    cd "$results"
    local files
    files=$(find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | sort)
    xargs ls -l <<<"$files"
    xargs sha256sum <<<"$files" | tee SHA256SUMS
}

run_steps "tools archives debs source linux arm windows wheels sums" "$@"
