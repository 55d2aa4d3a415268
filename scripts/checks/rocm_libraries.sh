#!/usr/bin/env bash
# Runs the ROCm backend with AMD's own rocBLAS, hipBLASLt and hiprtc, as Debian packages them, on a machine without a
# GPU: only the driver's library is the emulator (hip/shims/emulator), which then runs AMD's kernels beside ours.
#
# usage: scripts/checks/rocm_libraries.sh [step ...]      without arguments, all steps run
#   fetch      downloads Debian sid's packages with apt (510 MB) and unpacks what is needed into target/rocm (1.6 GB);
#              nothing is installed, and apt's own lists are left alone
#   build      the emulator and the tests
#   hiprtc     compiles the kernels for every architecture as the engine does at run time, then runs the tests of the
#              kernels on the code objects for gfx1100 and gfx1151
#   gfx1150    compares every network with lc0's figures in fp16 on gfx1150, where hipBLASLt multiplies
#   refusal    runs the engine on gfx1150, where rocBLAS would end the process, and on gfx1200, which neither library
#              supports: it must name the reason and still answer with a bestmove
#   hipblaslt  compares every network with lc0's figures in fp16 and bf16 on gfx1151, where hipBLASLt multiplies
#   rocblas    does the same in fp32, fp16 and bf16 on gfx1100, where rocBLAS multiplies
# Needs Debian on x86-64, or another system with apt and the keyring of Debian's archive if DEBIAN_MIRROR is the address
# of a mirror. The steps that run tests take 20 minutes on two cores in all.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/checks/steps.sh
root=$PWD/target/rocm
debian=$root/root/usr/lib/x86_64-linux-gnu
profile=${PROFILE:-quick}
built=$PWD/target/$profile/deps

step_fetch() {
    mkdir -p "$root"/apt/{lists,cache/archives}/partial "$root/root"
    # The mirror in DEBIAN_MIRROR, or the one that this machine uses.
    # shellcheck disable=SC2016  # apt-get expands REPO_URI
    local mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' | head -n 1)}
    if [ -z "$mirror" ]; then
        echo "no Debian mirror was found: set DEBIAN_MIRROR" >&2
        return 1
    fi
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$root/apt/sources.list"
    cat >"$root/apt/apt.conf" <<END
Dir::Etc::SourceList "$root/apt/sources.list";
Dir::Etc::SourceParts "-";
Dir::State "$root/apt";
Dir::State::Lists "$root/apt/lists";
Dir::State::status "/dev/null";
Dir::Cache "$root/apt/cache";
Debug::NoLocking "true";
END
    export APT_CONFIG=$root/apt/apt.conf
    apt-get update
    apt-get install --download-only --yes --no-install-recommends libhipblaslt1 librocblas4 libhiprtc6
    local package
    for package in "$root"/apt/cache/archives/*.deb; do
        # Leaves out the kernels for cards that the emulator does not support.
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root/root" --exclude=./usr/share --exclude='*gfx8*' \
            --exclude='*gfx9*' --exclude='*gfx10*' --exclude='*gfx1101*' --exclude='*gfx1102*' --exclude='*gfx12*'
    done
    apt-cache show --no-all-versions libhipblaslt1 librocblas4 libhiprtc6 libc6 | grep -E '^(Package|Version):' |
        paste -d' ' - - | tee "$root/versions"
}

# Builds tests, and makes a link with the target's name to each test program. Cargo's messages tell the tests apart from
# the engine, which lies in the same folder with the same name.
build_tests() {
    local path name
    cargo test --profile "$profile" --no-run --message-format=json-render-diagnostics "$@" |
        sed -n 's/.*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*/\1/p' |
        while read -r path; do
            name=${path##*/}
            ln -s "$path" "$root/programs/${name%-*}"
        done
}

step_build() {
    rm -rf "$root/programs" "$root/libraries"
    mkdir -p "$root/programs" "$root/libraries"
    build_tests --package rukh-gpu --lib
    build_tests --package rukh --test integration
    build_tests -p rocm-emulator --test emulator
    local name
    for name in libamdhip64.so libamdhip64.so.6; do
        ln -s "$built/librocm_emulator.so" "$root/libraries/$name"
    done
    for name in librocblas.so.4 libhipblaslt.so.1 libhiprtc.so.6; do
        ln -s "$debian/$name" "$root/libraries/${name%.*}"
    done
}

# Runs a program with the C library of Debian sid: AMD's libraries need a newer one than many machines have.
with_libraries() {
    env RUKH_ROCM_LIBRARY_PATH="$root/libraries" HIPBLASLT_TENSILE_LIBPATH="$debian/hipblaslt/library" \
        ROCBLAS_TENSILE_LIBPATH="$(echo "$debian"/rocblas/*/library)" \
        "$root/root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/libraries:$debian" "$@"
}

# network_test ARCHITECTURE TEST: runs one of the tests of networks on an emulated GPU of that architecture.
network_test() {
    RUKH_EMULATOR_ARCH=$1 RUKH_TEST_ON_EMULATOR=1 with_libraries "$root/programs/integration" --exact "rocm::$2" \
        --nocapture --test-threads=1
}

step_hiprtc() {
    mkdir -p "$root/objects"
    RUKH_TEST_OBJECTS=$root/objects with_libraries "$root/programs/rukh_gpu" --ignored --nocapture \
        --exact runtime::code_objects::tests::hiprtc_compiles_for_every_architecture
    local architecture
    for architecture in gfx1100 gfx1151; do
        RUKH_EMULATOR_ARCH=$architecture RUKH_EMULATOR_OBJECTS=$root/objects "$root/programs/emulator" kernels::
    done
}

step_gfx1150() {
    XDG_CACHE_HOME=$root/cache network_test gfx1150 every_network_stays_near_lc0_in_fp16
}

step_refusal() {
    local architecture said
    for architecture in gfx1150 gfx1200; do
        said=$(printf 'isready\ngo nodes 4\nwait\nquit\n' | RUKH_EMULATOR_ARCH=$architecture XDG_CACHE_HOME=$root/cache \
            with_libraries "target/$profile/rukh" --weights=tests/data/micro-attn.pb.gz -o max_batch=1,warm_up=false)
        grep "rocBLAS has no kernels for $architecture" <<<"$said"
        grep bestmove <<<"$said"
    done
}

step_hipblaslt() {
    network_test gfx1151 every_network_stays_near_lc0_in_fp16
    network_test gfx1151 every_network_stays_near_lc0_in_bf16
}

step_rocblas() {
    network_test gfx1100 every_network_agrees_with_lc0_in_fp32
    network_test gfx1100 every_network_stays_near_lc0_in_fp16
    network_test gfx1100 every_network_stays_near_lc0_in_bf16
    network_test gfx1100 value_error::the_error_follows_from_lc0s_win_draw_and_loss
}

run_steps "fetch build hiprtc gfx1150 refusal hipblaslt rocblas" "$@"
