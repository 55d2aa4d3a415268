//! Our kernels on a device.

use super::super::error::{GpuError, Result};
use super::super::kernel_code::KernelCode;
use super::super::ptx::Ptx;
use super::hip::Device;
use super::stream::Stream;
use hip_runtime_sys as sys;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// The code of our kernels, loaded on a device.
pub(crate) struct Module {
    device: Device,
    code: Code,
}

enum Code {
    /// All kernels are in one object.
    Object(Arc<Loaded>),
    /// Each kernel is an object of its own, which is translated and loaded when the kernel is looked up.
    Ptx(Arc<Ptx>, Mutex<HashMap<String, Arc<Loaded>>>),
}

/// A loaded object.
struct Loaded {
    device: Device,
    raw: sys::hipModule_t,
}

// SAFETY: HIP's modules may be used from any thread.
unsafe impl Send for Loaded {}
// SAFETY: HIP's modules may be used from several threads at once.
unsafe impl Sync for Loaded {}

impl Loaded {
    /// Loads the object in `code`. `what` names it in the error message.
    fn new(device: Device, code: &[u8], what: &str) -> Result<Arc<Loaded>> {
        // HIP is not given the length. It reads the length from the ELF header, which has 64 bytes. If the code is no
        // ELF file, HIP may read it as text, so a zero byte is added.
        if code.len() < 64 {
            return Err(GpuError::Unsupported(format!("{what} is not a code object")));
        }
        let code = [code, &[0]].concat();
        let mut raw = null_mut();
        // SAFETY: HIP reads a code object and writes one pointer.
        let status = unsafe { (device.hip.hipModuleLoadData)(&mut raw, code.as_ptr().cast()) };
        device.check(status, || format!("hipModuleLoadData of {what}"))?;
        Ok(Arc::new(Loaded { device, raw }))
    }

    fn function(self: &Arc<Loaded>, name: &str) -> Result<Function> {
        let mut raw = null_mut();
        let text = CString::new(name).unwrap_or_default();
        // SAFETY: HIP reads a C string, which ends with a zero byte, and writes one pointer.
        let status = unsafe { (self.device.hip.hipModuleGetFunction)(&mut raw, self.raw, text.as_ptr()) };
        self.device.check(status, || format!("hipModuleGetFunction({name})"))?;
        Ok(Function { module: Arc::clone(self), raw, name: name.into() })
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if self.device.is_hung() {
            return;
        }
        // SAFETY: hipModuleLoadData made the module, and only this drop unloads it. A drop cannot report an error.
        let _ = unsafe { (self.device.hip.hipModuleUnload)(self.raw) };
    }
}

impl Module {
    /// Loads the kernels. Of PTX nothing is loaded until a kernel is looked up.
    pub(crate) fn load(device: Device, code: &KernelCode) -> Result<Arc<Module>> {
        let code = match code {
            KernelCode::Object(code, what) => Code::Object(Loaded::new(device, code, what)?),
            KernelCode::Ptx(ptx) => Code::Ptx(Arc::clone(ptx), Mutex::default()),
        };
        Ok(Arc::new(Module { device, code }))
    }

    /// Looks up a kernel by name.
    pub(crate) fn function(&self, name: &str) -> Result<Function> {
        match &self.code {
            Code::Object(object) => object.function(name),
            Code::Ptx(ptx, objects) => {
                let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(object) = objects.get(name) {
                    return object.function(name);
                }
                let code = ptx.code(name)?.ok_or_else(|| {
                    GpuError::Unsupported(format!("the card's kernels do not include {name}"))
                })?;
                let object = Loaded::new(self.device, &code, name)?;
                let function = object.function(name);
                objects.insert(name.to_owned(), object);
                function
            }
        }
    }

    /// Whether there is a kernel with this name. This translates nothing.
    pub(crate) fn has(&self, name: &str) -> bool {
        match &self.code {
            Code::Object(object) => object.function(name).is_ok(),
            Code::Ptx(ptx, _) => ptx.has(name),
        }
    }

    /// Keeps what has been translated for the next start.
    pub(crate) fn keep(&self) {
        if let Code::Ptx(ptx, _) = &self.code {
            ptx.keep();
        }
    }
}

/// A kernel of a module. It keeps the module loaded.
#[derive(Clone)]
pub(crate) struct Function {
    module: Arc<Loaded>,
    raw: sys::hipFunction_t,
    name: Arc<str>,
}

// SAFETY: a kernel belongs to a module, and HIP's modules may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: a kernel belongs to a module, and HIP's modules may be used from several threads at once.
unsafe impl Sync for Function {}

/// The size of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grid {
    /// The number of blocks in x and y.
    pub(crate) blocks: (u32, u32),
    /// The number of threads of a block, in x.
    pub(crate) threads: u32,
    /// The shared memory of a block, in bytes, beside what the kernel has by itself.
    pub(crate) shared_bytes: u32,
}

impl Grid {
    /// The same launch with so many bytes of shared memory for each block.
    pub(crate) fn with_shared_bytes(self, shared_bytes: u32) -> Grid {
        Grid { shared_bytes, ..self }
    }
}

impl Function {
    /// The kernel's name in its code object.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Enqueues a launch that passes one structure of arguments.
    ///
    /// # Safety
    /// `arguments` points to the structure that this kernel takes. Every address in it refers to memory that is as
    /// large as the kernel needs and that stays allocated until the stream has finished the launch.
    pub(super) unsafe fn launch(&self, stream: &Stream, grid: Grid, arguments: *const u8) -> Result<()> {
        let mut parameters = [arguments.cast_mut().cast::<c_void>()];
        let (x, y) = grid.blocks;
        // SAFETY: the caller guarantees the arguments; HIP copies them before it returns.
        let status = unsafe {
            (self.module.device.hip.hipModuleLaunchKernel)(
                self.raw,
                x,
                y,
                1,
                grid.threads,
                1,
                1,
                grid.shared_bytes,
                stream.raw,
                parameters.as_mut_ptr(),
                null_mut(),
            )
        };
        self.module.device.check(status, || {
            format!("hipModuleLaunchKernel({}, {x} x {y} blocks of {})", self.name, grid.threads)
        })
    }
}
