//! HIP's runtime as a table of functions in this program.
//!
//! | module | what |
//! |---|---|
//! | [`kernel`] | modules, kernels, launches |
//! | [`graph`] | stream capture and graphs |
//! | [`stream`] | streams, events, host functions |
//! | [`memory`] | allocations, copies, fills |
//! | [`device`] | a thread's device, and the devices' properties |
//! | [`call`] | the macro that defines functions of the interface |
//! | [`error`] | the last error, and the errors' names |

mod call;
mod device;
mod error;
mod graph;
mod kernel;
mod memory;
mod stream;

use crate::driver;
use hip_runtime_sys::loader::LoadError;
use hip_runtime_sys::{Functions, Hip};

/// HIP's functions over NVIDIA's driver. Loads the driver, and calls none of its functions: a machine without a card may
/// have the driver, too.
///
/// # Errors
/// The driver is not installed, or is too old and lacks functions. The error lists every file that was tried, with the
/// reason of its failure.
pub fn hip() -> Result<Hip, LoadError> {
    let loaded = driver::load().map_err(Clone::clone)?;
    let anchor = loaded.functions.cuInit as usize;
    Ok(Hip::of(FUNCTIONS, device::hipGetDevicePropertiesR0600, anchor))
}

const FUNCTIONS: Functions = Functions {
    hipInit: device::hipInit,
    hipDriverGetVersion: device::hipDriverGetVersion,
    hipRuntimeGetVersion: device::hipRuntimeGetVersion,
    hipDeviceGetName: device::hipDeviceGetName,
    hipDeviceGetPCIBusId: device::hipDeviceGetPCIBusId,
    hipDeviceTotalMem: device::hipDeviceTotalMem,
    hipDeviceSynchronize: device::hipDeviceSynchronize,
    hipSetDevice: device::hipSetDevice,
    hipGetDevice: device::hipGetDevice,
    hipGetDeviceCount: device::hipGetDeviceCount,
    hipDeviceGetAttribute: device::hipDeviceGetAttribute,
    hipGetLastError: error::hipGetLastError,
    hipPeekAtLastError: error::hipPeekAtLastError,
    hipGetErrorName: error::hipGetErrorName,
    hipGetErrorString: error::hipGetErrorString,
    hipStreamCreateWithFlags: stream::hipStreamCreateWithFlags,
    hipStreamCreateWithPriority: stream::hipStreamCreateWithPriority,
    hipDeviceGetStreamPriorityRange: device::hipDeviceGetStreamPriorityRange,
    hipStreamDestroy: stream::hipStreamDestroy,
    hipStreamQuery: stream::hipStreamQuery,
    hipStreamSynchronize: stream::hipStreamSynchronize,
    hipStreamWaitEvent: stream::hipStreamWaitEvent,
    hipEventCreateWithFlags: stream::hipEventCreateWithFlags,
    hipEventRecord: stream::hipEventRecord,
    hipEventDestroy: stream::hipEventDestroy,
    hipEventSynchronize: stream::hipEventSynchronize,
    hipEventElapsedTime: stream::hipEventElapsedTime,
    hipEventQuery: stream::hipEventQuery,
    hipMalloc: memory::hipMalloc,
    hipHostMalloc: memory::hipHostMalloc,
    hipHostGetDevicePointer: memory::hipHostGetDevicePointer,
    hipFree: memory::hipFree,
    hipHostFree: memory::hipHostFree,
    hipMemcpy: memory::hipMemcpy,
    hipMemcpyAsync: memory::hipMemcpyAsync,
    hipMemset: memory::hipMemset,
    hipMemsetAsync: memory::hipMemsetAsync,
    hipMemGetInfo: memory::hipMemGetInfo,
    hipModuleUnload: kernel::hipModuleUnload,
    hipModuleGetFunction: kernel::hipModuleGetFunction,
    hipFuncGetAttribute: kernel::hipFuncGetAttribute,
    hipModuleLoadData: kernel::hipModuleLoadData,
    hipModuleLaunchKernel: kernel::hipModuleLaunchKernel,
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessor:
        kernel::hipModuleOccupancyMaxActiveBlocksPerMultiprocessor,
    hipLaunchHostFunc: stream::hipLaunchHostFunc,
    hipStreamBeginCapture: graph::hipStreamBeginCapture,
    hipStreamEndCapture: graph::hipStreamEndCapture,
    hipStreamIsCapturing: graph::hipStreamIsCapturing,
    hipThreadExchangeStreamCaptureMode: graph::hipThreadExchangeStreamCaptureMode,
    hipGraphDestroy: graph::hipGraphDestroy,
    hipGraphGetNodes: graph::hipGraphGetNodes,
    hipGraphInstantiate: graph::hipGraphInstantiate,
    hipGraphLaunch: graph::hipGraphLaunch,
    hipGraphExecDestroy: graph::hipGraphExecDestroy,
};
