//! Compares the products of rocBLAS and hipBLASLt with loops in fp64.

use std::ffi::c_void;

use half::{bf16, f16};
use hip_runtime_sys::{self as hip, hipDataType};
use hipblaslt_sys as lt;
use rocblas_sys as rb;

use crate::{Libraries, libraries, noise};

/// Converts numbers to a type. Returns their bytes, and their values after rounding.
fn stored(kind: hipDataType, values: &[f32]) -> (Vec<u8>, Vec<f64>) {
    let mut bytes = Vec::new();
    let mut rounded = Vec::new();
    for &value in values {
        match kind {
            hip::HIP_R_16F => {
                bytes.extend(f16::from_f32(value).to_le_bytes());
                rounded.push(f16::from_f32(value).to_f64());
            }
            hip::HIP_R_16BF => {
                bytes.extend(bf16::from_f32(value).to_le_bytes());
                rounded.push(bf16::from_f32(value).to_f64());
            }
            hip::HIP_R_8I => {
                bytes.extend(((value * 100.0) as i8).to_le_bytes());
                rounded.push(f64::from((value * 100.0) as i8));
            }
            _ => {
                bytes.extend(value.to_le_bytes());
                rounded.push(f64::from(value));
            }
        }
    }
    (bytes, rounded)
}

/// Reads the bytes as numbers of a type.
fn values(kind: hipDataType, bytes: &[u8]) -> Vec<f64> {
    let word = |part: &[u8]| u32::from_le_bytes([part[0], part[1], part[2], part[3]]);
    let short = |part: &[u8]| u16::from_le_bytes([part[0], part[1]]);
    match kind {
        hip::HIP_R_16F => bytes.chunks(2).map(|part| f16::from_bits(short(part)).to_f64()).collect(),
        hip::HIP_R_16BF => bytes.chunks(2).map(|part| bf16::from_bits(short(part)).to_f64()).collect(),
        hip::HIP_R_32I => bytes.chunks(4).map(|part| f64::from(word(part) as i32)).collect(),
        _ => bytes.chunks(4).map(|part| f64::from(f32::from_bits(word(part)))).collect(),
    }
}

fn bytes_of(kind: hipDataType) -> usize {
    match kind {
        hip::HIP_R_16F | hip::HIP_R_16BF => 2,
        hip::HIP_R_8I => 1,
        _ => 4,
    }
}

fn rocblas_type(kind: hipDataType) -> rb::rocblas_datatype {
    match kind {
        hip::HIP_R_16F => rb::rocblas_datatype_f16_r,
        hip::HIP_R_16BF => rb::rocblas_datatype_bf16_r,
        hip::HIP_R_8I => rb::rocblas_datatype_i8_r,
        hip::HIP_R_32I => rb::rocblas_datatype_i32_r,
        _ => rb::rocblas_datatype_f32_r,
    }
}

/// A matrix product to test. The columns of its operands have gaps between them.
struct Case {
    /// m, n and k.
    sizes: (usize, usize, usize),
    /// Whether A and B are transposed.
    transposed: (bool, bool),
    batches: usize,
    input: hipDataType,
    output: hipDataType,
    alpha: f32,
    beta: f32,
}

/// The operands A, B and C of a case, in device memory and as numbers. D overwrites C.
struct Operands {
    shapes: [(usize, usize); 3],
    leading: [usize; 3],
    strides: [usize; 3],
    device: [*mut u8; 3],
    numbers: [Vec<f64>; 3],
}

impl Case {
    fn operands(&self, lib: &Libraries) -> Operands {
        let (m, n, k) = self.sizes;
        let a = if self.transposed.0 { (k, m) } else { (m, k) };
        let b = if self.transposed.1 { (n, k) } else { (k, n) };
        let shapes = [a, b, (m, n)];
        let leading = [a.0 + 3, b.0 + 1, m + 2];
        let strides = [0, 1, 2].map(|at| leading[at] * shapes[at].1 + 5);
        let kinds = [self.input, self.input, self.output];
        let made = [0usize, 1, 2].map(|at| {
            // The allocation ends with the last matrix's last element. Nothing may touch the memory after it.
            let last = leading[at] * (shapes[at].1 - 1) + shapes[at].0;
            let count = strides[at] * (self.batches - 1) + last;
            let (bytes, numbers) = stored(kinds[at], &noise(at as u32 + 20, count));
            (lib.upload(&bytes), numbers)
        });
        let device = [made[0].0, made[1].0, made[2].0];
        Operands { shapes, leading, strides, device, numbers: made.map(|(_, numbers)| numbers) }
    }

    /// One element of alpha op(A) op(B) + beta C.
    fn expected(&self, operands: &Operands, batch: usize, row: usize, column: usize) -> f64 {
        let at = |which: usize, row: usize, column: usize| {
            operands.numbers[which][batch * operands.strides[which] + row + column * operands.leading[which]]
        };
        let sum: f64 = (0..self.sizes.2)
            .map(|k| {
                let a = if self.transposed.0 { at(0, k, row) } else { at(0, row, k) };
                a * if self.transposed.1 { at(1, column, k) } else { at(1, k, column) }
            })
            .sum();
        f64::from(self.alpha) * sum + f64::from(self.beta) * at(2, row, column)
    }

    fn tolerance(&self) -> f64 {
        match self.output {
            hip::HIP_R_16F => 4e-3,
            hip::HIP_R_16BF => 4e-2,
            hip::HIP_R_32I => 0.0,
            _ => 2e-5,
        }
    }

    /// Compares D with the expected values, and checks that the gaps between its columns still hold C's values.
    /// `finish` applies the epilogue to an element, given its row.
    fn compare(&self, lib: &Libraries, operands: &Operands, finish: impl Fn(usize, f64) -> f64) {
        let count = operands.numbers[2].len();
        let bytes = lib.download(operands.device[2].cast_const(), count * bytes_of(self.output));
        let found = values(self.output, &bytes);
        let mut inside = vec![false; count];
        for batch in 0..self.batches {
            for column in 0..self.sizes.1 {
                for row in 0..self.sizes.0 {
                    let place = batch * operands.strides[2] + row + column * operands.leading[2];
                    inside[place] = true;
                    let expected = finish(row, self.expected(operands, batch, row, column));
                    let error = (found[place] - expected).abs() / expected.abs().max(1.0);
                    assert!(
                        error <= self.tolerance(),
                        "({batch}, {row}, {column}): {} not {expected}",
                        found[place]
                    );
                }
            }
        }
        for (place, &number) in operands.numbers[2].iter().enumerate().filter(|&(place, _)| !inside[place]) {
            assert_eq!(found[place], number, "padding at {place}");
        }
    }
}

fn cases() -> Vec<Case> {
    let types = [
        (hip::HIP_R_32F, hip::HIP_R_32F),
        (hip::HIP_R_16F, hip::HIP_R_16F),
        (hip::HIP_R_16F, hip::HIP_R_32F),
        (hip::HIP_R_16BF, hip::HIP_R_16BF),
    ];
    let mut cases = Vec::new();
    for (number, &(input, output)) in types.iter().enumerate() {
        for transposed in [(false, false), (true, false), (false, true), (true, true)] {
            let sizes = [(1, 1, 1), (65, 33, 17), (7, 130, 600), (64, 64, 64)]
                [(number + usize::from(transposed.0)) % 4];
            let batches = if transposed.1 { 3 } else { 1 };
            cases.push(Case { sizes, transposed, batches, input, output, alpha: 0.5, beta: -1.25 });
        }
    }
    cases
}

#[test]
fn rocblas_multiplies() {
    let (lib, _turn) = libraries();
    let mut handle = std::ptr::null_mut();
    let stream = lib.stream();
    let check = |status| assert_eq!(status, rb::rocblas_status_success, "{}", lib.fault());
    // SAFETY: the pointers are to local variables, and the objects are alive.
    unsafe {
        check((lib.rocblas.rocblas_create_handle)(&mut handle));
        check((lib.rocblas.rocblas_set_stream)(handle, stream));
    }
    let mut all = cases();
    all.push(Case {
        sizes: (9, 10, 70),
        transposed: (true, false),
        batches: 2,
        input: hip::HIP_R_8I,
        output: hip::HIP_R_32F,
        alpha: 1.0,
        beta: 0.0,
    });
    for case in all {
        let operands = case.operands(lib);
        let bytes = case.input == hip::HIP_R_8I;
        let output = if bytes { hip::HIP_R_32I } else { case.output };
        let (compute, one, zero) = if bytes {
            (rb::rocblas_datatype_i32_r, 1i32.to_le_bytes(), 0i32.to_le_bytes())
        } else {
            (rb::rocblas_datatype_f32_r, case.alpha.to_le_bytes(), case.beta.to_le_bytes())
        };
        let operation = |transposed| {
            if transposed { rb::rocblas_operation_transpose } else { rb::rocblas_operation_none }
        };
        let (m, n, k) = case.sizes;
        let [a, b, d] = operands.device.map(|address| address.cast::<c_void>());
        let [lda, ldb, ldd] = operands.leading.map(|leading| leading as i32);
        let [stride_a, stride_b, stride_d] = operands.strides.map(|stride| stride as i64);
        let (input, d_type) = (rocblas_type(case.input), rocblas_type(output));
        // SAFETY: the operands are as large as these sizes say.
        check(unsafe {
            (lib.rocblas.rocblas_gemm_strided_batched_ex)(
                handle,
                operation(case.transposed.0),
                operation(case.transposed.1),
                m as i32,
                n as i32,
                k as i32,
                one.as_ptr().cast(),
                a,
                input,
                lda,
                stride_a,
                b,
                input,
                ldb,
                stride_b,
                zero.as_ptr().cast(),
                d,
                d_type,
                ldd,
                stride_d,
                d,
                d_type,
                ldd,
                stride_d,
                case.batches as i32,
                compute,
                rb::rocblas_gemm_algo_standard,
                0,
                0,
            )
        });
        lib.check(lib.wait(stream));
        if bytes {
            let count = operands.numbers[2].len();
            let found = values(hip::HIP_R_32I, &lib.download(operands.device[2].cast_const(), count * 4));
            assert_eq!(found[0], case.expected(&operands, 0, 0, 0));
        } else {
            case.compare(lib, &operands, |_, value| value);
        }
    }
    // If the compute type is fp16, alpha and beta are fp16 too.
    let case = Case {
        sizes: (4, 4, 4),
        transposed: (false, false),
        batches: 1,
        input: hip::HIP_R_16F,
        output: hip::HIP_R_16F,
        alpha: 2.0,
        beta: 0.0,
    };
    let operands = case.operands(lib);
    let (alpha, beta) = (f16::from_f32(2.0), f16::ZERO);
    let [a, b, d] = operands.device.map(|address| address.cast::<c_void>());
    let f16_type = rb::rocblas_datatype_f16_r;
    let gemm = |lda: i32, compute, leading: i32| {
        // SAFETY: the operands are as large as these sizes say, or the emulator refuses them.
        unsafe {
            (lib.rocblas.rocblas_gemm_ex)(
                handle,
                rb::rocblas_operation_none,
                rb::rocblas_operation_none,
                4,
                4,
                4,
                (&raw const alpha).cast(),
                a,
                f16_type,
                lda,
                b,
                f16_type,
                5,
                (&raw const beta).cast(),
                d,
                f16_type,
                leading,
                d,
                f16_type,
                leading,
                compute,
                rb::rocblas_gemm_algo_standard,
                0,
                0,
            )
        }
    };
    check(gemm(7, f16_type, 6));
    lib.check(lib.wait(stream));
    case.compare(lib, &operands, |_, value| value);
    assert_eq!(gemm(3, f16_type, 6), rb::rocblas_status_invalid_size, "the leading dimension is too small");
    assert_eq!(gemm(7, rb::rocblas_datatype_f64_r, 6), rb::rocblas_status_not_implemented);
    // D ends after the end of its allocation.
    check(gemm(7, f16_type, 600));
    assert_eq!(lib.wait(stream), hip::hipErrorLaunchFailure);
    assert!(lib.fault().contains("rocblas: matrix D"), "{}", lib.fault());
}

/// The hipBLASLt objects of a product.
struct Plan {
    description: lt::hipblasLtMatmulDesc_t,
    layouts: [lt::hipblasLtMatrixLayout_t; 3],
}

fn plan(lib: &Libraries, case: &Case, operands: &Operands, compute: lt::hipblasComputeType_t) -> Plan {
    let check = |status| assert_eq!(status, lt::HIPBLAS_STATUS_SUCCESS, "{}", lib.fault());
    let functions = &lib.hipblaslt;
    let mut plan = Plan { description: std::ptr::null_mut(), layouts: [std::ptr::null_mut(); 3] };
    // SAFETY: the pointers are to local variables, and the attributes have their documented sizes.
    unsafe {
        check((functions.hipblasLtMatmulDescCreate)(&mut plan.description, compute, hip::HIP_R_32F));
        for (name, transposed) in [
            (lt::HIPBLASLT_MATMUL_DESC_TRANSA, case.transposed.0),
            (lt::HIPBLASLT_MATMUL_DESC_TRANSB, case.transposed.1),
        ] {
            let operation = if transposed { lt::HIPBLAS_OP_T } else { lt::HIPBLAS_OP_N };
            check((functions.hipblasLtMatmulDescSetAttribute)(
                plan.description,
                name,
                (&raw const operation).cast(),
                4,
            ));
        }
        for at in 0..3 {
            let kind = if at == 2 { case.output } else { case.input };
            let ((rows, columns), leading) = (operands.shapes[at], operands.leading[at] as i64);
            let layout = &mut plan.layouts[at];
            check((functions.hipblasLtMatrixLayoutCreate)(
                layout,
                kind,
                rows as u64,
                columns as u64,
                leading,
            ));
            let (batches, stride) = (case.batches as i32, operands.strides[at] as i64);
            let set = functions.hipblasLtMatrixLayoutSetAttribute;
            check(set(*layout, lt::HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, (&raw const batches).cast(), 4));
            check(set(
                *layout,
                lt::HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                (&raw const stride).cast(),
                8,
            ));
        }
    }
    plan
}

#[test]
fn hipblaslt_multiplies_with_bias_and_activation() {
    let (lib, _turn) = libraries();
    let functions = &lib.hipblaslt;
    let check = |status| assert_eq!(status, lt::HIPBLAS_STATUS_SUCCESS, "{}", lib.fault());
    let stream = lib.stream();
    let (mut handle, mut preference) = (std::ptr::null_mut(), std::ptr::null_mut());
    let most: u64 = 1 << 20;
    // SAFETY: the pointers are to local variables.
    unsafe {
        check((functions.hipblasLtCreate)(&mut handle));
        check((functions.hipblasLtMatmulPreferenceCreate)(&mut preference));
        let name = lt::HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        check((functions.hipblasLtMatmulPreferenceSetAttribute)(
            preference,
            name,
            (&raw const most).cast(),
            8,
        ));
    }
    let workspace = lib.empty::<u8>(most as usize);
    let gelu =
        |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
    type Function = fn(f64, &dyn Fn(f64) -> f64) -> f64;
    let epilogues: [(lt::hipblasLtEpilogue_t, bool, Function); 6] = [
        (lt::HIPBLASLT_EPILOGUE_DEFAULT, false, |x, _| x),
        (lt::HIPBLASLT_EPILOGUE_BIAS, true, |x, _| x),
        (lt::HIPBLASLT_EPILOGUE_RELU_BIAS, true, |x, _| x.max(0.0)),
        (lt::HIPBLASLT_EPILOGUE_GELU_BIAS, true, |x, gelu| gelu(x)),
        (lt::HIPBLASLT_EPILOGUE_SWISH_BIAS_EXT, true, |x, _| x / (1.0 + (-x).exp())),
        (lt::HIPBLASLT_EPILOGUE_RELU, false, |x, _| x.max(0.0)),
    ];
    for (number, case) in cases().into_iter().enumerate() {
        let (epilogue, with_bias, function) = epilogues[number % epilogues.len()];
        let operands = case.operands(lib);
        let plan = plan(lib, &case, &operands, lt::HIPBLAS_COMPUTE_32F);
        let bias_kind = if number % 2 == 0 { case.output } else { hip::HIP_R_32F };
        let (bias_bytes, bias) = stored(bias_kind, &noise(40, case.sizes.0));
        let bias_place = lib.upload(&bias_bytes);
        let set = functions.hipblasLtMatmulDescSetAttribute;
        let mut found = 0;
        let [a, b, d] = plan.layouts;
        // SAFETY: the objects are alive, and the operands are as large as the layouts say.
        unsafe {
            check(set(plan.description, lt::HIPBLASLT_MATMUL_DESC_EPILOGUE, (&raw const epilogue).cast(), 4));
            if with_bias {
                check(set(
                    plan.description,
                    lt::HIPBLASLT_MATMUL_DESC_BIAS_POINTER,
                    (&raw const bias_place).cast(),
                    8,
                ));
                check(set(
                    plan.description,
                    lt::HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                    (&raw const bias_kind).cast(),
                    4,
                ));
            }
            let mut results: [lt::hipblasLtMatmulHeuristicResult_t; 4] = std::mem::zeroed();
            check((functions.hipblasLtMatmulAlgoGetHeuristic)(
                handle,
                plan.description,
                a,
                b,
                d,
                d,
                preference,
                4,
                results.as_mut_ptr(),
                &mut found,
            ));
            assert_eq!(found, if case.sizes.2 >= 512 { 2 } else { 1 }, "long dot products can be split");
            let [pa, pb, pd] = operands.device.map(|address| address.cast::<c_void>());
            let multiply = |bytes: usize| {
                (functions.hipblasLtMatmul)(
                    handle,
                    plan.description,
                    (&raw const case.alpha).cast(),
                    pa,
                    a,
                    pb,
                    b,
                    (&raw const case.beta).cast(),
                    pd,
                    d,
                    pd,
                    d,
                    &results[0].algo,
                    workspace.cast(),
                    bytes,
                    stream,
                )
            };
            if results[0].workspaceSize > 0 {
                assert_eq!(multiply(results[0].workspaceSize - 1), lt::HIPBLAS_STATUS_INVALID_VALUE);
            }
            check(multiply(results[0].workspaceSize));
        }
        lib.check(lib.wait(stream));
        case.compare(lib, &operands, |row, value| {
            function(if with_bias { value + bias[row] } else { value }, &gelu)
        });
    }
}

#[test]
fn hipblaslt_refuses_what_it_has_no_kernel_for() {
    let (lib, _turn) = libraries();
    let functions = &lib.hipblaslt;
    let mut case = cases().remove(4);
    let operands = case.operands(lib);
    let (mut handle, mut preference) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the pointers are to local variables.
    unsafe {
        assert_eq!((functions.hipblasLtCreate)(&mut handle), lt::HIPBLAS_STATUS_SUCCESS);
        assert_eq!((functions.hipblasLtMatmulPreferenceCreate)(&mut preference), lt::HIPBLAS_STATUS_SUCCESS);
    }
    let ask = |plan: &Plan| {
        let mut count = 0;
        let [a, b, d] = plan.layouts;
        // SAFETY: the objects are alive, and there is room for one result.
        unsafe {
            let mut result: lt::hipblasLtMatmulHeuristicResult_t = std::mem::zeroed();
            (functions.hipblasLtMatmulAlgoGetHeuristic)(
                handle,
                plan.description,
                a,
                b,
                d,
                d,
                preference,
                1,
                &mut result,
                &mut count,
            )
        }
    };
    assert_eq!(ask(&plan(lib, &case, &operands, lt::HIPBLAS_COMPUTE_32F)), lt::HIPBLAS_STATUS_SUCCESS);
    assert_eq!(ask(&plan(lib, &case, &operands, lt::HIPBLAS_COMPUTE_16F)), lt::HIPBLAS_STATUS_NOT_SUPPORTED);
    let wrong = plan(lib, &case, &operands, lt::HIPBLAS_COMPUTE_32F);
    // SAFETY: the description is alive, and the value has eight bytes.
    unsafe {
        // An attribute of a wrong length, and an activation that hipBLASLt lacks.
        let set = functions.hipblasLtMatmulDescSetAttribute;
        let epilogue = 3u64;
        let name = lt::HIPBLASLT_MATMUL_DESC_EPILOGUE;
        assert_eq!(
            set(wrong.description, name, (&raw const epilogue).cast(), 8),
            lt::HIPBLAS_STATUS_INVALID_VALUE
        );
        assert_eq!(set(wrong.description, name, (&raw const epilogue).cast(), 4), lt::HIPBLAS_STATUS_SUCCESS);
    }
    assert_eq!(ask(&wrong), lt::HIPBLAS_STATUS_NOT_SUPPORTED);
    case.transposed = (true, true);
    assert_eq!(
        ask(&plan(lib, &case, &operands, lt::HIPBLAS_COMPUTE_32F)),
        lt::HIPBLAS_STATUS_INVALID_VALUE,
        "the shapes do not match"
    );
}

/// The number with a code in e4m3, whose largest number is `largest`. NaNs have the value of a number that does not
/// exist.
fn fp8_value(code: u8, largest: f64) -> f64 {
    let bias = if largest == 240.0 { 8 } else { 7 };
    let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7) / 8.0);
    let magnitude = match exponent {
        0 => mantissa * 2f64.powi(1 - bias),
        _ => (1.0 + mantissa) * 2f64.powi(exponent - bias),
    };
    if code < 0x80 { magnitude } else { -magnitude }
}

/// Codes in e4m3 of all kinds but NaNs, and their values.
fn codes(lib: &Libraries, seed: u32, count: usize, largest: f64) -> (*mut u8, Vec<f64>) {
    let code = |number: f32| match (number * 127.9).floor() as i8 as u8 {
        0x7f | 0x80 | 0xff => 0x38,
        code => code,
    };
    let codes: Vec<u8> = noise(seed, count).into_iter().map(code).collect();
    (lib.upload(&codes), codes.iter().map(|&code| fp8_value(code, largest)).collect())
}

/// Factors in e4m3 with a scale for each row of D and for each column.
#[test]
fn hipblaslt_multiplies_8_bit_floats_with_a_scale_for_each_row_and_column() {
    let Some(largest) = crate::largest_fp8() else { return };
    let (lib, _turn) = libraries();
    let functions = &lib.hipblaslt;
    let kind = if largest == 240.0 { hip::HIP_R_8F_E4M3_FNUZ } else { hip::HIP_R_8F_E4M3 };
    let (m, n, k) = (24, 10, 32);
    let ((a, of_a), (b, of_b)) = (codes(lib, 81, m * k, largest), codes(lib, 82, n * k, largest));
    let (of_rows, of_columns) = (noise(83, m), noise(84, n));
    let (row_scales, column_scales) = (lib.upload(&of_rows), lib.upload(&of_columns));
    let d = lib.empty::<u16>(m * n);
    let (mut handle, mut description) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut layouts = [std::ptr::null_mut(); 3];
    let ok = |status: lt::hipblasStatus_t| assert_eq!(status, lt::HIPBLAS_STATUS_SUCCESS, "{}", lib.fault());
    let set = |description: lt::hipblasLtMatmulDesc_t, name: u32, value: *const c_void, bytes: usize| {
        // SAFETY: the value has this many bytes.
        ok(unsafe { (functions.hipblasLtMatmulDescSetAttribute)(description, name as _, value, bytes) });
    };
    let (alpha, beta) = (1.0f32, 0.0f32);
    // SAFETY: all pointers are to local variables or to device memory of the sizes that the layouts state.
    unsafe {
        ok((functions.hipblasLtCreate)(&mut handle));
        ok((functions.hipblasLtMatmulDescCreate)(&mut description, lt::HIPBLAS_COMPUTE_32F, hip::HIP_R_32F));
        for (layout, (kind, rows, columns)) in
            layouts.iter_mut().zip([(kind, k, m), (kind, k, n), (hip::HIP_R_16F, m, n)])
        {
            ok((functions.hipblasLtMatrixLayoutCreate)(
                layout,
                kind,
                rows as u64,
                columns as u64,
                rows as i64,
            ));
        }
    }
    let of_each_row = 3u32;
    let numbers = [
        (lt::HIPBLASLT_MATMUL_DESC_TRANSA, &lt::HIPBLAS_OP_T),
        (lt::HIPBLASLT_MATMUL_DESC_A_SCALE_MODE, &of_each_row),
        (lt::HIPBLASLT_MATMUL_DESC_B_SCALE_MODE, &of_each_row),
    ];
    for (name, value) in numbers {
        set(description, name, std::ptr::from_ref(value).cast(), 4);
    }
    let pointers = [
        (lt::HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER, row_scales),
        (lt::HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER, column_scales),
    ];
    for (name, pointer) in pointers {
        set(description, name, (&raw const pointer).cast(), 8);
    }
    let [la, lb, ld] = layouts;
    let (stream, none) = (lib.stream(), std::ptr::null_mut());
    // SAFETY: as above.
    ok(unsafe {
        (functions.hipblasLtMatmul)(
            handle,
            description,
            (&raw const alpha).cast(),
            a.cast(),
            la,
            b.cast(),
            lb,
            (&raw const beta).cast(),
            d.cast(),
            ld,
            d.cast(),
            ld,
            std::ptr::null(),
            none,
            0,
            stream,
        )
    });
    lib.check(lib.wait(stream));
    for (index, found) in lib.download(d, m * n).into_iter().enumerate() {
        let found = f16::from_bits(found).to_f64();
        let (column, row) = (index / m, index % m);
        let terms = || of_a[row * k..][..k].iter().zip(&of_b[column * k..]).map(|(a, b)| a * b);
        let scale = f64::from(of_rows[row]) * f64::from(of_columns[column]);
        let (expected, size) =
            (terms().sum::<f64>() * scale, terms().map(f64::abs).sum::<f64>() * scale.abs());
        if expected.abs() < 6e4 {
            let allowed = expected.abs() / 1000.0 + 1e-6 * size + 1e-6;
            assert!((found - expected).abs() <= allowed, "({row}, {column}): {found}, not {expected}");
        }
    }
}
