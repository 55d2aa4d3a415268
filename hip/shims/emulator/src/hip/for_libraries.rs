//! The functions of HIP that AMD's own rocBLAS and hipBLASLt call and the engine does not. With them, those libraries
//! run on the emulator (`scripts/checks/rocm_libraries.sh`). The bindings lack these functions, so their signatures are
//! written here as in HIP 6.4.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;

use hip_runtime_sys::{
    hipError_t, hipErrorInvalidHandle, hipErrorInvalidValue, hipErrorNotFound, hipEvent_t, hipFunction_t,
    hipMemcpyKind, hipModule_t, hipStream_t, hipSuccess,
};

use super::call::{unchecked_api, write_result};
use super::kernel::{hipModuleGetFunction, hipModuleLaunchKernel, hipModuleLoadData};
use super::memory::{hipFree, hipMalloc};
use super::stream::{hipEventRecord, stream_of};
use super::transfer::copy;
use crate::c_interface::text;
use crate::calls::report;
use crate::memory::{self, Place};
use crate::sync::lock;

/// HIP's `dim3`: work items or workgroups in each dimension.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dimensions {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

/// HIP's `hipPointerAttribute_t`: the result of `hipPointerGetAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PointerAttributes {
    kind: c_int,
    device: c_int,
    device_pointer: *mut c_void,
    host_pointer: *mut c_void,
    is_managed: c_int,
    flags: c_uint,
}

// The numbers of `hipMemoryTypeUnregistered`, `hipMemoryTypeHost` and `hipMemoryTypeDevice`.
const MEMORY_UNREGISTERED: c_int = 0;
const MEMORY_HOST: c_int = 1;
const MEMORY_DEVICE: c_int = 2;

/// The structure that a C++ compiler puts into a program with kernels. It has a magic number, a version, and the
/// address of the bundle of kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FatBinary {
    mark: u32,
    version: u32,
    bundle: *const c_void,
    reserved: *const c_void,
}

const FAT_BINARY_MARK: u32 = 0x4849_5046;

/// The kernels of C++ programs.
#[derive(Default)]
struct Registered {
    /// Maps a bundle's handle to the bundle's address, and to its module once it is loaded.
    bundles: BTreeMap<usize, (usize, Option<usize>)>,
    /// Maps the address of the host function that stands for a kernel to the bundle's handle and the kernel's name.
    kernels: BTreeMap<usize, (usize, String)>,
}

static REGISTERED: Mutex<Option<Registered>> = Mutex::new(None);

thread_local! {
    /// The grid, block, LDS bytes and stream of the launch that the compiled code will make next.
    static NEXT_LAUNCH: std::cell::Cell<Option<(Dimensions, Dimensions, usize, hipStream_t)>> =
        const { std::cell::Cell::new(None) };
}

/// Turns the status of another function of the interface into a `Result`.
fn passed(status: hipError_t) -> Result<(), hipError_t> {
    if status == hipSuccess { Ok(()) } else { Err(status) }
}

unchecked_api! {
    fn hipMallocAsync(address: *mut *mut c_void, bytes: usize, stream: hipStream_t) {
        stream_of(stream)?;
        // SAFETY: the caller passes a valid pointer.
        passed(unsafe { hipMalloc(address, bytes) })
    }

    fn hipFreeAsync(address: *mut c_void, stream: hipStream_t) {
        stream_of(stream)?.synchronize()?;
        // SAFETY: the caller passes a valid address.
        passed(unsafe { hipFree(address) })
    }

    fn hipDeviceGetDefaultMemPool(pool: *mut *mut c_void, _device: c_int) {
        // SAFETY: the caller passes a valid pointer. The emulator has no memory pools and never uses the handle.
        unsafe { write_result(pool, std::ptr::without_provenance_mut(1)) }
    }

    fn hipMemPoolTrimTo(_pool: *mut c_void, _bytes: usize) { Ok(()) }

    fn hipMemcpy2D(
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize, kind: hipMemcpyKind,
    ) {
        let stream = std::ptr::null_mut();
        // SAFETY: the caller passes valid pointers.
        passed(unsafe { hipMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, stream) })?;
        stream_of(stream)?.synchronize()
    }

    fn hipMemcpy2DAsync(
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize,
        kind: hipMemcpyKind, stream: hipStream_t,
    ) {
        let stream = stream_of(stream)?;
        for row in 0..height {
            let (to, from) = (to.wrapping_byte_add(row * to_pitch), from.wrapping_byte_add(row * from_pitch));
            stream.submit(copy(to, from, width, kind)?)?;
        }
        // The host's memory may be pageable, and the caller may change it as soon as this function returns.
        if stream.capture_state().is_some() { Ok(()) } else { stream.synchronize() }
    }

    fn hipPointerGetAttributes(attributes: *mut PointerAttributes, address: *const c_void) {
        let (kind, device) = match memory::find(address.addr() as u64) {
            Some((_, _, Place::Device(device) | Place::Code(device))) => (MEMORY_DEVICE, device),
            Some((_, _, Place::Pinned)) => (MEMORY_HOST, 0),
            None => (MEMORY_UNREGISTERED, -2),
        };
        let address = address.cast_mut();
        let host = if kind == MEMORY_DEVICE { std::ptr::null_mut() } else { address };
        let made = PointerAttributes {
            kind, device, device_pointer: address, host_pointer: host, is_managed: 0, flags: 0,
        };
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(attributes, made) }
    }

    fn hipModuleLoad(module: *mut hipModule_t, path: *const c_char) {
        if path.is_null() {
            return Err(hipErrorInvalidValue);
        }
        // SAFETY: the caller passes a valid text.
        let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
        let file = std::fs::read(&*path).map_err(|_| hip_runtime_sys::hipErrorFileNotFound)?;
        // SAFETY: the image is a whole file.
        passed(unsafe { hipModuleLoadData(module, file.as_ptr().cast()) })
    }

    fn hipExtModuleLaunchKernel(
        function: hipFunction_t, items_x: u32, items_y: u32, items_z: u32, block_x: u32, block_y: u32, block_z: u32,
        lds_bytes: usize, stream: hipStream_t, parameters: *mut *mut c_void, extra: *mut *mut c_void, start: hipEvent_t,
        stop: hipEvent_t, _flags: u32,
    ) {
        // This function counts the grid in work items.
        let groups = |items: u32, block: u32| {
            (block > 0 && items.is_multiple_of(block)).then(|| items / block).ok_or(hipErrorInvalidValue)
        };
        let grid = (groups(items_x, block_x)?, groups(items_y, block_y)?, groups(items_z, block_z)?);
        let lds_bytes = u32::try_from(lds_bytes).map_err(|_| hipErrorInvalidValue)?;
        if !start.is_null() {
            // SAFETY: the caller passes valid handles.
            passed(unsafe { hipEventRecord(start, stream) })?;
        }
        // SAFETY: the caller passes valid arguments.
        passed(unsafe {
            hipModuleLaunchKernel(
                function, grid.0, grid.1, grid.2, block_x, block_y, block_z, lds_bytes, stream, parameters, extra,
            )
        })?;
        if stop.is_null() {
            return Ok(());
        }
        // SAFETY: the caller passes valid handles.
        passed(unsafe { hipEventRecord(stop, stream) })
    }

    fn hipLaunchKernel(
        host: *const c_void, grid: Dimensions, block: Dimensions, parameters: *mut *mut c_void, lds_bytes: usize,
        stream: hipStream_t,
    ) {
        let function = registered(host)?;
        let lds_bytes = u32::try_from(lds_bytes).map_err(|_| hipErrorInvalidValue)?;
        // SAFETY: the caller passes valid arguments.
        passed(unsafe {
            hipModuleLaunchKernel(
                function, grid.x, grid.y, grid.z, block.x, block.y, block.z, lds_bytes, stream, parameters,
                std::ptr::null_mut(),
            )
        })
    }

    fn __hipPushCallConfiguration(grid: Dimensions, block: Dimensions, lds_bytes: usize, stream: hipStream_t) {
        NEXT_LAUNCH.set(Some((grid, block, lds_bytes, stream)));
        Ok(())
    }

    fn __hipPopCallConfiguration(
        grid: *mut Dimensions, block: *mut Dimensions, lds_bytes: *mut usize, stream: *mut hipStream_t,
    ) {
        let next = NEXT_LAUNCH.take().ok_or(hipErrorInvalidValue)?;
        // SAFETY: the caller passes valid pointers.
        unsafe {
            write_result(grid, next.0)?;
            write_result(block, next.1)?;
            write_result(lds_bytes, next.2)?;
            write_result(stream, next.3)
        }
    }
}

/// Finds a kernel by the address of the host function that stands for it. The bundle is loaded when its first kernel is
/// looked up.
fn registered(host: *const c_void) -> Result<hipFunction_t, hipError_t> {
    let mut registered = lock(&REGISTERED);
    let registered = registered.get_or_insert_default();
    let (handle, name) = registered.kernels.get(&host.addr()).ok_or(hipErrorNotFound)?;
    let (bundle, module) = registered.bundles.get_mut(handle).ok_or(hipErrorInvalidHandle)?;
    let module = match module {
        Some(module) => *module,
        None => {
            let mut loaded: hipModule_t = std::ptr::null_mut();
            let image = std::ptr::with_exposed_provenance(*bundle);
            // SAFETY: the compiler has registered a whole bundle, which lives as long as its library.
            passed(unsafe { hipModuleLoadData(&mut loaded, image) })?;
            *module.insert(loaded.addr())
        }
    };
    let name = std::ffi::CString::new(name.as_str()).map_err(|_| hipErrorInvalidValue)?;
    let mut function = std::ptr::null_mut();
    let module = std::ptr::without_provenance_mut(module);
    // SAFETY: the module is loaded, and the name ends with zero.
    passed(unsafe { hipModuleGetFunction(&mut function, module, name.as_ptr()) })?;
    Ok(function)
}

/// HIP's function of this name. A library's initialisers call it to register the library's bundle of kernels. Returns a
/// handle.
///
/// # Safety
/// The pointer is null or points to the compiler's structure.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterFatBinary(binary: *const FatBinary) -> *mut *mut c_void {
    if binary.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: as the caller promises.
    let FatBinary { mark, bundle, .. } = unsafe { binary.read() };
    if mark != FAT_BINARY_MARK {
        report("a bundle of kernels lacks its magic number");
        return std::ptr::null_mut();
    }
    let handle = binary.addr();
    let bundle = bundle.expose_provenance();
    lock(&REGISTERED).get_or_insert_default().bundles.insert(handle, (bundle, None));
    std::ptr::without_provenance_mut(handle)
}

/// HIP's function of this name. A library's initialisers call it to register one kernel of a bundle.
///
/// # Safety
/// The name is a text that ends with a zero byte.
#[allow(non_snake_case, reason = "HIP's name")]
#[allow(clippy::too_many_arguments, reason = "HIP's signature")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterFunction(
    binary: *mut *mut c_void,
    host: *const c_void,
    _device_function: *mut c_char,
    name: *const c_char,
    _thread_limit: c_uint,
    _thread: *mut c_void,
    _block: *mut c_void,
    _block_size: *mut c_void,
    _grid_size: *mut c_void,
    _wave_size: *mut c_int,
) {
    // SAFETY: as the caller promises.
    let Some(name) = (unsafe { text(name) }) else { return };
    let mut registered = lock(&REGISTERED);
    registered.get_or_insert_default().kernels.insert(host.addr(), (binary.addr(), name.to_owned()));
}

/// HIP's function of this name. A library calls it when it is unloaded. The function does nothing, because a library is
/// unloaded only when the process ends.
///
/// # Safety
/// Every argument is allowed, because the function does nothing.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipUnregisterFatBinary(_binary: *mut *mut c_void) {}
