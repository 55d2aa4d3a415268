//! Tests of the emulator. They load it from a folder by the libraries' names and call it through the bindings, as the
//! engine does.
#![allow(unsafe_code, reason = "calls C interfaces")]
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "a sequence of C calls is one step of a test")]

mod blas;
mod device;
mod kernels;
mod speed;
mod waits;

use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use hip_runtime_sys::{self as hip, Hip, hipFunction_t, hipModule_t, hipStream_t};
use hipblaslt_sys::HipblasLt;
use rocblas_sys::Rocblas;
use rocm_emulator::install::file_name;

/// The emulator's libraries, loaded from a temporary folder.
pub(crate) struct Libraries {
    pub(crate) folder: PathBuf,
    pub(crate) hip: Hip,
    pub(crate) rocblas: Rocblas,
    pub(crate) hipblaslt: HipblasLt,
    /// A handle for the functions that only the emulator has, such as `rocm_emulator_fault`.
    pub(crate) control: libloading::Library,
}

/// Loads the libraries once. Only one test at a time uses them, because injected failures affect the whole process.
pub(crate) fn libraries() -> (&'static Libraries, MutexGuard<'static, ()>) {
    static LIBRARIES: OnceLock<Libraries> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let libraries = LIBRARIES.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap().keep();
        rocm_emulator::install::install(&folder).unwrap();
        // SAFETY: it is the emulator's library.
        let control = unsafe { libloading::Library::new(folder.join(file_name("amdhip64"))) }.unwrap();
        Libraries {
            hip: Hip::load_from(&folder).unwrap(),
            rocblas: Rocblas::load_from(&folder).unwrap(),
            hipblaslt: HipblasLt::load_from(&folder).unwrap(),
            control,
            folder,
        }
    });
    (libraries, turn)
}

impl Libraries {
    pub(crate) fn check(&self, status: hip::hipError_t) {
        assert_eq!(status, hip::hipSuccess, "{}: {}", self.hip.describe(status), self.fault());
    }

    /// The emulator's last report of an error, or an empty text.
    pub(crate) fn fault(&self) -> String {
        type Fault = unsafe extern "C" fn(*mut std::ffi::c_char, usize) -> usize;
        // SAFETY: the function has this signature.
        let fault = unsafe { self.control.get::<Fault>("rocm_emulator_fault") }.unwrap();
        let mut buffer = [0; 1000];
        // SAFETY: the buffer has the length that is passed.
        unsafe { fault(buffer.as_mut_ptr(), buffer.len()) };
        // SAFETY: the text ends with zero.
        unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_string_lossy().into_owned()
    }

    /// Makes a later call of a function fail; see `rocm_emulator_fail`.
    pub(crate) fn fail(&self, name: &CStr, call: u64) {
        type Fail = unsafe extern "C" fn(*const std::ffi::c_char, u64, u32);
        // SAFETY: the function has this signature.
        let fail = unsafe { self.control.get::<Fail>("rocm_emulator_fail") }.unwrap();
        // SAFETY: the name ends with zero.
        unsafe { fail(name.as_ptr(), call, 0) };
    }

    pub(crate) fn instructions(&self) -> u64 {
        // SAFETY: the function has this signature.
        let count =
            unsafe { self.control.get::<extern "C" fn() -> u64>("rocm_emulator_instructions") }.unwrap();
        count()
    }

    pub(crate) fn stream(&self) -> hipStream_t {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointer is to a local variable.
        self.check(unsafe { (self.hip.hipStreamCreateWithFlags)(&mut stream, hip::hipStreamNonBlocking) });
        stream
    }

    /// Allocates device memory for `count` numbers.
    pub(crate) fn empty<T>(&self, count: usize) -> *mut T {
        let mut memory = std::ptr::null_mut();
        // SAFETY: the pointer is to a local variable.
        self.check(unsafe { (self.hip.hipMalloc)(&mut memory, count * size_of::<T>()) });
        memory.cast()
    }

    /// Allocates device memory and copies these numbers to it.
    pub(crate) fn upload<T: Copy>(&self, values: &[T]) -> *mut T {
        let memory = self.empty::<T>(values.len());
        let kind = hip::hipMemcpyHostToDevice;
        // SAFETY: both buffers have this many bytes.
        self.check(unsafe {
            (self.hip.hipMemcpy)(memory.cast(), values.as_ptr().cast(), size_of_val(values), kind)
        });
        memory
    }

    /// Frees device memory.
    pub(crate) fn free<T>(&self, memory: *mut T) {
        // SAFETY: the memory was allocated, and no stream uses it any more.
        self.check(unsafe { (self.hip.hipFree)(memory.cast()) });
    }

    /// Reads numbers from device memory.
    pub(crate) fn download<T: Copy + Default>(&self, memory: *const T, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        let kind = hip::hipMemcpyDeviceToHost;
        // SAFETY: both buffers have this many bytes.
        self.check(unsafe {
            (self.hip.hipMemcpy)(values.as_mut_ptr().cast(), memory.cast(), count * size_of::<T>(), kind)
        });
        values
    }

    /// The module of a code object. The first call loads it and keeps its address in `loaded`, because the decoded code of
    /// the engine's kernels takes 60 MB.
    pub(crate) fn module<C: AsRef<[u8]>>(&self, loaded: &OnceLock<usize>, code: fn() -> C) -> hipModule_t {
        let address = *loaded.get_or_init(|| {
            let code = code();
            let mut module: hipModule_t = std::ptr::null_mut();
            // SAFETY: the image is a whole code object.
            self.check(unsafe { (self.hip.hipModuleLoadData)(&mut module, code.as_ref().as_ptr().cast()) });
            module.expose_provenance()
        });
        std::ptr::with_exposed_provenance_mut(address)
    }

    /// A kernel of tests/fixtures/kernels.hip.
    pub(crate) fn kernel(&self, name: &CStr) -> hipFunction_t {
        static MODULE: OnceLock<usize> = OnceLock::new();
        let module = self.module(&MODULE, fixture);
        let mut function = std::ptr::null_mut();
        // SAFETY: the name ends with zero.
        self.check(unsafe { (self.hip.hipModuleGetFunction)(&mut function, module, name.as_ptr()) });
        function
    }

    /// Launches a kernel with the addresses of its arguments.
    pub(crate) fn launch(
        &self,
        name: &CStr,
        (groups, items): (u32, u32),
        stream: hipStream_t,
        arguments: &mut [*mut c_void],
    ) {
        let function = self.kernel(name);
        // SAFETY: the tests give each kernel the arguments that it takes.
        self.check(unsafe {
            (self.hip.hipModuleLaunchKernel)(
                function,
                groups,
                1,
                1,
                items,
                1,
                1,
                0,
                stream,
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        });
    }

    pub(crate) fn wait(&self, stream: hipStream_t) -> hip::hipError_t {
        // SAFETY: the stream is alive.
        unsafe { (self.hip.hipStreamSynchronize)(stream) }
    }
}

/// The code object of tests/fixtures/kernels.hip.
pub(crate) fn fixture() -> &'static [u8] {
    match architecture().as_str() {
        "gfx906" => include_bytes!("../fixtures/kernels_gfx906.co"),
        "gfx908" => include_bytes!("../fixtures/kernels_gfx908.co"),
        "gfx90a" => include_bytes!("../fixtures/kernels_gfx90a.co"),
        "gfx942" => include_bytes!("../fixtures/kernels_gfx942.co"),
        "gfx1030" => include_bytes!("../fixtures/kernels_gfx1030.co"),
        "gfx1151" => include_bytes!("../fixtures/kernels_gfx1151.co"),
        "gfx1200" => include_bytes!("../fixtures/kernels_gfx1200.co"),
        _ => include_bytes!("../fixtures/kernels_gfx1100.co"),
    }
}

/// The emulated architecture.
pub(crate) fn architecture() -> String {
    std::env::var("RUKH_EMULATOR_ARCH").unwrap_or_else(|_| "gfx1100".to_owned())
}

/// The number of lanes of a wave.
pub(crate) fn lanes() -> u32 {
    if architecture().starts_with("gfx9") { 64 } else { 32 }
}

/// Whether the architecture has matrix instructions. Some kernels exist only on such architectures.
pub(crate) fn has_matrix_instructions() -> bool {
    !["gfx906", "gfx10"].iter().any(|start| architecture().starts_with(start))
}

/// The largest number in e4m3 where the architecture multiplies such numbers.
pub(crate) fn largest_fp8() -> Option<f64> {
    match architecture().as_str() {
        "gfx942" => Some(240.0),
        "gfx1200" => Some(448.0),
        _ => None,
    }
}

/// Runs all tests again on another architecture, in another process.
fn the_same_holds_for(other: &str) {
    if architecture() != "gfx1100" {
        return;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.env("RUKH_EMULATOR_ARCH", other).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_same_holds_for_gfx906() {
    the_same_holds_for("gfx906");
}

#[test]
fn the_same_holds_for_gfx908() {
    the_same_holds_for("gfx908");
}

#[test]
fn the_same_holds_for_gfx90a() {
    the_same_holds_for("gfx90a");
}

#[test]
fn the_same_holds_for_gfx942() {
    the_same_holds_for("gfx942");
}

#[test]
fn the_same_holds_for_gfx1030() {
    the_same_holds_for("gfx1030");
}

#[test]
fn the_same_holds_for_gfx1151() {
    the_same_holds_for("gfx1151");
}

#[test]
fn the_same_holds_for_gfx1200() {
    the_same_holds_for("gfx1200");
}

/// The address of an argument, for `hipModuleLaunchKernel`.
pub(crate) fn argument<T>(value: &mut T) -> *mut c_void {
    (&raw mut *value).cast()
}

/// Numbers that look random and are the same in every run.
pub(crate) fn noise(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}
