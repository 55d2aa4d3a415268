//! Code objects on a device, and their kernels.

use super::super::error::{GpuError, Result};
use super::hip::Device;
use super::stream::Stream;
use hip_runtime_sys as sys;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// A loaded code object.
pub(crate) struct Module {
    device: Device,
    raw: sys::hipModule_t,
}

// SAFETY: HIP's modules may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: HIP's modules may be used from several threads at once.
unsafe impl Sync for Module {}

impl Module {
    /// Loads the code object in `code`. `what` names it in the error message.
    pub(crate) fn load(device: Device, code: &[u8], what: &str) -> Result<Arc<Module>> {
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
        Ok(Arc::new(Module { device, raw }))
    }

    /// Looks up a kernel by name.
    pub(crate) fn function(self: &Arc<Module>, name: &str) -> Result<Function> {
        let mut raw = null_mut();
        let text = CString::new(name).unwrap_or_default();
        // SAFETY: HIP reads a C string, which ends with a zero byte, and writes one pointer.
        let status = unsafe { (self.device.hip.hipModuleGetFunction)(&mut raw, self.raw, text.as_ptr()) };
        self.device.check(status, || format!("hipModuleGetFunction({name})"))?;
        Ok(Function { module: Arc::clone(self), raw, name: name.into() })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.device.is_hung() {
            return;
        }
        // SAFETY: hipModuleLoadData made the module, and only this drop unloads it. A drop cannot report an error.
        let _ = unsafe { (self.device.hip.hipModuleUnload)(self.raw) };
    }
}

/// A kernel of a module. It keeps the module loaded.
#[derive(Clone)]
pub(crate) struct Function {
    module: Arc<Module>,
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
                0,
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
