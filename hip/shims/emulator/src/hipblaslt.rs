//! hipBLASLt's C interface: GEMMs with bias and activation, whose algorithm the caller gets from the heuristic.
//!
//! The heuristic offers an algorithm without a workspace. For long dot products it also offers, in first place, an
//! algorithm that splits them and needs a workspace. A GEMM poisons as much of the workspace as its algorithm needs,
//! because a real GEMM overwrites its workspace.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hip_runtime_sys::{
    HIP_R_8F_E4M3, HIP_R_8F_E4M3_FNUZ, HIP_R_8I, HIP_R_16BF, HIP_R_16F, HIP_R_32F, HIP_R_32I, hipDataType,
    hipErrorLaunchFailure, hipStream_t,
};
use hipblaslt_sys as lt;
use hipblaslt_sys::{
    hipblasComputeType_t, hipblasLtHandle_t, hipblasLtMatmulAlgo_t, hipblasLtMatmulDesc_t,
    hipblasLtMatmulDescAttributes_t, hipblasLtMatmulHeuristicResult_t, hipblasLtMatmulPreference_t,
    hipblasLtMatmulPreferenceAttributes_t, hipblasLtMatrixLayout_t, hipblasLtMatrixLayoutAttribute_t,
    hipblasStatus_t, signature,
};

use crate::c_interface::{self, answer};
use crate::calls::report;
use crate::gemm::{Activation, Gemm, Matrix, Type, scalar};
use crate::handles::Handles;
use crate::hip::{current_card, current_device, stream_of};
use crate::memory::{POISON, Regions};
use crate::settings::settings;
use crate::stream::{Failure, spend};
use crate::sync::lock;

/// The bytes by which the emulator recognises its own algorithms. They follow the first word, which is the algorithm's
/// index, as in the real library.
const ALGORITHM_MARK: [u8; 4] = *b"RUKH";
/// The shortest dot product that may be split.
const SPLIT_FROM: usize = 512;

/// hipBLASLt's version in ROCm 6.0, the first whose data types have HIP's numbers.
const FIRST_WITH_HIP_TYPES: i32 = 600;
/// hipBLASLt's version in ROCm 7.0. Earlier versions silently leave out an epilogue that they do not know.
const FIRST_WITH_SWISH: i32 = 100_000;

struct Handle {
    device: i32,
}

#[derive(Clone, Copy)]
struct Layout {
    kind: hipDataType,
    rows: u64,
    columns: u64,
    leading: i64,
    batches: i32,
    stride: i64,
    order: i32,
}

/// A matmul descriptor, with its types and the attributes that were set.
struct Description {
    compute: hipblasComputeType_t,
    scale: hipDataType,
    attributes: BTreeMap<hipblasLtMatmulDescAttributes_t, u64>,
}

static HANDLES: Handles<Handle> = Handles::new();
static LAYOUTS: Handles<Mutex<Layout>> = Handles::new();
static DESCRIPTIONS: Handles<Mutex<Description>> = Handles::new();
static PREFERENCES: Handles<Mutex<u64>> = Handles::new();

fn get<T>(handles: &Handles<T>, handle: usize) -> Result<Arc<T>, hipblasStatus_t> {
    handles.get(handle).ok_or(lt::HIPBLAS_STATUS_INVALID_VALUE)
}

/// # Safety
/// The pointer is null or may be written to.
unsafe fn write_result<T>(place: *mut T, value: T) -> Result<(), hipblasStatus_t> {
    // SAFETY: as the caller promises.
    unsafe { c_interface::write_result(place, value) }.map_err(|_| lt::HIPBLAS_STATUS_INVALID_VALUE)
}

/// Reads an attribute of four or eight bytes, whose length must be exactly the documented one.
///
/// # Safety
/// The buffer has `bytes` bytes.
unsafe fn attribute(buffer: *const c_void, bytes: usize, wanted: usize) -> Result<u64, hipblasStatus_t> {
    if buffer.is_null() || bytes != wanted {
        report(&format!("hipblaslt: an attribute of {bytes} bytes instead of {wanted}"));
        return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
    }
    if wanted == 4 {
        // SAFETY: as the caller promises.
        return Ok(u64::from(unsafe { buffer.cast::<u32>().read_unaligned() }));
    }
    // SAFETY: the reason above applies here too.
    Ok(unsafe { buffer.cast::<u64>().read_unaligned() })
}

macro_rules! api {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            /// hipBLASLt's function of this name.
            ///
            /// # Safety
            /// As hipBLASLt's documentation says, pointers are valid, and matrices stay valid until the GEMM is
            /// done.
            #[allow(non_snake_case, reason = "hipBLASLt's names")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> hipblasStatus_t {
                answer(stringify!($name), lt::HIPBLAS_STATUS_INTERNAL_ERROR, || $body)
            }
            const _: signature::$name = $name;
        )*
    };
}

/// The device memory in bytes that the real library allocates for a handle.
const OWN_BYTES: u64 = 16 * 409_600 * 4;

api! {
    fn hipblasLtCreate(handle: *mut hipblasLtHandle_t) {
        let Ok(device) = current_device() else {
            // The real library does the same, so callers must ask for the number of devices first.
            eprintln!("rocm-emulator: hipblasLtCreate without a device ends the process");
            std::process::exit(1);
        };
        let free = current_card().memory_bytes.saturating_sub(crate::memory::allocated(device));
        if free < OWN_BYTES {
            // The real library does the same, so callers must make sure that there is enough memory.
            eprintln!("rocm-emulator: hipblasLtCreate without {OWN_BYTES} bytes ends the process");
            std::process::exit(1);
        }
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(handle, std::ptr::without_provenance_mut(HANDLES.add(Arc::new(Handle { device })))) }
    }

    fn hipblasLtDestroy(handle: hipblasLtHandle_t) {
        HANDLES.remove(handle.addr()).map(|_| ()).ok_or(lt::HIPBLAS_STATUS_NOT_INITIALIZED)
    }

    fn hipblasLtGetVersion(handle: hipblasLtHandle_t, version: *mut c_int) {
        HANDLES.get(handle.addr()).ok_or(lt::HIPBLAS_STATUS_NOT_INITIALIZED)?;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(version, settings().hipblaslt_version) }
    }

    fn hipblasLtMatrixLayoutCreate(layout: *mut hipblasLtMatrixLayout_t, kind: hipDataType, rows: u64, columns: u64, leading: i64) {
        if settings().hipblaslt_version < FIRST_WITH_HIP_TYPES {
            report(&format!("hipblaslt: this version does not number data types as HIP does ({kind})"));
            return Err(lt::HIPBLAS_STATUS_INVALID_ENUM);
        }
        let made = Layout { kind, rows, columns, leading, batches: 1, stride: 0, order: lt::HIPBLASLT_ORDER_COL as i32 };
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(layout, std::ptr::without_provenance_mut(LAYOUTS.add(Arc::new(Mutex::new(made))))) }
    }

    fn hipblasLtMatrixLayoutDestroy(layout: hipblasLtMatrixLayout_t) {
        LAYOUTS.remove(layout.addr()).map(|_| ()).ok_or(lt::HIPBLAS_STATUS_INVALID_VALUE)
    }

    fn hipblasLtMatrixLayoutSetAttribute(
        layout: hipblasLtMatrixLayout_t, name: hipblasLtMatrixLayoutAttribute_t, buffer: *const c_void, bytes: usize,
    ) {
        let layout = get(&LAYOUTS, layout.addr())?;
        let mut layout = lock(&layout);
        // SAFETY: the caller passes a valid buffer.
        let value = |wanted| unsafe { attribute(buffer, bytes, wanted) };
        match name {
            lt::HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT => layout.batches = value(4)? as i32,
            lt::HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET => layout.stride = value(8)? as i64,
            lt::HIPBLASLT_MATRIX_LAYOUT_TYPE => layout.kind = value(4)? as hipDataType,
            lt::HIPBLASLT_MATRIX_LAYOUT_ORDER => layout.order = value(4)? as i32,
            lt::HIPBLASLT_MATRIX_LAYOUT_ROWS => layout.rows = value(8)?,
            lt::HIPBLASLT_MATRIX_LAYOUT_COLS => layout.columns = value(8)?,
            lt::HIPBLASLT_MATRIX_LAYOUT_LD => layout.leading = value(8)? as i64,
            _ => return Err(lt::HIPBLAS_STATUS_INVALID_VALUE),
        }
        Ok(())
    }

    fn hipblasLtMatmulDescCreate(description: *mut hipblasLtMatmulDesc_t, compute: hipblasComputeType_t, scale: hipDataType) {
        let made = Description { compute, scale, attributes: BTreeMap::new() };
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(description, std::ptr::without_provenance_mut(DESCRIPTIONS.add(Arc::new(Mutex::new(made))))) }
    }

    fn hipblasLtMatmulDescDestroy(description: hipblasLtMatmulDesc_t) {
        DESCRIPTIONS.remove(description.addr()).map(|_| ()).ok_or(lt::HIPBLAS_STATUS_INVALID_VALUE)
    }

    fn hipblasLtMatmulDescSetAttribute(
        description: hipblasLtMatmulDesc_t, name: hipblasLtMatmulDescAttributes_t, buffer: *const c_void, bytes: usize,
    ) {
        let wanted = match name {
            lt::HIPBLASLT_MATMUL_DESC_TRANSA
            | lt::HIPBLASLT_MATMUL_DESC_TRANSB
            | lt::HIPBLASLT_MATMUL_DESC_EPILOGUE
            | lt::HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE
            | lt::HIPBLASLT_MATMUL_DESC_POINTER_MODE
            | lt::HIPBLASLT_MATMUL_DESC_A_SCALE_MODE
            | lt::HIPBLASLT_MATMUL_DESC_B_SCALE_MODE => 4,
            lt::HIPBLASLT_MATMUL_DESC_BIAS_POINTER
            | lt::HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER
            | lt::HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER => 8,
            _ => {
                report(&format!("hipblaslt: the emulator does not know attribute {name} of a matmul descriptor"));
                return Err(lt::HIPBLAS_STATUS_NOT_SUPPORTED);
            }
        };
        let description = get(&DESCRIPTIONS, description.addr())?;
        // SAFETY: the caller passes a valid buffer.
        let value = unsafe { attribute(buffer, bytes, wanted) }?;
        lock(&description).attributes.insert(name, value);
        Ok(())
    }

    fn hipblasLtMatmulPreferenceCreate(preference: *mut hipblasLtMatmulPreference_t) {
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(preference, std::ptr::without_provenance_mut(PREFERENCES.add(Arc::new(Mutex::new(0))))) }
    }

    fn hipblasLtMatmulPreferenceDestroy(preference: hipblasLtMatmulPreference_t) {
        PREFERENCES.remove(preference.addr()).map(|_| ()).ok_or(lt::HIPBLAS_STATUS_INVALID_VALUE)
    }

    fn hipblasLtMatmulPreferenceSetAttribute(
        preference: hipblasLtMatmulPreference_t, name: hipblasLtMatmulPreferenceAttributes_t, buffer: *const c_void,
        bytes: usize,
    ) {
        let preference = get(&PREFERENCES, preference.addr())?;
        match name {
            // SAFETY: the caller passes a valid buffer.
            lt::HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES => *lock(&preference) = unsafe { attribute(buffer, bytes, 8) }?,
            lt::HIPBLASLT_MATMUL_PREF_SEARCH_MODE => {}
            _ => return Err(lt::HIPBLAS_STATUS_INVALID_VALUE),
        }
        Ok(())
    }

    fn hipblasLtMatmulAlgoGetHeuristic(
        handle: hipblasLtHandle_t, description: hipblasLtMatmulDesc_t, a: hipblasLtMatrixLayout_t,
        b: hipblasLtMatrixLayout_t, c: hipblasLtMatrixLayout_t, d: hipblasLtMatrixLayout_t,
        preference: hipblasLtMatmulPreference_t, wanted: c_int, results: *mut hipblasLtMatmulHeuristicResult_t,
        count: *mut c_int,
    ) {
        HANDLES.get(handle.addr()).ok_or(lt::HIPBLAS_STATUS_NOT_INITIALIZED)?;
        let most = *lock(&*get(&PREFERENCES, preference.addr())?);
        if wanted < 1 || results.is_null() || count.is_null() {
            return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
        }
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(count, 0) }?;
        let gemm = describe(description, [a, b, c, d], [0; 4])?;
        misbehave(&gemm);
        let split_bytes = 4 * gemm.m * gemm.n * gemm.batches;
        let mut found = Vec::new();
        let of_a = algorithms_of(&gemm);
        if gemm.k >= SPLIT_FROM && split_bytes as u64 <= most {
            found.push((of_a + SPLIT, split_bytes));
        }
        found.push((of_a, 0));
        found.truncate(wanted as usize);
        for (number, &(algorithm, workspace)) in found.iter().enumerate() {
            let mut data = [0; 16];
            data[0] = algorithm;
            data[4..8].copy_from_slice(&ALGORITHM_MARK);
            let result = hipblasLtMatmulHeuristicResult_t {
                algo: hipblasLtMatmulAlgo_t { data, max_workspace_bytes: workspace },
                workspaceSize: workspace,
                state: lt::HIPBLAS_STATUS_SUCCESS,
                wavesCount: 1.0,
                reserved: [0; 4],
            };
            // SAFETY: the caller's list has as many places as it asks for results.
            unsafe { results.add(number).write(result) };
        }
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(count, found.len() as c_int) }
    }

    fn hipblasLtMatmul(
        handle: hipblasLtHandle_t, description: hipblasLtMatmulDesc_t, alpha: *const c_void, a: *const c_void,
        a_layout: hipblasLtMatrixLayout_t, b: *const c_void, b_layout: hipblasLtMatrixLayout_t, beta: *const c_void,
        c: *const c_void, c_layout: hipblasLtMatrixLayout_t, d: *mut c_void, d_layout: hipblasLtMatrixLayout_t,
        algorithm: *const hipblasLtMatmulAlgo_t, workspace: *mut c_void, workspace_bytes: usize, stream: hipStream_t,
    ) {
        let handle = HANDLES.get(handle.addr()).ok_or(lt::HIPBLAS_STATUS_NOT_INITIALIZED)?;
        if alpha.is_null() || beta.is_null() || a.is_null() || b.is_null() || d.is_null() {
            return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
        }
        let addresses = [a.addr(), b.addr(), c.addr(), d.addr()].map(|address| address as u64);
        let mut gemm = describe(description, [a_layout, b_layout, c_layout, d_layout], addresses)?;
        let scale = lock(&*get(&DESCRIPTIONS, description.addr())?).scale;
        let scale = type_of(scale).ok_or(lt::HIPBLAS_STATUS_INVALID_VALUE)?;
        // SAFETY: both point to a number of the scale type.
        (gemm.alpha, gemm.beta) = unsafe { (scalar(alpha, scale), scalar(beta, scale)) };
        gemm.device = handle.device;
        if settings().is_wrong_library("hipblaslt", gemm.transpose_a) {
            gemm.alpha *= -0.5;
        }
        if gemm.beta != 0.0 && c.is_null() {
            return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
        }
        let mut needed = 0;
        if !algorithm.is_null() {
            // SAFETY: the caller passes a valid pointer.
            let algorithm = unsafe { algorithm.read() };
            if algorithm.data[4..8] != ALGORITHM_MARK {
                report("hipblasLtMatmul: the algorithm does not come from the heuristic");
                return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
            }
            let kind = algorithm.data[0].wrapping_sub(algorithms_of(&gemm));
            if kind > SPLIT {
                report("hipblasLtMatmul: the algorithm is for another operation on A");
                return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
            }
            if kind == SPLIT {
                needed = 4 * gemm.m * gemm.n * gemm.batches;
            }
        }
        let regions = Regions::of(handle.device, (0, 0));
        let there = workspace_bytes == 0 || regions.find(workspace.addr() as u64, workspace_bytes).is_some();
        if needed > workspace_bytes || !there {
            report(&format!(
                "hipblasLtMatmul: the workspace of {workspace_bytes} bytes is smaller than the {needed} that the \
                 algorithm needs, or is not in device memory"
            ));
            return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
        }
        let space = workspace.expose_provenance();
        let stream = stream_of(stream).map_err(|_| lt::HIPBLAS_STATUS_INVALID_VALUE)?;
        let delay = settings().time_of_gemm(gemm.transpose_a);
        let work = Arc::new(move || {
            delay.into_iter().for_each(spend);
            let failed = |message: String| Failure { code: hipErrorLaunchFailure, message: format!("hipblaslt: {message}") };
            if workspace_bytes > 0 {
                let regions = Regions::of(gemm.device, (0, 0));
                regions.find(space as u64, workspace_bytes).ok_or_else(|| failed("the workspace was freed".to_owned()))?;
                let words = std::ptr::with_exposed_provenance_mut::<u32>(space);
                for word in 0..needed / 4 {
                    // SAFETY: the workspace is live and has this many words.
                    unsafe { words.add(word).write_unaligned(POISON) };
                }
            }
            if settings().is_wrong("hipblaslt together") && is_beside_another() {
                return Gemm { alpha: -0.5 * gemm.alpha, ..gemm.clone() }.run().map_err(failed);
            }
            gemm.run().map_err(failed)
        });
        stream.submit(work).map_err(|_| lt::HIPBLAS_STATUS_EXECUTION_FAILED)
    }
}

/// Whether another GEMM begins within a millisecond, or began less than a millisecond ago, on another stream.
fn is_beside_another() -> bool {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::SeqCst);
    let before = RUNNING.fetch_add(1, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(1));
    RUNNING.fetch_sub(1, Ordering::SeqCst);
    before > 0 || NUMBER.load(Ordering::SeqCst) > number + 1
}

/// What is added to the number of a split-K algorithm.
const SPLIT: u8 = 1;

/// The number of the first algorithm for the GEMM's operation on A.
fn algorithms_of(gemm: &Gemm) -> u8 {
    if gemm.transpose_a { 0 } else { 2 }
}

fn type_of(kind: hipDataType) -> Option<Type> {
    match kind {
        HIP_R_32F => Some(Type::F32),
        HIP_R_16F => Some(Type::F16),
        HIP_R_16BF => Some(Type::Bf16),
        HIP_R_8I => Some(Type::I8),
        HIP_R_32I => Some(Type::I32),
        HIP_R_8F_E4M3 => Some(Type::F8),
        HIP_R_8F_E4M3_FNUZ => Some(Type::F8Fnuz),
        _ => None,
    }
}

/// Ends the process or never returns, where the settings say so, as real releases did for some shapes.
fn misbehave(gemm: &Gemm) {
    match settings().heuristic_of([gemm.m, gemm.n, gemm.k]) {
        Some("crash") => {
            eprintln!("rocm-emulator: the heuristic ends the process");
            std::process::abort();
        }
        Some("hang") => loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        },
        _ => {}
    }
}

/// `HIPBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F`: a scale for each row of op(A) or column of op(B).
const SCALE_OF_EACH_ROW: u64 = 3;

/// Whether the emulated architecture begins like this.
fn has_fp8(architecture: &str) -> bool {
    current_card().architecture.starts_with(architecture)
}

/// Whether hipBLASLt has kernels for these types.
fn supported(ab: Type, cd: Type, compute: hipblasComputeType_t, scale: hipDataType) -> bool {
    match compute {
        lt::HIPBLAS_COMPUTE_32F | lt::HIPBLAS_COMPUTE_32F_FAST_16F | lt::HIPBLAS_COMPUTE_32F_FAST_16BF => {
            let types = match ab {
                Type::F32 => cd == Type::F32,
                Type::F16 => matches!(cd, Type::F16 | Type::F32),
                Type::Bf16 => matches!(cd, Type::Bf16 | Type::F32),
                // Each variant exists on some cards only.
                Type::F8 => matches!(cd, Type::F16 | Type::Bf16 | Type::F32) && has_fp8("gfx12"),
                Type::F8Fnuz => matches!(cd, Type::F16 | Type::Bf16 | Type::F32) && has_fp8("gfx942"),
                _ => false,
            };
            types && scale == HIP_R_32F
        }
        lt::HIPBLAS_COMPUTE_32I => ab == Type::I8 && matches!(cd, Type::I32 | Type::I8) && scale == HIP_R_32I,
        // hipBLASLt does not accumulate in fp16.
        _ => false,
    }
}

/// The GEMM that a descriptor and layouts describe, with the matrices at the given addresses.
fn describe(
    description: hipblasLtMatmulDesc_t,
    layouts: [hipblasLtMatrixLayout_t; 4],
    addresses: [u64; 4],
) -> Result<Gemm, hipblasStatus_t> {
    let description = get(&DESCRIPTIONS, description.addr())?;
    let description = lock(&description);
    let attribute = |name| description.attributes.get(&name).copied();
    let transposed = |name| match attribute(name).unwrap_or(u64::from(lt::HIPBLAS_OP_N)) as u32 {
        lt::HIPBLAS_OP_N => Ok(false),
        lt::HIPBLAS_OP_T | lt::HIPBLAS_OP_C => Ok(true),
        _ => Err(lt::HIPBLAS_STATUS_INVALID_VALUE),
    };
    let transpose_a = transposed(lt::HIPBLASLT_MATMUL_DESC_TRANSA)?;
    let transpose_b = transposed(lt::HIPBLASLT_MATMUL_DESC_TRANSB)?;
    if attribute(lt::HIPBLASLT_MATMUL_DESC_POINTER_MODE).unwrap_or_default() != 0 {
        return Err(lt::HIPBLAS_STATUS_NOT_SUPPORTED);
    }
    let mut matrices = Vec::with_capacity(4);
    let mut batches = None;
    for (layout, address) in layouts.into_iter().zip(addresses) {
        let layout = *lock(&*get(&LAYOUTS, layout.addr())?);
        if layout.order != lt::HIPBLASLT_ORDER_COL as i32 {
            return Err(lt::HIPBLAS_STATUS_NOT_SUPPORTED);
        }
        if layout.leading < layout.rows as i64
            || layout.batches < 1
            || *batches.get_or_insert(layout.batches) != layout.batches
        {
            return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
        }
        matrices.push(Matrix {
            address,
            kind: type_of(layout.kind).ok_or(lt::HIPBLAS_STATUS_NOT_SUPPORTED)?,
            rows: layout.rows as usize,
            columns: layout.columns as usize,
            leading: layout.leading as usize,
            stride: layout.stride,
        });
    }
    let (a, b, c, d) = (matrices[0], matrices[1], matrices[2], matrices[3]);
    let (m, k) = if transpose_a { (a.columns, a.rows) } else { (a.rows, a.columns) };
    let (k_of_b, n) = if transpose_b { (b.columns, b.rows) } else { (b.rows, b.columns) };
    if k != k_of_b
        || (c.rows, c.columns) != (m, n)
        || (d.rows, d.columns) != (m, n)
        || m == 0
        || n == 0
        || k == 0
    {
        report(&format!(
            "hipblaslt: shapes do not match: {m} x {k} by {k_of_b} x {n} to {} x {}",
            d.rows, d.columns
        ));
        return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
    }
    if a.kind != b.kind
        || c.kind != d.kind
        || !supported(a.kind, d.kind, description.compute, description.scale)
    {
        return Err(lt::HIPBLAS_STATUS_NOT_SUPPORTED);
    }
    let epilogue =
        attribute(lt::HIPBLASLT_MATMUL_DESC_EPILOGUE).unwrap_or(u64::from(lt::HIPBLASLT_EPILOGUE_DEFAULT));
    let (activation, with_bias) = match epilogue as u32 {
        lt::HIPBLASLT_EPILOGUE_DEFAULT => (Activation::None, false),
        lt::HIPBLASLT_EPILOGUE_BIAS => (Activation::None, true),
        lt::HIPBLASLT_EPILOGUE_RELU => (Activation::Relu, false),
        lt::HIPBLASLT_EPILOGUE_RELU_BIAS => (Activation::Relu, true),
        lt::HIPBLASLT_EPILOGUE_GELU => (Activation::Gelu, false),
        lt::HIPBLASLT_EPILOGUE_GELU_BIAS => (Activation::Gelu, true),
        lt::HIPBLASLT_EPILOGUE_SWISH_EXT | lt::HIPBLASLT_EPILOGUE_SWISH_BIAS_EXT
            if settings().hipblaslt_version < FIRST_WITH_SWISH =>
        {
            (Activation::None, false)
        }
        lt::HIPBLASLT_EPILOGUE_SWISH_EXT => (Activation::Swish, false),
        lt::HIPBLASLT_EPILOGUE_SWISH_BIAS_EXT => (Activation::Swish, true),
        _ => return Err(lt::HIPBLAS_STATUS_NOT_SUPPORTED),
    };
    let bias = if with_bias {
        let address = attribute(lt::HIPBLASLT_MATMUL_DESC_BIAS_POINTER).unwrap_or_default();
        // When the caller asks the heuristic, the bias may not have an address yet.
        if address == 0 && addresses[3] != 0 {
            return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
        }
        let kind = match attribute(lt::HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE) {
            Some(kind) => type_of(kind as hipDataType).ok_or(lt::HIPBLAS_STATUS_NOT_SUPPORTED)?,
            None => d.kind,
        };
        if kind != d.kind && kind != Type::F32 {
            return Err(lt::HIPBLAS_STATUS_NOT_SUPPORTED);
        }
        Some(Matrix { address, kind, rows: m, columns: 1, leading: m, stride: 0 })
    } else {
        None
    };
    let modes = [lt::HIPBLASLT_MATMUL_DESC_A_SCALE_MODE, lt::HIPBLASLT_MATMUL_DESC_B_SCALE_MODE];
    let scales = match modes.map(|mode| attribute(mode).unwrap_or_default()) {
        [0, 0] => None,
        [SCALE_OF_EACH_ROW, SCALE_OF_EACH_ROW] if matches!(a.kind, Type::F8 | Type::F8Fnuz) => {
            let of = |name, rows: usize| {
                let address = attribute(name).unwrap_or_default();
                Matrix { address, kind: Type::F32, rows, columns: 1, leading: rows, stride: 0 }
            };
            Some([
                of(lt::HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER, m),
                of(lt::HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER, n),
            ])
        }
        _ => return Err(lt::HIPBLAS_STATUS_NOT_SUPPORTED),
    };
    Ok(Gemm {
        m,
        n,
        k,
        batches: batches.unwrap_or(1) as usize,
        transpose_a,
        transpose_b,
        alpha: 1.0,
        beta: 0.0,
        a,
        b,
        c,
        d,
        bias,
        scales,
        activation,
        device: 0,
    })
}
