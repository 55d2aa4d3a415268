//! hiprtc's C interface. It compiles with an installed clang, which must have the amdgcn target.
//!
//! `RUKH_EMULATOR_CLANG` names the compiler; otherwise `clang-19` and then `clang` are tried.

use std::ffi::{c_char, c_int};
use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex};

use hip_runtime_sys::hiprtc_bindings::{
    HIPRTC_ERROR_COMPILATION, HIPRTC_ERROR_INTERNAL_ERROR, HIPRTC_ERROR_INVALID_INPUT,
    HIPRTC_ERROR_INVALID_PROGRAM, HIPRTC_SUCCESS, hiprtcProgram, hiprtcResult, signature,
};

use crate::c_interface::{self, answer, text};
use crate::handles::Handles;
use crate::settings::settings;
use crate::sync::lock;

/// The version of clang in which `__builtin_amdgcn_fence` got a third argument, the address space.
const FIRST_WITH_FENCES_OF_ONE_MEMORY: u32 = 19;

/// A program's source and, after a compilation, its code and the compiler's log.
struct Program {
    source: String,
    headers: Vec<(String, String)>,
    code: Mutex<Vec<u8>>,
    log: Mutex<Vec<u8>>,
}

static PROGRAMS: Handles<Program> = Handles::new();

fn program(handle: hiprtcProgram) -> Result<Arc<Program>, hiprtcResult> {
    PROGRAMS.get(handle.addr()).ok_or(HIPRTC_ERROR_INVALID_PROGRAM)
}

/// # Safety
/// The pointer is null or may be written to.
unsafe fn write_result<T>(place: *mut T, value: T) -> Result<(), hiprtcResult> {
    // SAFETY: as the caller promises.
    unsafe { c_interface::write_result(place, value) }.map_err(|_| HIPRTC_ERROR_INVALID_INPUT)
}

macro_rules! api {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            /// hiprtc's function of this name.
            ///
            /// # Safety
            /// As hiprtc's documentation says, pointers are valid during the call.
            #[allow(non_snake_case, reason = "hiprtc's names")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> hiprtcResult {
                answer(stringify!($name), HIPRTC_ERROR_INTERNAL_ERROR, || $body)
            }
            const _: signature::$name = $name;
        )*
    };
}

api! {
    fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) {
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(major, 9) }?;
        // SAFETY: the reason above applies here too.
        unsafe { write_result(minor, 0) }
    }

    fn hiprtcCreateProgram(
        handle: *mut hiprtcProgram, source: *const c_char, _name: *const c_char, count: c_int,
        headers: *mut *const c_char, names: *mut *const c_char,
    ) {
        // SAFETY: the caller passes a valid text.
        let source = unsafe { text(source) }.ok_or(HIPRTC_ERROR_INVALID_INPUT)?.to_owned();
        let mut included = Vec::new();
        for number in 0..usize::try_from(count).map_err(|_| HIPRTC_ERROR_INVALID_INPUT)? {
            // SAFETY: the caller's lists have `count` strings.
            let pair = unsafe { (text(*names.add(number)), text(*headers.add(number))) };
            let (Some(name), Some(header)) = pair else { return Err(HIPRTC_ERROR_INVALID_INPUT) };
            included.push((name.to_owned(), header.to_owned()));
        }
        let made = Program { source, headers: included, code: Mutex::default(), log: Mutex::default() };
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(handle, std::ptr::without_provenance_mut(PROGRAMS.add(Arc::new(made)))) }
    }

    fn hiprtcDestroyProgram(handle: *mut hiprtcProgram) {
        if handle.is_null() {
            return Err(HIPRTC_ERROR_INVALID_INPUT);
        }
        // SAFETY: the caller passes a valid pointer.
        let found = PROGRAMS.remove(unsafe { handle.read() }.addr()).ok_or(HIPRTC_ERROR_INVALID_PROGRAM)?;
        drop(found);
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(handle, std::ptr::null_mut()) }
    }

    fn hiprtcCompileProgram(handle: hiprtcProgram, count: c_int, options: *mut *const c_char) {
        let program = program(handle)?;
        let mut words = Vec::new();
        for number in 0..usize::try_from(count).map_err(|_| HIPRTC_ERROR_INVALID_INPUT)? {
            // SAFETY: the caller's list has `count` strings.
            words.push(unsafe { text(*options.add(number)) }.ok_or(HIPRTC_ERROR_INVALID_INPUT)?.to_owned());
        }
        match compile(&program, &words) {
            Ok((code, log)) => {
                *lock(&program.code) = code;
                *lock(&program.log) = log;
                Ok(())
            }
            Err(log) => {
                *lock(&program.log) = log;
                Err(HIPRTC_ERROR_COMPILATION)
            }
        }
    }

    fn hiprtcGetCodeSize(handle: hiprtcProgram, bytes: *mut usize) {
        let size = lock(&program(handle)?.code).len();
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(bytes, size) }
    }

    fn hiprtcGetCode(handle: hiprtcProgram, code: *mut c_char) {
        let program = program(handle)?;
        let from = lock(&program.code);
        // SAFETY: the caller's buffer has as many bytes as the size function returned.
        unsafe { code.cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        Ok(())
    }

    fn hiprtcGetProgramLogSize(handle: hiprtcProgram, bytes: *mut usize) {
        let size = lock(&program(handle)?.log).len() + 1;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(bytes, size) }
    }

    fn hiprtcGetProgramLog(handle: hiprtcProgram, log: *mut c_char) {
        let program = program(handle)?;
        let from = lock(&program.log);
        // SAFETY: the caller's buffer has as many bytes as the size function returned.
        unsafe { log.cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        // SAFETY: the log's size includes the zero byte at the end.
        unsafe { log.add(from.len()).write(0) };
        Ok(())
    }
}

/// hiprtc's function of this name.
#[allow(non_snake_case, reason = "hiprtc's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hiprtcGetErrorString(result: hiprtcResult) -> *const c_char {
    let text = match result {
        HIPRTC_SUCCESS => c"HIPRTC_SUCCESS",
        HIPRTC_ERROR_INVALID_INPUT => c"HIPRTC_ERROR_INVALID_INPUT",
        HIPRTC_ERROR_INVALID_PROGRAM => c"HIPRTC_ERROR_INVALID_PROGRAM",
        HIPRTC_ERROR_COMPILATION => c"HIPRTC_ERROR_COMPILATION",
        _ => c"HIPRTC_ERROR_INTERNAL_ERROR",
    };
    text.as_ptr()
}
const _: signature::hiprtcGetErrorString = hiprtcGetErrorString;

/// Compiles with the first compiler that can be started. Returns the code and the log, or only the log if the
/// compilation failed.
fn compile(program: &Program, options: &[String]) -> Result<(Vec<u8>, Vec<u8>), Vec<u8>> {
    let failed = |error: &dyn std::fmt::Display| error.to_string().into_bytes();
    let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
    let source = folder.path().join("program.hip");
    let output = folder.path().join("program.co");
    fs::write(&source, &program.source).map_err(|error| failed(&error))?;
    for (name, header) in &program.headers {
        let path = folder.path().join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| failed(&error))?;
        }
        fs::write(path, header).map_err(|error| failed(&error))?;
    }
    let asked = std::env::var("RUKH_EMULATOR_CLANG").ok();
    let compilers = asked.map_or_else(|| vec!["clang-19".to_owned(), "clang".to_owned()], |name| vec![name]);
    let mut last = b"no compiler".to_vec();
    for compiler in compilers {
        let mut command = Command::new(&compiler);
        command.args([
            "-x",
            "hip",
            "--cuda-device-only",
            "-nogpuinc",
            "-nogpulib",
            "-O3",
            "--no-gpu-bundle-output",
        ]);
        if !options
            .iter()
            .any(|option| option.starts_with("--offload-arch") || option.starts_with("--gpu-arch"))
        {
            command.arg(format!("--offload-arch={}", settings().architecture));
        }
        command.args(options.iter().map(|option| option.replace("--gpu-architecture", "--offload-arch")));
        if let Some(major) = settings().clang_major {
            command.args([format!("-D__clang_major__={major}"), "-Wno-builtin-macro-redefined".to_owned()]);
            if major < FIRST_WITH_FENCES_OF_ONE_MEMORY {
                // A macro of two parameters makes every use with three arguments an error.
                command.arg("-D__builtin_amdgcn_fence(order,scope)=__builtin_amdgcn_fence(order,scope)");
            }
        }
        command.arg("-I").arg(folder.path()).arg("-o").arg(&output).arg(&source);
        match command.output() {
            Err(error) => last = format!("{compiler}: {error}").into_bytes(),
            Ok(result) if result.status.success() => {
                let code = fs::read(&output).map_err(|error| failed(&error))?;
                return Ok((code, result.stderr));
            }
            Ok(result) => return Err(result.stderr),
        }
    }
    Err(last)
}
