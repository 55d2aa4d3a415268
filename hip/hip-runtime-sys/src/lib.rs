//! Bindings to HIP ([`Hip`]) and to its run-time compiler hiprtc ([`Hiprtc`]).
//!
//! The libraries are loaded at run time: a build never needs ROCm, and on a machine without it loading returns an
//! error.
//!
//! The declarations in `bindings.rs` are those of HIP 6.4. From ROCm 5.7 to 7 every function in the tables has had the
//! same signature, and every structure but one the same layout. The exception is the structure of device properties,
//! whose layout changed in HIP 6. [`Hip::architecture`] reads both layouts; all other facts about a device come from
//! `hipDeviceGetAttribute`.
//!
//! This crate has only function addresses and types, and does not check how they are used. Each call is `unsafe`: the
//! caller must meet the conditions of HIP's documentation.
#![allow(unsafe_code, reason = "a table of C functions")]

pub mod loader;
pub mod runtime;
pub mod search;

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "generated from C headers"
)]
mod bindings;

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "generated from C headers"
)]
/// The declarations of hiprtc.
pub mod hiprtc_bindings;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::path::Path;

pub use bindings::*;
pub use libloading::Library;

use loader::{Candidates, LoadError};

/// The names of HIP's runtime library.
pub const HIP: Candidates = Candidates {
    library: "amdhip64",
    has_link: true,
    versions: &["8", "7", "6", "5"],
    windows: &["amdhip64_8.dll", "amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"],
};

/// The names of hiprtc, HIP's run-time compiler.
pub const HIPRTC: Candidates = Candidates {
    library: "hiprtc",
    has_link: true,
    versions: &["8", "7", "6", "5"],
    windows: &[
        "hiprtc####.dll",
        "hiprtc0702.dll",
        "hiprtc0701.dll",
        "hiprtc0700.dll",
        "hiprtc0604.dll",
        "hiprtc0603.dll",
        "hiprtc0602.dll",
        "hiprtc0601.dll",
        "hiprtc0600.dll",
        "hiprtc0507.dll",
        "hiprtc.dll",
    ],
};

/// For `hipModuleLaunchKernel`'s `extra`: the next entry is the address of the packed arguments.
pub const HIP_LAUNCH_PARAM_BUFFER_POINTER: *mut c_void = std::ptr::without_provenance_mut(1);
/// For `hipModuleLaunchKernel`'s `extra`: the next entry is the address of the arguments' length in bytes (`usize`).
pub const HIP_LAUNCH_PARAM_BUFFER_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);
/// Ends `hipModuleLaunchKernel`'s `extra`.
pub const HIP_LAUNCH_PARAM_END: *mut c_void = std::ptr::without_provenance_mut(3);

// HIP writes to these structures, so their sizes and offsets must be those that a C++ compiler computes from the
// headers.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(
        size_of::<hipDeviceProp_tR0600>() == 1472 && offset_of!(hipDeviceProp_tR0600, gcnArchName) == 1160
    );
    assert!(size_of::<hipDeviceProp_tR0000>() == 792 && offset_of!(hipDeviceProp_tR0000, gcnArchName) == 396);
};

/// HIP's functions.
#[derive(Clone, Copy, Debug)]
pub struct Hip {
    functions: Functions,
    properties: DeviceProperties,
    /// The address of a function of the library behind this table.
    anchor: usize,
}

/// The library's function for the device properties, which come in two layouts.
#[derive(Clone, Copy, Debug)]
enum DeviceProperties {
    /// HIP 6 and newer.
    Since6(unsafe extern "C" fn(*mut hipDeviceProp_tR0600, c_int) -> hipError_t),
    /// HIP 5. Newer libraries keep this function for programs that were built with HIP 5.
    Before6(unsafe extern "C" fn(*mut hipDeviceProp_tR0000, c_int) -> hipError_t),
}

impl DeviceProperties {
    fn resolve(library: &Library) -> Result<Self, Vec<&'static str>> {
        // SAFETY: both signatures are those of HIP's headers.
        if let Some(found) = unsafe { loader::function(library, "hipGetDevicePropertiesR0600") } {
            return Ok(Self::Since6(found));
        }
        // SAFETY: as above.
        let found = unsafe { loader::function(library, "hipGetDeviceProperties") };
        found.map(Self::Before6).ok_or_else(|| vec!["hipGetDevicePropertiesR0600", "hipGetDeviceProperties"])
    }
}

impl Deref for Hip {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

impl Hip {
    /// Loads HIP's runtime and calls none of its functions. A machine without a device may have the library, too.
    ///
    /// # Errors
    /// The error lists every file that was tried, with the reason of its failure.
    pub fn load() -> Result<Self, LoadError> {
        loader::load(&HIP, Self::resolve)
    }

    /// Loads the first of HIP's runtimes that is useful, or else the first one.
    ///
    /// # Errors
    /// The error lists every file that was tried, with the reason of its failure.
    pub fn load_useful(is_useful: impl Fn(&Self) -> bool) -> Result<Self, LoadError> {
        loader::load_useful(&HIP, loader::usual_places(), Self::resolve, is_useful)
    }

    /// Loads HIP's runtime from a folder, and from nowhere else.
    ///
    /// # Errors
    /// The error lists every file that was tried, with the reason of its failure.
    pub fn load_from(folder: &Path) -> Result<Self, LoadError> {
        loader::load_in(folder, &HIP, Self::resolve)
    }

    /// A runtime whose functions are in this program and call another library. `anchor` is the address of one of that
    /// library's functions.
    pub fn of(
        functions: Functions,
        properties: unsafe extern "C" fn(*mut hipDeviceProp_tR0600, c_int) -> hipError_t,
        anchor: usize,
    ) -> Self {
        Self { functions, properties: DeviceProperties::Since6(properties), anchor }
    }

    /// A number that tells the runtimes in this process apart: the address of a function of their library.
    pub fn address(&self) -> usize {
        self.anchor
    }

    fn resolve(library: &Library) -> Result<Self, Vec<&'static str>> {
        let functions = Functions::resolve(library)?;
        let anchor = functions.hipGetDeviceCount as usize;
        Ok(Self { functions, properties: DeviceProperties::resolve(library)?, anchor })
    }

    /// The device's architecture as the compiler names it, without target features, such as `gfx1100`.
    ///
    /// # Errors
    /// Fails with the error that HIP returns, for example if there is no such device.
    pub fn architecture(&self, device: i32) -> Result<String, hipError_t> {
        let name = match self.properties {
            DeviceProperties::Since6(get) => {
                let mut properties = MaybeUninit::<hipDeviceProp_tR0600>::zeroed();
                // SAFETY: the structure has the layout which this function fills in.
                check(unsafe { get(properties.as_mut_ptr(), device) })?;
                // SAFETY: all of its fields are numbers, for which zero is a value.
                unsafe { properties.assume_init() }.gcnArchName
            }
            DeviceProperties::Before6(get) => {
                let mut properties = MaybeUninit::<hipDeviceProp_tR0000>::zeroed();
                // SAFETY: the structure has the layout which this function fills in.
                check(unsafe { get(properties.as_mut_ptr(), device) })?;
                // SAFETY: all of its fields are numbers, for which zero is a value.
                unsafe { properties.assume_init() }.gcnArchName
            }
        };
        // `c_char` is `i8` on x86-64 and `u8` on ARM. Both can be turned into bytes.
        let text: Vec<u8> =
            name.iter().take_while(|&&c| c != 0).map(|&c| u8::from_ne_bytes(c.to_ne_bytes())).collect();
        let text = String::from_utf8_lossy(&text);
        Ok(text.split(':').next().unwrap_or_default().to_owned())
    }

    /// HIP's name, number and description of an error.
    pub fn describe(&self, error: hipError_t) -> String {
        // SAFETY: both functions take any number and return a static text or null.
        let name = text(unsafe { (self.hipGetErrorName)(error) });
        // SAFETY: as above.
        let sentence = text(unsafe { (self.hipGetErrorString)(error) });
        format!("{} ({error}): {}", name.unwrap_or("unknown error"), sentence.unwrap_or("no description"))
    }
}

fn check(error: hipError_t) -> Result<(), hipError_t> {
    if error == hipSuccess { Ok(()) } else { Err(error) }
}

/// Reads a static C string. `None` if the pointer is null or the string is not UTF-8.
fn text(pointer: *const c_char) -> Option<&'static str> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: HIP's texts end with zero and live as long as the library, which is never unloaded.
    unsafe { CStr::from_ptr(pointer) }.to_str().ok()
}

library! {
    /// The functions of hiprtc. They do not need a device.
    pub struct Hiprtc(hiprtc_bindings::Functions) from HIPRTC;
}
