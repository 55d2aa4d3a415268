//! Kernels, streams, events, graphs, and calls that the emulator refuses.

use half::f16;
use hip_runtime_sys::{self as hip, Hiprtc};

use crate::{architecture, argument, has_matrix_instructions, lanes, libraries, noise};

#[test]
fn a_kernel_computes_what_its_source_says_and_a_graph_does_it_again() {
    let (lib, _turn) = libraries();
    assert_eq!(lib.hip.architecture(0).unwrap(), architecture());
    let (x, y) = (noise(1, 1000), noise(2, 1000));
    let (mut dx, mut dy, mut a, mut count) = (lib.upload(&x), lib.upload(&y), 3.0f32, 1000i32);
    let stream = lib.stream();
    let mut arguments = [argument(&mut dx), argument(&mut dy), argument(&mut a), argument(&mut count)];
    lib.launch(c"axpy", (4, 256), stream, &mut arguments);
    lib.check(lib.wait(stream));
    let once: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 3.0f32.mul_add(*x, *y)).collect();
    assert_eq!(lib.download(dy, 1000), once);

    let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the stream is alive, and the results go to local variables.
    unsafe {
        lib.check((lib.hip.hipStreamBeginCapture)(stream, hip::hipStreamCaptureModeGlobal));
        lib.launch(c"axpy", (4, 256), stream, &mut arguments);
        lib.launch(c"axpy", (4, 256), stream, &mut arguments);
        let mut memory = std::ptr::null_mut();
        let exchanged =
            (lib.hip.hipThreadExchangeStreamCaptureMode)(&mut hip::hipStreamCaptureModeRelaxed.clone());
        lib.check(exchanged);
        lib.check((lib.hip.hipMalloc)(&mut memory, 16));
        lib.check((lib.hip.hipThreadExchangeStreamCaptureMode)(&mut hip::hipStreamCaptureModeGlobal.clone()));
        lib.check((lib.hip.hipStreamEndCapture)(stream, &mut graph));
        lib.check((lib.hip.hipGraphInstantiate)(
            &mut executable,
            graph,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
        ));
        let mut nodes = 0;
        lib.check((lib.hip.hipGraphGetNodes)(graph, std::ptr::null_mut(), &mut nodes));
        assert_eq!(nodes, 2);
        lib.check((lib.hip.hipGraphDestroy)(graph));
    }
    assert_eq!(lib.download(dy, 1000), once, "a capture does not run the kernels");
    for _ in 0..2 {
        // SAFETY: the stream and the graph are alive.
        lib.check(unsafe { (lib.hip.hipGraphLaunch)(executable, stream) });
    }
    lib.check(lib.wait(stream));
    let five_times: Vec<f32> =
        (0..4).fold(once, |y, _| x.iter().zip(&y).map(|(x, y)| 3.0f32.mul_add(*x, *y)).collect());
    assert_eq!(lib.download(dy, 1000), five_times);
}

/// Captures two copies in a graph: `x` to `y` on a side stream, and `y` to `z` on the main stream. The main stream
/// waits for the side stream before its own copy if `waits_before` is true, otherwise after it. Returns `z` after each
/// of two launches.
fn copied_by_branches(waits_before: bool) -> [f32; 2] {
    let (lib, _turn) = libraries();
    let (x, z) = (lib.upload(&[1.0]), lib.upload(&[0.0]));
    let y = lib.upload(&[0.0]);
    let (main, side) = (lib.stream(), lib.stream());
    let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut events = [std::ptr::null_mut(); 2];
    let copy = |to: *mut f32, from: *mut f32, stream| {
        let kind = hip::hipMemcpyDeviceToDevice;
        // SAFETY: each address has room for one number.
        lib.check(unsafe { (lib.hip.hipMemcpyAsync)(to.cast(), from.cast_const().cast(), 4, kind, stream) });
    };
    // SAFETY: the streams and events are alive, and the results go to local variables.
    unsafe {
        for event in &mut events {
            lib.check((lib.hip.hipEventCreateWithFlags)(event, hip::hipEventDisableTiming));
        }
        lib.check((lib.hip.hipStreamBeginCapture)(main, hip::hipStreamCaptureModeThreadLocal));
        lib.check((lib.hip.hipEventRecord)(events[0], main));
        lib.check((lib.hip.hipStreamWaitEvent)(side, events[0], 0));
        copy(y, x, side);
        lib.check((lib.hip.hipEventRecord)(events[1], side));
        if waits_before {
            lib.check((lib.hip.hipStreamWaitEvent)(main, events[1], 0));
        }
        copy(z, y, main);
        if !waits_before {
            lib.check((lib.hip.hipStreamWaitEvent)(main, events[1], 0));
        }
        lib.check((lib.hip.hipStreamEndCapture)(main, &mut graph));
        let (node, log) = (std::ptr::null_mut(), std::ptr::null_mut());
        lib.check((lib.hip.hipGraphInstantiate)(&mut executable, graph, node, log, 0));
    }
    [(); 2].map(|()| {
        // SAFETY: the objects are alive, and each address has room for one number.
        unsafe {
            lib.check((lib.hip.hipMemset)(y.cast(), 0, 4));
            lib.check((lib.hip.hipMemset)(z.cast(), 0, 4));
            lib.check((lib.hip.hipGraphLaunch)(executable, main));
        }
        lib.check(lib.wait(main));
        lib.download(z, 1)[0]
    })
}

#[test]
fn a_graph_reveals_a_missing_wait_between_its_branches() {
    assert_eq!(copied_by_branches(true), [1.0, 1.0]);
    // The second launch runs the nodes in another order: it copies `y` to `z` before it copies `x` to `y`.
    assert_eq!(copied_by_branches(false), [1.0, 0.0]);
}

#[test]
fn an_allocation_spoils_a_capture() {
    let (lib, _turn) = libraries();
    let stream = lib.stream();
    let mut graph = std::ptr::null_mut();
    let mut memory = std::ptr::null_mut();
    // SAFETY: the stream is alive, and the results go to local variables.
    unsafe {
        lib.check((lib.hip.hipStreamBeginCapture)(stream, hip::hipStreamCaptureModeGlobal));
        assert_eq!((lib.hip.hipMalloc)(&mut memory, 16), hip::hipErrorStreamCaptureUnsupported);
        assert_eq!((lib.hip.hipStreamEndCapture)(stream, &mut graph), hip::hipErrorStreamCaptureInvalidated);
    }
    assert!(graph.is_null());
}

#[test]
fn division_and_roots_are_exact_on_the_whole_range() {
    let (lib, _turn) = libraries();
    let mut state = 7u32;
    let mut bits = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from_bits(state)
    };
    let mut x: Vec<f32> = (0..20_000).map(|_| bits()).collect();
    let mut y: Vec<f32> = (0..20_000).map(|_| bits()).collect();
    let special = [0.0, -0.0, 1.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE, 1e-45, f32::MAX, -1e-40, 3.0];
    for a in special {
        for b in special {
            x.push(a);
            y.push(b);
        }
    }
    let mut count = x.len() as i32;
    let (mut dx, mut dy) = (lib.upload(&x), lib.upload(&y));
    let (mut quotient, mut root) = (lib.empty::<f32>(x.len()), lib.empty::<f32>(x.len()));
    let mut arguments = [
        argument(&mut dx),
        argument(&mut dy),
        argument(&mut quotient),
        argument(&mut root),
        argument(&mut count),
    ];
    let stream = lib.stream();
    lib.launch(c"division", (x.len().div_ceil(256) as u32, 256), stream, &mut arguments);
    lib.check(lib.wait(stream));
    let (quotient, root) = (lib.download(quotient, x.len()), lib.download(root, x.len()));
    let same = |found: f32, expected: f32| {
        found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan()
    };
    for i in 0..x.len() {
        assert!(
            same(quotient[i], x[i] / y[i]),
            "{:e} / {:e} = {:e}, not {:e}",
            x[i],
            y[i],
            x[i] / y[i],
            quotient[i]
        );
        assert!(same(root[i], x[i].sqrt()), "sqrt({:e}) = {:e}, not {:e}", x[i], x[i].sqrt(), root[i]);
    }
}

#[test]
fn halves_round_once() {
    let (lib, _turn) = libraries();
    let x: Vec<f16> = noise(3, 500).iter().map(|&v| f16::from_f32(v * 100.0)).collect();
    let y: Vec<f16> = noise(4, 500).iter().map(|&v| f16::from_f32(v * 0.01)).collect();
    let (mut dx, mut dy, mut count) = (lib.upload(&x), lib.upload(&y), 500i32);
    let (mut sum, mut product, mut wide) =
        (lib.empty::<u16>(500), lib.empty::<u16>(500), lib.empty::<f32>(500));
    let mut arguments = [
        argument(&mut dx),
        argument(&mut dy),
        argument(&mut sum),
        argument(&mut product),
        argument(&mut wide),
        argument(&mut count),
    ];
    let stream = lib.stream();
    lib.launch(c"halves", (2, 256), stream, &mut arguments);
    lib.check(lib.wait(stream));
    let (sum, product, wide) = (lib.download(sum, 500), lib.download(product, 500), lib.download(wide, 500));
    for i in 0..500 {
        let (x, y) = (x[i].to_f32(), y[i].to_f32());
        assert_eq!(sum[i], f16::from_f32(x + y).to_bits());
        assert_eq!(product[i], f16::from_f32(x * y).to_bits());
        assert_eq!(wide[i], x.mul_add(y, 1.0));
    }
}

#[test]
fn a_barrier_matters_and_lds_is_poisoned() {
    let (lib, _turn) = libraries();
    let x: Vec<i32> = (0..512).collect();
    let reversed: Vec<i32> = x.chunks(256).flat_map(|part| part.iter().rev().copied()).collect();
    let mut dx = lib.upload(&x);
    let stream = lib.stream();
    for mut wait in [1i32, 0] {
        let mut dy = lib.empty::<i32>(512);
        lib.launch(
            c"reverse",
            (2, 256),
            stream,
            &mut [argument(&mut dx), argument(&mut dy), argument(&mut wait)],
        );
        lib.check(lib.wait(stream));
        assert_eq!(lib.download(dy, 512) == reversed, wait == 1, "with barrier: {wait}");
    }
    let mut dy = lib.empty::<f32>(256);
    lib.launch(c"unwritten", (1, 256), stream, &mut [argument(&mut dy)]);
    lib.check(lib.wait(stream));
    assert!(lib.download(dy, 256).iter().all(|value| value.is_nan()));
}

#[test]
fn atomics_count_every_work_item() {
    let (lib, _turn) = libraries();
    let (mut total, mut sums) = (lib.upload(&[0u32]), lib.empty::<f32>(50));
    let stream = lib.stream();
    lib.launch(c"count", (50, 256), stream, &mut [argument(&mut total), argument(&mut sums)]);
    lib.check(lib.wait(stream));
    assert_eq!(lib.download(total, 1), [50 * 256]);
    assert_eq!(lib.download(sums, 50), [32640.0; 50]);
}

#[test]
fn a_matrix_tile_is_a_matrix_product() {
    let (lib, _turn) = libraries();
    let a: Vec<f16> = noise(5, 256).iter().map(|&v| f16::from_f32(v)).collect();
    let b: Vec<f16> = noise(6, 256).iter().map(|&v| f16::from_f32(v)).collect();
    let (mut da, mut db, mut dd) = (lib.upload(&a), lib.upload(&b), lib.empty::<f32>(256));
    let stream = lib.stream();
    // Without matrix instructions the kernel is for 32 work items.
    let items = if has_matrix_instructions() { lanes() } else { 32 };
    lib.launch(c"tile", (1, items), stream, &mut [argument(&mut da), argument(&mut db), argument(&mut dd)]);
    lib.check(lib.wait(stream));
    let d = lib.download(dd, 256);
    for row in 0..16 {
        for column in 0..16 {
            let exact: f64 = (0..16).map(|k| a[row * 16 + k].to_f64() * b[column * 16 + k].to_f64()).sum();
            assert!((f64::from(d[row * 16 + column]) - exact).abs() < 1e-5, "({row}, {column})");
        }
    }
}

#[test]
fn an_access_outside_of_memory_names_kernel_place_and_address() {
    let (lib, _turn) = libraries();
    let (mut dx, mut dy) = (lib.upload(&noise(1, 100)), lib.upload(&noise(2, 90)));
    let (mut a, mut count) = (1.0f32, 100i32);
    let stream = lib.stream();
    let mut arguments = [argument(&mut dx), argument(&mut dy), argument(&mut a), argument(&mut count)];
    lib.launch(c"axpy", (1, 256), stream, &mut arguments);
    assert_eq!(lib.wait(stream), hip::hipErrorLaunchFailure);
    let fault = lib.fault();
    for part in
        ["kernel axpy at 0x", "(global_load_", "of lane", &format!("{:#x}", dy as usize + 360), "360 bytes"]
    {
        assert!(fault.contains(part), "{fault} has no {part}");
    }
    // The stream runs nothing more. Another stream is not affected.
    let mut event = std::ptr::null_mut();
    // SAFETY: the pointers are to local variables, and the objects are alive.
    unsafe {
        lib.check((lib.hip.hipEventCreateWithFlags)(&mut event, 0));
        lib.check((lib.hip.hipEventRecord)(event, stream));
        assert_eq!((lib.hip.hipEventSynchronize)(event), hip::hipErrorLaunchFailure);
        assert_eq!((lib.hip.hipMemsetAsync)(dx.cast(), 0, 4, stream), hip::hipErrorLaunchFailure);
    }
    lib.check(lib.wait(lib.stream()));
}

#[test]
fn an_unknown_instruction_is_a_failure_that_names_it() {
    use object::{Object, ObjectSection};
    let (lib, _turn) = libraries();
    let mut code = crate::fixture().to_vec();
    let (start, bytes) =
        object::File::parse(&*code).unwrap().section_by_name(".text").unwrap().file_range().unwrap();
    // The code consists of image instructions, which the compiler never generates for the engine's kernels.
    for word in code[start as usize..(start + bytes) as usize].chunks_exact_mut(4) {
        word.copy_from_slice(&0xf000_0000_u32.to_le_bytes());
    }
    let (mut module, mut function, stream) = (std::ptr::null_mut(), std::ptr::null_mut(), lib.stream());
    let mut values = [std::ptr::null_mut::<u8>(); 5];
    let mut arguments = values.each_mut().map(argument);
    // SAFETY: the image is a whole code object, and there are more arguments than the kernel takes.
    unsafe {
        lib.check((lib.hip.hipModuleLoadData)(&mut module, code.as_ptr().cast()));
        lib.check((lib.hip.hipModuleGetFunction)(&mut function, module, c"axpy".as_ptr()));
        let nothing = std::ptr::null_mut();
        let launch = lib.hip.hipModuleLaunchKernel;
        lib.check(launch(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments.as_mut_ptr(), nothing));
    }
    assert_eq!(lib.wait(stream), hip::hipErrorLaunchFailure);
    let fault = lib.fault();
    assert!(fault.contains("kernel axpy") && fault.contains("unknown instruction f0000000"), "{fault}");
}

#[test]
fn streams_run_at_the_same_time() {
    let (lib, _turn) = libraries();
    let mut flag = lib.upload(&[0i32]);
    let (first, second) = (lib.stream(), lib.stream());
    let mut event = std::ptr::null_mut();
    lib.launch(c"forever", (1, 32), first, &mut [argument(&mut flag)]);
    // SAFETY: the pointers are to local variables, and the objects are alive.
    unsafe {
        assert_eq!((lib.hip.hipStreamQuery)(first), hip::hipErrorNotReady);
        lib.check((lib.hip.hipEventCreateWithFlags)(&mut event, 0));
        lib.check((lib.hip.hipEventRecord)(event, first));
        assert_eq!((lib.hip.hipEventQuery)(event), hip::hipErrorNotReady);
        // The second stream does not wait for the first. Its fill lets the first stream's kernel end.
        lib.check((lib.hip.hipMemsetAsync)(flag.cast(), 1, 4, second));
        lib.check(lib.wait(second));
        lib.check((lib.hip.hipEventSynchronize)(event));
        lib.check((lib.hip.hipEventQuery)(event));
    }
}

#[test]
fn calls_fail_when_they_are_told_to() {
    let (lib, _turn) = libraries();
    lib.fail(c"hipMalloc", 2);
    let mut memory = std::ptr::null_mut();
    // SAFETY: the pointer is to a local variable.
    let statuses = [(); 3].map(|()| unsafe { (lib.hip.hipMalloc)(&mut memory, 64) });
    assert_eq!(statuses, [hip::hipSuccess, hip::hipErrorOutOfMemory, hip::hipSuccess]);
    // SAFETY: the function takes no arguments.
    assert_eq!(unsafe { (lib.hip.hipGetLastError)() }, hip::hipErrorOutOfMemory);
    let stream = lib.stream();
    lib.fail(c"execution", 1);
    // SAFETY: the memory has 64 bytes.
    lib.check(unsafe { (lib.hip.hipMemsetAsync)(memory, 0, 64, stream) });
    assert_eq!(lib.wait(stream), hip::hipErrorLaunchFailure);
}

#[test]
fn wrong_copies_and_stale_handles_are_refused() {
    let (lib, _turn) = libraries();
    let memory = lib.upload(&[1.0f32; 16]);
    let mut host = [0.0f32; 32];
    // SAFETY: the emulator refuses the wrong copies, the destroyed stream and the freed memory before it uses any of
    // them. The other calls have valid arguments.
    unsafe {
        let copy = lib.hip.hipMemcpy;
        let (device, here) = (memory.cast(), host.as_mut_ptr().cast());
        assert_eq!(copy(here, device, 128, hip::hipMemcpyDeviceToHost), hip::hipErrorInvalidValue);
        assert_eq!(copy(here, device, 64, hip::hipMemcpyHostToDevice), hip::hipErrorInvalidValue);
        let stream = lib.stream();
        lib.check((lib.hip.hipStreamDestroy)(stream));
        assert_eq!((lib.hip.hipStreamSynchronize)(stream), hip::hipErrorInvalidHandle);
        lib.check((lib.hip.hipFree)(device));
        assert_eq!((lib.hip.hipFree)(device), hip::hipErrorInvalidValue);
        let other: &[u8] = match architecture().as_str() {
            "gfx1151" => include_bytes!("../fixtures/kernels_gfx1100.co"),
            _ => include_bytes!("../fixtures/kernels_gfx1151.co"),
        };
        let mut module = std::ptr::null_mut();
        let status = (lib.hip.hipModuleLoadData)(&mut module, other.as_ptr().cast());
        assert_eq!(status, hip::hipErrorNoBinaryForGpu);
    }
}

#[test]
fn hiprtc_compiles_for_the_device_or_says_why_not() {
    if std::process::Command::new("clang-19").arg("--version").output().is_err() {
        println!("skipped: clang-19 is not installed");
        return;
    }
    let (lib, _turn) = libraries();
    let hiprtc = Hiprtc::load_from(&lib.folder).unwrap();
    let option = std::ffi::CString::new(format!("--offload-arch={}", architecture())).unwrap();
    let mut options = [option.as_ptr()];
    let mut build = |source: &std::ffi::CStr| {
        let mut program = std::ptr::null_mut();
        let (none, name) = (std::ptr::null_mut(), c"program.hip".as_ptr());
        // SAFETY: the strings end with zero, and the results go to local variables.
        unsafe {
            assert_eq!((hiprtc.hiprtcCreateProgram)(&mut program, source.as_ptr(), name, 0, none, none), 0);
            let status = (hiprtc.hiprtcCompileProgram)(program, 1, options.as_mut_ptr());
            let mut bytes = 0;
            assert_eq!((hiprtc.hiprtcGetProgramLogSize)(program, &mut bytes), 0);
            let mut log = vec![0u8; bytes];
            assert_eq!((hiprtc.hiprtcGetProgramLog)(program, log.as_mut_ptr().cast()), 0);
            assert_eq!((hiprtc.hiprtcGetCodeSize)(program, &mut bytes), 0);
            let mut code = vec![0u8; bytes];
            assert_eq!((hiprtc.hiprtcGetCode)(program, code.as_mut_ptr().cast()), 0);
            assert_eq!((hiprtc.hiprtcDestroyProgram)(&mut program), 0);
            (status, code, String::from_utf8_lossy(&log).into_owned())
        }
    };
    let (status, code, log) =
        build(c"extern \"C\" __attribute__((global)) void twice(float* x) { *x *= 2.0f; }");
    assert_eq!(status, 0, "{log}");
    let (status, _, log) = build(c"not a program");
    assert_eq!(status, hip::hiprtc_bindings::HIPRTC_ERROR_COMPILATION);
    assert!(log.contains("error:"), "{log}");

    let (mut module, mut function, stream) = (std::ptr::null_mut(), std::ptr::null_mut(), lib.stream());
    let mut x = lib.upload(&[21.0f32]);
    let mut arguments = [argument(&mut x)];
    // SAFETY: the code is whole, and the kernel takes one pointer.
    unsafe {
        lib.check((lib.hip.hipModuleLoadData)(&mut module, code.as_ptr().cast()));
        lib.check((lib.hip.hipModuleGetFunction)(&mut function, module, c"twice".as_ptr()));
        let none = std::ptr::null_mut();
        lib.check((lib.hip.hipModuleLaunchKernel)(
            function,
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            stream,
            arguments.as_mut_ptr(),
            none,
        ));
    }
    lib.check(lib.wait(stream));
    assert_eq!(lib.download(x, 1), [42.0]);
}
