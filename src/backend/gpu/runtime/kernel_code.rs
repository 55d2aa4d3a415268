//! The code of our kernels as a device loads it.

use super::ptx::Ptx;
use rukh_base::cache_folder;
use std::sync::Arc;

/// The code of our kernels for a device.
#[derive(Clone)]
pub(crate) enum KernelCode {
    /// A code object, which has all kernels, and its name for error messages.
    Object(Arc<[u8]>, String),
    /// PTX, of which the driver translates each kernel when it is looked up.
    Ptx(Arc<Ptx>),
}

impl KernelCode {
    /// What the code is, for people.
    pub(crate) fn name(&self) -> String {
        match self {
            KernelCode::Object(_, what) => what.clone(),
            KernelCode::Ptx(ptx) => format!("PTX of {} kernels", ptx.len()),
        }
    }

    /// The size of the code in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            KernelCode::Object(code, _) => code.len(),
            KernelCode::Ptx(ptx) => ptx.bytes(),
        }
    }

    /// A number that differs for different kernels.
    pub(crate) fn digest(&self) -> u64 {
        match self {
            KernelCode::Object(code, _) => cache_folder::hash_of(code),
            KernelCode::Ptx(ptx) => ptx.digest(),
        }
    }
}
