#!/usr/bin/env bash
# Builds rukh.exe and its tests for Windows (x86_64-pc-windows-gnu) and runs them under Wine, on Debian or Ubuntu. What
# is missing (MinGW's linker, Wine, and a compiler where the installed one has no library for Windows) is fetched from
# Debian. Wine is not Windows: the workflow runs the same tests there.
#
# usage: scripts/checks/windows.sh [STEP ...]      without arguments, all steps but `long` run
#   build         rukh.exe, its tests, and the emulator of AMD cards and the stand-in for NVIDIA's driver as DLLs
#   unit          the unit tests and the signature
#   integration   the tests of the whole engine, without those of the GPU path
#   gpu           the tests of the GPU path, with the emulator under the names of ROCm's libraries, and the stand-in as
#                 `nvcuda.dll`
#   driver        every golden network, with the emulator as `amdhip64_7.dll` and no other library of ROCm
#   game          games with `amdhip64_7.dll`, and then `amdhip64_6.dll`, beside rukh.exe
#   nvidia        a search with the stand-in as `nvcuda.dll` in Windows' own folder
#   interrupt     Ctrl+C in a console
#   long          every golden network on a card of each family, at every batch size (an hour)
# scripts/checks/windows.txt names the tests that are left out, with the reasons.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/checks/steps.sh
. scripts/checks/cross.sh

target=x86_64-pc-windows-gnu
left_out=scripts/checks/windows.txt
built=$cross/$target/debug
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$cross/wine64

step_build() {
    make_wine
    use_compiler_for $target
    cargo test "${cargo_for_target[@]}" "${engine[@]}" --lib --test integration --test signature --no-run
}

step_unit() { tests --lib --test signature; }

step_integration() { tests --test integration -- --skip rocm --skip nvidia; }

step_gpu() { tests --test integration -- rocm nvidia; }

step_driver() { tests --test integration -- --ignored --exact rocm::own::every_network_needs_only_the_driver; }

step_long() { tests --test integration -- --ignored rocm::own::every_network_by_our_own_gemms; }

# The engine alone in a folder with the driver's DLL, as a user has it who has unpacked the archive.
step_game() {
    local version folder said
    for version in 7 6; do
        folder=$cross/game$version
        rm -rf "$folder"
        mkdir -p "$folder"
        cp "$built/rukh.exe" "$folder/"
        cp "$built/deps/rocm_emulator.dll" "$folder/amdhip64_$version.dll"
        cp tests/data/micro-smolgen.pb.gz "$folder/"
        said=$(cd "$folder" && LOCALAPPDATA=$folder "$cross/wine64" rukh.exe selfplay --games=2 --visits=3 \
            --parallelism=1 --weights=micro-smolgen.pb.gz --backend=rocm-fp16 \
            --backend-opts=max_batch=2,streams=1,wait=block --config= 2>&1 | tr -d '\r')
        grep -E '^tournamentstatus final|^2 games' <<<"$said" || { echo "$said" >&2; return 1; }
        if grep -iE 'error|warning|takes over|using cpu' <<<"$said" >&2; then
            echo "amdhip64_$version.dll alone is not enough" >&2
            return 1
        fi
        echo "two games with amdhip64_$version.dll alone"
    done
}

# NVIDIA's driver where its installer puts it, without a variable that names it. The stand-in runs no kernel: the engine
# must find the driver, notice wrong figures, and play with the processor.
step_nvidia() {
    local folder=$cross/nvidia driver=$WINEPREFIX/drive_c/windows/system32/nvcuda.dll said report
    rm -rf "$folder"
    mkdir -p "$folder"
    cp "$built/rukh.exe" tests/data/micro-attn.pb.gz "$folder/"
    cp "$built/deps/nvidia_stand_in.dll" "$driver"
    # Some builds of Wine have an `nvcuda.dll` of their own, which asks the driver of the machine.
    nvidia() {
        (cd "$folder" && env -u RUKH_CUDA_LIBRARY_PATH XDG_CACHE_HOME="$folder" \
            WINEDLLOVERRIDES="$WINEDLLOVERRIDES;nvcuda=n" "$cross/wine64" rukh.exe "$@" \
            --weights=micro-attn.pb.gz --config= --backend=cuda-fp16 \
            --backend-opts=max_batch=2,streams=1,tune=off,gemm=own 2>&1 | tr -d '\r')
    }
    said=$(printf 'isready\ngo nodes 12\nwait\nquit\n' | nvidia) || true
    nvidia doctor --quick --stage=devices --report=report >/dev/null || true
    # The other steps expect a machine without this driver.
    rm "$driver"
    report=$(cat "$folder/report.txt")
    grep -i 'system32.nvcuda\.dll' <<<"$report" || { echo "$report" >&2; return 1; }
    grep -o 'backend cuda-fp16: wrong figures.*; using cpu instead' <<<"$said" || { echo "$said" >&2; return 1; }
    grep '^bestmove' <<<"$said" || { echo "$said" >&2; return 1; }
}

# Ctrl+C reaches every program of a console. The small program below starts the engine and presses the keys.
step_interrupt() {
    cat >"$cross/interrupt.c" <<'END'
#include <stdio.h>
#include <windows.h>
/* Starts the command in the arguments' first place, presses Ctrl+C after some seconds, and returns its exit code. */
int main(int count, char **arguments)
{
    STARTUPINFOA startup = {sizeof startup};
    PROCESS_INFORMATION process;
    DWORD code = 99;
    if (count < 2 || !CreateProcessA(0, arguments[1], 0, 0, TRUE, 0, 0, 0, &startup, &process))
        return 98;
    Sleep(4000);
    SetConsoleCtrlHandler(0, TRUE);
    GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0);
    if (WaitForSingleObject(process.hProcess, 20000) != WAIT_OBJECT_0)
        TerminateProcess(process.hProcess, 97);
    WaitForSingleObject(process.hProcess, 5000);
    GetExitCodeProcess(process.hProcess, &code);
    return (int)code;
}
END
    x86_64-w64-mingw32-gcc -O1 -s "$cross/interrupt.c" -o "$cross/interrupt.exe"
    local said
    cp "$built/rukh.exe" "$cross/"
    # A tournament without an end stops, and prints the result so far. Wine has a console only in a terminal.
    said=$(cd "$cross" && script -qec "$cross/wine64 interrupt.exe \
        'rukh.exe selfplay --backend=trivial --visits=900000000 --ramlimit-mb=100 --config='" /dev/null </dev/null) ||
        { echo "$said" >&2; return 1; }
    grep -o 'interrupted after.*games' <<<"$said" || { echo "$said" >&2; return 1; }
}

STEPS_ON_REQUEST=long
run_steps "build unit integration gpu driver game nvidia interrupt" "$@"
