//! Tests that NVRTC compiles the engine's kernels through hiprtc's interface, with the engine's options. The tests need
//! NVRTC, but not a card.

use std::ffi::{CString, c_char};
use std::fs;
use std::path::Path;
use std::ptr::null_mut;

use hip_runtime_sys::hiprtc_bindings::HIPRTC_SUCCESS;

use super::{Libraries, libraries};

/// C strings, and the list of their addresses.
fn texts(texts: impl IntoIterator<Item = String>) -> (Vec<CString>, Vec<*const c_char>) {
    let texts: Vec<CString> =
        texts.into_iter().map(|text| CString::new(text).expect("no NUL bytes")).collect();
    let addresses = texts.iter().map(|text| text.as_ptr()).collect();
    (texts, addresses)
}

/// Compiles a source. Returns the code, or the compiler's log.
fn compile(lib: &Libraries, source: &str, headers: &[(String, String)]) -> Result<Vec<u8>, String> {
    let source = CString::new(source).expect("no NUL bytes");
    let (_bodies, mut bodies) = texts(headers.iter().map(|(_, body)| body.clone()));
    let (_names, mut names) = texts(headers.iter().map(|(name, _)| name.clone()));
    let (_options, mut options) = texts(["--offload-arch=sm_90", "-O3", "-std=c++17"].map(str::to_owned));
    let (mut program, mut bytes) = (null_mut(), 0);
    let count = headers.len() as i32;
    // SAFETY: the pointers are to local variables, and the lists have the given lengths.
    unsafe {
        let (bodies, names) = (bodies.as_mut_ptr(), names.as_mut_ptr());
        let status = (lib.hiprtc.hiprtcCreateProgram)(
            &mut program,
            source.as_ptr(),
            c"all.hip".as_ptr(),
            count,
            bodies,
            names,
        );
        assert_eq!(status, HIPRTC_SUCCESS);
        let status = (lib.hiprtc.hiprtcCompileProgram)(program, options.len() as i32, options.as_mut_ptr());
        let result = if status == HIPRTC_SUCCESS {
            assert_eq!((lib.hiprtc.hiprtcGetCodeSize)(program, &mut bytes), HIPRTC_SUCCESS);
            let mut code = vec![0; bytes];
            assert_eq!((lib.hiprtc.hiprtcGetCode)(program, code.as_mut_ptr().cast()), HIPRTC_SUCCESS);
            Ok(code)
        } else {
            assert_eq!((lib.hiprtc.hiprtcGetProgramLogSize)(program, &mut bytes), HIPRTC_SUCCESS);
            let mut log = vec![0; bytes];
            assert_eq!((lib.hiprtc.hiprtcGetProgramLog)(program, log.as_mut_ptr().cast()), HIPRTC_SUCCESS);
            Err(String::from_utf8_lossy(&log).into_owned())
        };
        assert_eq!((lib.hiprtc.hiprtcDestroyProgram)(&mut program), HIPRTC_SUCCESS);
        result
    }
}

fn has_compiler(lib: &Libraries) -> bool {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the pointers are to local variables.
    let found = unsafe { (lib.hiprtc.hiprtcVersion)(&mut major, &mut minor) } == HIPRTC_SUCCESS;
    if !found {
        println!("skipped: no NVRTC (RUKH_CUDA_SHIM_PATH can name its folder)");
    }
    found
}

#[test]
fn the_kernels_compile_for_hopper() {
    let lib = libraries();
    if !has_compiler(&lib) {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels");
    let mut headers = Vec::new();
    for part in ["", "platform"] {
        for entry in fs::read_dir(folder.join(part)).expect("the kernels' folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "h" || extension == "hip") {
                let name = Path::new(part).join(path.file_name().expect("a name"));
                headers
                    .push((name.display().to_string(), fs::read_to_string(&path).expect("a readable file")));
            }
        }
    }
    let source = fs::read_to_string(folder.join("all.hip")).expect("the kernels");
    let code = compile(&lib, &source, &headers).unwrap_or_else(|log| panic!("{log}"));
    assert!(code.starts_with(b"\x7fELF"), "expected machine code, not PTX");
    for kernel in [
        "attention_f16_d32",
        "attention_bf16_d128",
        "layer_norm_f32_w768",
        "planes_f16",
        "winograd_input_bf16",
    ] {
        assert!(
            code.windows(kernel.len()).any(|bytes| bytes == kernel.as_bytes()),
            "{kernel} is not in the code"
        );
    }
}

#[test]
fn a_compile_error_is_reported() {
    let lib = libraries();
    if !has_compiler(&lib) {
        return;
    }
    let error = compile(&lib, "extern \"C\" __global__ void wrong() { undeclared(); }", &[]).unwrap_err();
    assert!(error.contains("undeclared"), "{error}");
}
