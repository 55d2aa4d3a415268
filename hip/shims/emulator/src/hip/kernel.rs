//! Modules, kernels, and launches.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex};

use hip_runtime_sys::{
    hipError_t, hipErrorInvalidHandle, hipErrorInvalidImage, hipErrorInvalidValue, hipErrorLaunchFailure,
    hipErrorNoBinaryForGpu, hipErrorNotFound, hipErrorNotSupported, hipFunction_attribute, hipFunction_t,
    hipModule_t, hipStream_t,
};

use super::arguments::{arguments_of, hidden_arguments};
use super::call::{api, pointer, write_result};
use super::device::{current_card, current_device};
use super::stream::stream_of;
use crate::c_interface::text;
use crate::calls::report;
use crate::code_object::{Kernel, LoadError, Module};
use crate::handles::Handles;
use crate::image::code_of;
use crate::launch::{Launch, MAX_LDS_BYTES};
use crate::settings::settings;
use crate::stream::{AFTER_KERNEL, Failure};
use crate::sync::lock;

static MODULES: Handles<Loaded> = Handles::new();
static FUNCTIONS: Handles<Function> = Handles::new();

/// A module, its device, and the handles of the kernels that have been looked up.
struct Loaded {
    module: Arc<Module>,
    device: i32,
    functions: Mutex<BTreeMap<String, usize>>,
}

struct Function {
    module: Arc<Module>,
    kernel: Arc<Kernel>,
    device: i32,
}

api! {
    fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) {
        if module.is_null() || image.is_null() {
            return Err(hipErrorInvalidValue);
        }
        let device = current_device()?;
        if !crate::isa::available() {
            report("this machine lacks the vector instructions (AVX2, FMA, F16C) that the emulator needs");
            return Err(hipErrorNotSupported);
        }
        // SAFETY: the caller passes a pointer to a whole image.
        let file = unsafe { code_of(image.cast(), &current_card().architecture) }?;
        let loaded = Module::load(&file, &current_card().architecture, device).map_err(|error| image_error(&error))?;
        let loaded = Loaded { module: Arc::new(loaded), device, functions: Mutex::default() };
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(module, pointer(MODULES.add(Arc::new(loaded)))) }
    }

    fn hipModuleUnload(module: hipModule_t) {
        let module = MODULES.remove(module.addr()).ok_or(hipErrorInvalidHandle)?;
        for &function in lock(&module.functions).values() {
            FUNCTIONS.remove(function);
        }
        Ok(())
    }

    fn hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char) {
        let loaded = MODULES.get(module.addr()).ok_or(hipErrorInvalidHandle)?;
        // SAFETY: the caller passes null or a string that ends with a zero byte.
        let name = unsafe { text(name) }.ok_or(hipErrorInvalidValue)?;
        let kernel = loaded.module.kernels.get(name).ok_or(hipErrorNotFound)?.as_ref().map_err(image_error)?;
        let mut functions = lock(&loaded.functions);
        let handle = *functions.entry(name.to_owned()).or_insert_with(|| {
            FUNCTIONS.add(Arc::new(Function {
                module: Arc::clone(&loaded.module),
                kernel: Arc::clone(kernel),
                device: loaded.device,
            }))
        });
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(function, pointer(handle)) }
    }

    fn hipFuncGetAttribute(value: *mut c_int, attribute: hipFunction_attribute, function: hipFunction_t) {
        let kernel = Arc::clone(&FUNCTIONS.get(function.addr()).ok_or(hipErrorInvalidHandle)?.kernel);
        let found = match attribute {
            hip_runtime_sys::HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => kernel.max_threads as c_int,
            hip_runtime_sys::HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => kernel.lds_bytes as c_int,
            hip_runtime_sys::HIP_FUNC_ATTRIBUTE_NUM_REGS => kernel.vector_registers as c_int,
            hip_runtime_sys::HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES
            | hip_runtime_sys::HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES => 0,
            hip_runtime_sys::HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                (MAX_LDS_BYTES - kernel.lds_bytes) as c_int
            }
            _ => return Err(hipErrorInvalidValue),
        };
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(value, found) }
    }

    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: hipFunction_t, threads: c_int, lds_bytes: usize,
    ) {
        let kernel = Arc::clone(&FUNCTIONS.get(function.addr()).ok_or(hipErrorInvalidHandle)?.kernel);
        // Half of a workgroup processor has 64 KiB of LDS and two SIMDs. Each SIMD has 1536 registers and holds up to
        // 16 waves.
        let waves = (threads.max(1) as usize).div_ceil(32);
        let by_registers = 2 * (1536 / kernel.vector_registers.next_multiple_of(24).max(24)).min(16) / waves;
        let by_lds = MAX_LDS_BYTES as usize / (kernel.lds_bytes as usize + lds_bytes).max(1);
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(blocks, by_registers.min(by_lds) as c_int) }
    }

    fn hipModuleLaunchKernel(
        function: hipFunction_t, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, lds_bytes: c_uint, stream: hipStream_t, parameters: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let function = FUNCTIONS.get(function.addr()).ok_or(hipErrorInvalidHandle)?;
        let stream = stream_of(stream)?;
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let threads = block.iter().map(|&count| u64::from(count)).product::<u64>();
        let items = grid.iter().zip(block).all(|(&groups, items)| u64::from(groups) * u64::from(items) < 1 << 32);
        let kernel = &function.kernel;
        if grid.contains(&0) || threads == 0 || threads > u64::from(kernel.max_threads) || !items {
            report(&format!("kernel {}: invalid grid {grid:?} or block {block:?}", kernel.name));
            return Err(hip_runtime_sys::hipErrorInvalidConfiguration);
        }
        if lds_bytes > MAX_LDS_BYTES - kernel.lds_bytes || stream.device != function.device {
            return Err(hipErrorInvalidValue);
        }
        // SAFETY: the caller passes the arguments that the kernel takes.
        let mut arguments = unsafe { arguments_of(kernel, parameters, extra) }?;
        hidden_arguments(kernel, &mut arguments, grid, block, lds_bytes);
        let words = arguments.chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(word)
        });
        let launch = Launch {
            module: Arc::clone(&function.module),
            kernel: Arc::clone(kernel),
            grid,
            block,
            dynamic_lds_bytes: lds_bytes,
            arguments: words.collect(),
            device: function.device,
        };
        if settings().is_wrong(&kernel.name) || settings().is_wrong("kernels") {
            return stream.submit(Arc::new(|| Ok(())));
        }
        stream.submit(Arc::new(move || {
            AFTER_KERNEL.set(true);
            launch.run().map_err(|message| Failure { code: hipErrorLaunchFailure, message })
        }))
    }
}

/// Reports why code cannot be loaded, and returns HIP's error for it.
fn image_error(error: &LoadError) -> hipError_t {
    match error {
        LoadError::OtherArchitecture(name) => {
            report(&format!(
                "the code object is for {name}, but the card is {}",
                current_card().architecture
            ));
            hipErrorNoBinaryForGpu
        }
        LoadError::Invalid(message) => {
            report(&format!("cannot use the code object: {message}"));
            hipErrorInvalidImage
        }
    }
}
