//! A kernel from which the wait for its loads has been removed.

use hip_runtime_sys as hip;
use object::{Object, ObjectSection, ObjectSymbol};

use crate::{architecture, argument, fixture, libraries};

/// The code object of tests/fixtures/kernels.hip, with `s_nop 0` in the place of the wait before the sum of axpy.
fn without_the_wait() -> Vec<u8> {
    let wait: u32 = match architecture().as_str() {
        "gfx906" | "gfx908" | "gfx90a" | "gfx942" => 0xbf8c_0f70, // s_waitcnt vmcnt(0)
        "gfx1030" => 0xbf8c_3f70,                                 // s_waitcnt vmcnt(0)
        "gfx1200" => 0xbfc0_0000,                                 // s_wait_loadcnt 0x0
        _ => 0xbf89_03f7,                                         // s_waitcnt vmcnt(0)
    };
    let file = object::File::parse(fixture()).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let kernel = file.dynamic_symbols().find(|symbol| symbol.name() == Ok("axpy")).unwrap();
    let start = (kernel.address() - text.address() + text.file_range().unwrap().0) as usize;
    let mut code = fixture().to_vec();
    let mut words = code[start..start + kernel.size() as usize].chunks_exact_mut(4);
    let place = words.find(|word| **word == wait.to_le_bytes()).expect("axpy waits for its loads");
    place.copy_from_slice(&0xbf80_0000_u32.to_le_bytes());
    code
}

#[test]
fn a_kernel_that_does_not_wait_for_its_loads_is_not_run() {
    let (lib, _turn) = libraries();
    let (mut x, mut y) = (lib.upload(&[1.0_f32; 32]), lib.upload(&[2.0_f32; 32]));
    let (mut factor, mut count, result) = (3.0_f32, 32, y);
    let mut arguments = [argument(&mut x), argument(&mut y), argument(&mut factor), argument(&mut count)];
    let mut launch = |code: &[u8]| {
        let (mut module, mut function, stream) = (std::ptr::null_mut(), std::ptr::null_mut(), lib.stream());
        // SAFETY: the image is a whole code object, and these are the kernel's arguments.
        unsafe {
            lib.check((lib.hip.hipModuleLoadData)(&mut module, code.as_ptr().cast()));
            lib.check((lib.hip.hipModuleGetFunction)(&mut function, module, c"axpy".as_ptr()));
            let (launch, nothing) = (lib.hip.hipModuleLaunchKernel, std::ptr::null_mut());
            lib.check(launch(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments.as_mut_ptr(), nothing));
        }
        lib.wait(stream)
    };
    assert_eq!(launch(&without_the_wait()), hip::hipErrorLaunchFailure);
    let fault = lib.fault();
    let (load, counter) = match architecture().as_str() {
        "gfx906" | "gfx908" | "gfx90a" | "gfx942" | "gfx1030" => ("global_load_dword", "vmcnt"),
        "gfx1200" => ("global_load_b32", "loadcnt"),
        _ => ("global_load_b32", "vmcnt"),
    };
    let register = if architecture() == "gfx942" { "v4" } else { "v2" };
    let what = format!("(v_fmac_f32): {register} is read without a wait for {counter} after {load}");
    for part in ["kernel axpy at 0x", &what] {
        assert!(fault.contains(part), "{fault} has no {part}");
    }
    assert_eq!(lib.download(result, 32), [2.0_f32; 32]);
    lib.check(launch(fixture()));
    assert_eq!(lib.download(result, 32), [5.0_f32; 32]);
}
