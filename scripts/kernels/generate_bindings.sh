#!/usr/bin/env bash
# Generates the bindings in the crates hip/*-sys from ROCm's headers.
#
# usage: scripts/kernels/generate_bindings.sh INCLUDE_FOLDER [--check]
#        --check writes nothing, and fails if a file in the repository differs
#
# INCLUDE_FOLDER holds hip/, rocblas/, hipblaslt/ and hipblas-common/. It is /opt/rocm/include, or the folder into which
# `dpkg-deb -x` unpacks these packages of Debian sid (HIP 6.4, rocBLAS 4.4, hipBLASLt 1.1): libamdhip64-dev,
# librocblas-dev, libhipblaslt-dev, libhipblas-common-dev.
# Needs bindgen 0.73 (cargo install bindgen-cli) and libclang 19 or newer (LIBCLANG_PATH=/usr/lib/llvm-19/lib).
set -euo pipefail
cd "$(dirname "$0")/../.."

[ $# -ge 1 ] || { sed -n '4,5s/^# //p' "$0" >&2; exit 2; }
include=$1
check=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The functions that the engine calls. Each becomes a field of the crate's function table.
hip='hip(Init|DriverGetVersion|RuntimeGetVersion|GetDeviceCount|GetDevice|SetDevice|DeviceSynchronize'
hip+='|DeviceGetAttribute|DeviceGetName|DeviceTotalMem|DeviceGetPCIBusId|DeviceGetStreamPriorityRange'
hip+='|GetLastError|PeekAtLastError|GetErrorName|GetErrorString'
hip+='|MemGetInfo|Malloc|Free|HostMalloc|HostGetDevicePointer|HostFree|Memcpy|MemcpyAsync|Memset|MemsetAsync'
hip+='|Stream(CreateWithFlags|CreateWithPriority|Destroy|Synchronize|Query|WaitEvent|BeginCapture|EndCapture|IsCapturing)'
hip+='|ThreadExchangeStreamCaptureMode|LaunchHostFunc'
hip+='|Event(CreateWithFlags|Destroy|Record|Query|Synchronize|ElapsedTime)'
hip+='|Graph(Instantiate|Launch|Destroy|ExecDestroy|GetNodes)'
hip+='|Module(LoadData|Unload|GetFunction|LaunchKernel|OccupancyMaxActiveBlocksPerMultiprocessor)'
hip+='|FuncGetAttribute)'
hiprtc='hiprtc(Version|GetErrorString|CreateProgram|CompileProgram|DestroyProgram|GetCode|GetCodeSize|GetProgramLog|GetProgramLogSize)'
rocblas='rocblas_(create_handle|destroy_handle|set_stream|set_workspace|set_atomics_mode|set_pointer_mode'
rocblas+='|status_to_string|get_version_string|get_version_string_size|gemm_ex|gemm_strided_batched_ex)'
rocblas_beta='rocblas_gemm_(ex|strided_batched_ex)_get_solutions'
hipblaslt='hipblasLt(Create|Destroy|GetVersion|Matmul|MatmulAlgoGetHeuristic'
hipblaslt+='|Matmul(Desc|Preference)(Create|Destroy|SetAttribute)|MatrixLayout(Create|Destroy|SetAttribute))'

# generate OUTPUT HEADERS FUNCTIONS MACRO [bindgen option ...]
# bindgen writes one `extern` block, which becomes one call of MACRO: functions are looked up at run time, not linked.
generate() {
    local output=$1 headers=$2 functions=$3 macro=$4
    shift 4
    # shellcheck disable=SC2086
    printf '#include <%s>\n' $headers >"$work/input.hpp"
    bindgen "$work/input.hpp" --allowlist-function "$functions" --merge-extern-blocks --no-doc-comments \
        --no-prepend-enum-name --no-layout-tests --use-core --disable-header-comment --rust-target 1.85 --rust-edition 2024 --formatter none "$@" \
        -- -x c++ -std=c++17 -I"$include" -D__HIP_PLATFORM_AMD__ -DROCBLAS_BETA_FEATURES_API -Wno-deprecated-declarations >"$work/raw.rs"
    # rustfmt does not format the inside of a macro call, so it runs before the block becomes one.
    rustfmt --edition 2024 --config-path rustfmt.toml "$work/raw.rs"
    {
        echo '// Written by scripts/kernels/generate_bindings.sh from the ROCm headers: do not edit.'
        echo
        sed -E 's/^unsafe extern "C" \{/'"$macro"' {/' "$work/raw.rs"
    } >"$work/bindings.rs"
    if [ "$check" = --check ]; then
        diff -u "$output" "$work/bindings.rs"
    else
        cp "$work/bindings.rs" "$output"
    fi
}

version() { sed -nE "s/^#define $1 +([0-9]+) *$/\1/p" "$include/$2"; }
echo "HIP $(version HIP_VERSION_MAJOR hip/hip_version.h).$(version HIP_VERSION_MINOR hip/hip_version.h)," \
    "rocBLAS $(version ROCBLAS_VERSION_MAJOR rocblas/internal/rocblas-version.h).$(version ROCBLAS_VERSION_MINOR rocblas/internal/rocblas-version.h)," \
    "hipBLASLt $(version HIPBLASLT_VERSION_MAJOR hipblaslt/hipblaslt-version.h).$(version HIPBLASLT_VERSION_MINOR hipblaslt/hipblaslt-version.h)"

generate hip/hip-runtime-sys/src/bindings.rs 'hip/hip_runtime_api.h hip/hip_deprecated.h hip/library_types.h' "$hip" 'crate::function_table!' \
    --allowlist-type 'hipDeviceProp_tR0[06]00|hipDataType' \
    --allowlist-var 'hip(Host|Stream|Event)[A-Z][A-Za-z]*' \
    --blocklist-type hipDeviceArch_t --raw-line '/// Seventeen flags of one bit.' --raw-line 'pub type hipDeviceArch_t = u32;'
generate hip/hip-runtime-sys/src/hiprtc_bindings.rs hip/hiprtc.h "$hiprtc" 'crate::function_table!'
# The handles and types of HIP come from the HIP crate.
generate hip/rocblas-sys/src/bindings.rs rocblas/rocblas.h "$rocblas" 'hip_runtime_sys::function_table!' \
    --allowlist-type 'rocblas_gemm_flags_' \
    --blocklist-type '_*(hip|ihip).*' --raw-line 'use hip_runtime_sys::*;'
# A library may lack these, so they have a table of their own, with the types of the other one.
generate hip/rocblas-sys/src/beta_bindings.rs rocblas/rocblas.h "$rocblas_beta" 'hip_runtime_sys::function_table!' \
    --blocklist-type '.*' --raw-line 'use crate::bindings::*;'
generate hip/hipblaslt-sys/src/bindings.rs hipblaslt/hipblaslt.h "$hipblaslt" 'hip_runtime_sys::function_table!' \
    --allowlist-type 'hipblasOperation_t|hipblasLt(Epilogue|MatrixLayoutAttribute|PointerMode|MatmulDescAttributes|MatmulPreferenceAttributes|Order)_t' \
    --blocklist-type '_*(hip[A-Z]|ihip).*' --raw-line 'use hip_runtime_sys::*;'
