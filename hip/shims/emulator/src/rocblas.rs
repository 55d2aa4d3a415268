//! rocBLAS's C interface: `gemm_ex` and `gemm_strided_batched_ex`, on the handle's stream, and the lists of their
//! solutions.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex};

use hip_runtime_sys::{hipErrorLaunchFailure, hipStream_t};
use rocblas_sys as rb;
use rocblas_sys::beta_bindings::signature as beta_signature;
use rocblas_sys::{
    rocblas_atomics_mode, rocblas_datatype, rocblas_gemm_algo, rocblas_handle, rocblas_int,
    rocblas_operation, rocblas_pointer_mode, rocblas_status, rocblas_stride, signature,
};

use crate::c_interface::{self, answer};
use crate::calls::report;
use crate::gemm::{Activation, Gemm, Matrix, Type, scalar};
use crate::handles::Handles;
use crate::hip::{current_card, current_device, stream_of};
use crate::settings::settings;
use crate::stream::{AFTER_KERNEL, Failure, spend};
use crate::sync::lock;

/// The object behind a rocBLAS handle.
struct Handle {
    device: i32,
    settings: Mutex<HandleSettings>,
}

#[derive(Clone, Copy)]
struct HandleSettings {
    stream: usize,
    pointer_mode: rocblas_pointer_mode,
}

static HANDLES: Handles<Handle> = Handles::new();
const VERSION: &[u8] = b"4.4.1.rocm-emulator\0";

fn handle_of(handle: rocblas_handle) -> Result<Arc<Handle>, rocblas_status> {
    HANDLES.get(handle.addr()).ok_or(rb::rocblas_status_invalid_handle)
}

/// # Safety
/// The pointer is null or may be written to.
unsafe fn write_result<T>(place: *mut T, value: T) -> Result<(), rocblas_status> {
    // SAFETY: as the caller promises.
    unsafe { c_interface::write_result(place, value) }.map_err(|_| rb::rocblas_status_invalid_pointer)
}

/// The solution indexes of every GEMM whose A is transposed, and of every other one. All of them compute it in the
/// same way.
const SOLUTIONS: [rocblas_int; 3] = [11, 12, 2003];
const SOLUTIONS_WITHOUT_TRANSPOSITION: [rocblas_int; 2] = [13, 2004];

/// The solutions with this operation on A.
fn solutions(of_a: rocblas_operation) -> &'static [rocblas_int] {
    if of_a == rb::rocblas_operation_none { &SOLUTIONS_WITHOUT_TRANSPOSITION } else { &SOLUTIONS }
}

/// Writes the number of solutions with this operation on A, or as many indexes as there is room for.
///
/// # Safety
/// `count` is null or may be read and written. `list` is null or has room for so many indexes as `count` says.
unsafe fn list_solutions(
    of_a: rocblas_operation,
    list: *mut rocblas_int,
    count: *mut rocblas_int,
) -> Result<(), rocblas_status> {
    let solutions = solutions(of_a);
    if list.is_null() {
        // SAFETY: as the caller promises.
        return unsafe { write_result(count, solutions.len() as rocblas_int) };
    }
    // SAFETY: as the caller promises.
    let room = unsafe { count.as_ref() }.copied().ok_or(rb::rocblas_status_invalid_pointer)?;
    let room = usize::try_from(room).map_err(|_| rb::rocblas_status_invalid_size)?;
    for (index, &solution) in solutions.iter().enumerate().take(room) {
        // SAFETY: `list` has room for so many indexes.
        unsafe { list.add(index).write(solution) };
    }
    Ok(())
}

macro_rules! api {
    ($signatures:ident: $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            /// rocBLAS's function of this name.
            ///
            /// # Safety
            /// As rocBLAS's documentation says, pointers are valid, and matrices stay valid until the GEMM is done.
            #[allow(non_snake_case, reason = "rocBLAS's names")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> rocblas_status {
                answer(stringify!($name), rb::rocblas_status_internal_error, || $body)
            }
            const _: $signatures::$name = $name;
        )*
    };
}

api! {
    signature:

    fn rocblas_create_handle(handle: *mut rocblas_handle) {
        let device = current_device().map_err(|_| rb::rocblas_status_internal_error)?;
        let settings = HandleSettings { stream: 0, pointer_mode: rb::rocblas_pointer_mode_host };
        let made = HANDLES.add(Arc::new(Handle { device, settings: Mutex::new(settings) }));
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(handle, std::ptr::without_provenance_mut(made)) }
    }

    fn rocblas_destroy_handle(handle: rocblas_handle) {
        HANDLES.remove(handle.addr()).map(|_| ()).ok_or(rb::rocblas_status_invalid_handle)
    }

    fn rocblas_set_stream(handle: rocblas_handle, stream: hipStream_t) {
        let found = stream_of(stream).map_err(|_| rb::rocblas_status_invalid_value)?;
        let handle = handle_of(handle)?;
        if found.device != handle.device {
            return Err(rb::rocblas_status_invalid_value);
        }
        lock(&handle.settings).stream = stream.addr();
        Ok(())
    }

    fn rocblas_set_pointer_mode(handle: rocblas_handle, mode: rocblas_pointer_mode) {
        lock(&handle_of(handle)?.settings).pointer_mode = mode;
        if mode == rb::rocblas_pointer_mode_host { Ok(()) } else { Err(rb::rocblas_status_not_implemented) }
    }

    fn rocblas_set_atomics_mode(handle: rocblas_handle, _mode: rocblas_atomics_mode) { handle_of(handle).map(|_| ()) }

    fn rocblas_set_workspace(handle: rocblas_handle, address: *mut c_void, bytes: usize) {
        let handle = handle_of(handle)?;
        let regions = crate::memory::Regions::of(handle.device, (0, 0));
        if bytes > 0 && regions.find(address.addr() as u64, bytes).is_none() {
            report(&format!("rocblas_set_workspace: {}", regions.describe(address.addr() as u64)));
            return Err(rb::rocblas_status_invalid_value);
        }
        Ok(())
    }

    fn rocblas_get_version_string_size(bytes: *mut usize) {
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(bytes, VERSION.len()) }
    }

    fn rocblas_get_version_string(buffer: *mut c_char, bytes: usize) {
        if buffer.is_null() || bytes < VERSION.len() {
            return Err(rb::rocblas_status_invalid_size);
        }
        // SAFETY: the caller's buffer has `bytes` bytes.
        unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(VERSION.as_ptr(), VERSION.len()) };
        Ok(())
    }

    fn rocblas_gemm_ex(
        handle: rocblas_handle, trans_a: rocblas_operation, trans_b: rocblas_operation, m: rocblas_int, n: rocblas_int,
        k: rocblas_int, alpha: *const c_void, a: *const c_void, a_type: rocblas_datatype, lda: rocblas_int,
        b: *const c_void, b_type: rocblas_datatype, ldb: rocblas_int, beta: *const c_void, c: *const c_void,
        c_type: rocblas_datatype, ldc: rocblas_int, d: *mut c_void, d_type: rocblas_datatype, ldd: rocblas_int,
        compute_type: rocblas_datatype, algo: rocblas_gemm_algo, solution: i32, _flags: u32,
    ) {
        let matrices = [(a.addr(), a_type, lda, 0), (b.addr(), b_type, ldb, 0), (c.addr(), c_type, ldc, 0), (d.addr(), d_type, ldd, 0)];
        let call = Call { operations: [trans_a, trans_b], sizes: [m, n, k], batches: 1, matrices, compute_type, algo, solution };
        // SAFETY: the caller passes valid pointers.
        unsafe { call.submit(handle, alpha, beta) }
    }

    fn rocblas_gemm_strided_batched_ex(
        handle: rocblas_handle, trans_a: rocblas_operation, trans_b: rocblas_operation, m: rocblas_int, n: rocblas_int,
        k: rocblas_int, alpha: *const c_void, a: *const c_void, a_type: rocblas_datatype, lda: rocblas_int,
        stride_a: rocblas_stride, b: *const c_void, b_type: rocblas_datatype, ldb: rocblas_int,
        stride_b: rocblas_stride, beta: *const c_void, c: *const c_void, c_type: rocblas_datatype, ldc: rocblas_int,
        stride_c: rocblas_stride, d: *mut c_void, d_type: rocblas_datatype, ldd: rocblas_int,
        stride_d: rocblas_stride, batches: rocblas_int, compute_type: rocblas_datatype, algo: rocblas_gemm_algo,
        solution: i32, _flags: u32,
    ) {
        let matrices = [
            (a.addr(), a_type, lda, stride_a), (b.addr(), b_type, ldb, stride_b), (c.addr(), c_type, ldc, stride_c),
            (d.addr(), d_type, ldd, stride_d),
        ];
        let call = Call { operations: [trans_a, trans_b], sizes: [m, n, k], batches, matrices, compute_type, algo, solution };
        // SAFETY: the caller passes valid pointers.
        unsafe { call.submit(handle, alpha, beta) }
    }
}

api! {
    beta_signature:

    fn rocblas_gemm_ex_get_solutions(
        handle: rocblas_handle, trans_a: rocblas_operation, _trans_b: rocblas_operation, _m: rocblas_int, _n: rocblas_int,
        _k: rocblas_int, _alpha: *const c_void, _a: *const c_void, _a_type: rocblas_datatype, _lda: rocblas_int,
        _b: *const c_void, _b_type: rocblas_datatype, _ldb: rocblas_int, _beta: *const c_void, _c: *const c_void,
        _c_type: rocblas_datatype, _ldc: rocblas_int, _d: *mut c_void, _d_type: rocblas_datatype, _ldd: rocblas_int,
        _compute_type: rocblas_datatype, _algo: rocblas_gemm_algo, _flags: u32, list: *mut rocblas_int,
        count: *mut rocblas_int,
    ) {
        handle_of(handle)?;
        // SAFETY: the caller passes null or a list of the length at `count`.
        unsafe { list_solutions(trans_a, list, count) }
    }

    fn rocblas_gemm_strided_batched_ex_get_solutions(
        handle: rocblas_handle, trans_a: rocblas_operation, _trans_b: rocblas_operation, _m: rocblas_int, _n: rocblas_int,
        _k: rocblas_int, _alpha: *const c_void, _a: *const c_void, _a_type: rocblas_datatype, _lda: rocblas_int,
        _stride_a: rocblas_stride, _b: *const c_void, _b_type: rocblas_datatype, _ldb: rocblas_int,
        _stride_b: rocblas_stride, _beta: *const c_void, _c: *const c_void, _c_type: rocblas_datatype, _ldc: rocblas_int,
        _stride_c: rocblas_stride, _d: *mut c_void, _d_type: rocblas_datatype, _ldd: rocblas_int,
        _stride_d: rocblas_stride, _batches: rocblas_int, _compute_type: rocblas_datatype, _algo: rocblas_gemm_algo,
        _flags: u32, list: *mut rocblas_int, count: *mut rocblas_int,
    ) {
        handle_of(handle)?;
        // SAFETY: the caller passes null or a list of the length at `count`.
        unsafe { list_solutions(trans_a, list, count) }
    }
}

/// The arguments of a GEMM. Each of the matrices A, B, C and D has a type, a leading dimension and a stride.
struct Call {
    operations: [rocblas_operation; 2],
    sizes: [rocblas_int; 3],
    batches: rocblas_int,
    matrices: [(usize, rocblas_datatype, rocblas_int, rocblas_stride); 4],
    compute_type: rocblas_datatype,
    algo: rocblas_gemm_algo,
    solution: i32,
}

fn type_of(kind: rocblas_datatype) -> Option<Type> {
    match kind {
        rb::rocblas_datatype_f32_r => Some(Type::F32),
        rb::rocblas_datatype_f16_r => Some(Type::F16),
        rb::rocblas_datatype_bf16_r => Some(Type::Bf16),
        rb::rocblas_datatype_i8_r => Some(Type::I8),
        rb::rocblas_datatype_i32_r => Some(Type::I32),
        _ => None,
    }
}

/// Whether rocBLAS documents this combination of three types: that of A and B, that of C and D, and the compute type.
fn supported(ab: Type, cd: Type, compute: Type) -> bool {
    matches!(
        (ab, cd, compute),
        (Type::F32, Type::F32, Type::F32)
            | (Type::F16 | Type::Bf16, Type::F32, Type::F32)
            | (Type::F16, Type::F16, Type::F32 | Type::F16)
            | (Type::Bf16, Type::Bf16, Type::F32)
            | (Type::I8, Type::I32, Type::I32)
    )
}

impl Call {
    /// Checks the arguments as rocBLAS does and submits the GEMM to the handle's stream.
    ///
    /// # Safety
    /// `alpha` and `beta` point to numbers of the compute type, or are null.
    unsafe fn submit(
        self,
        handle: rocblas_handle,
        alpha: *const c_void,
        beta: *const c_void,
    ) -> Result<(), rocblas_status> {
        if settings()
            .rocblas
            .as_ref()
            .is_some_and(|all| all.split(',').all(|one| one != current_card().architecture))
        {
            eprintln!("rocm-emulator: rocBLAS cannot read TensileLibrary.dat and ends the process");
            std::process::abort();
        }
        let handle = handle_of(handle)?;
        let settings = *lock(&handle.settings);
        let mut transposed = [false; 2];
        for (flag, operation) in transposed.iter_mut().zip(self.operations) {
            *flag = match operation {
                rb::rocblas_operation_none => false,
                rb::rocblas_operation_transpose | rb::rocblas_operation_conjugate_transpose => true,
                _ => return Err(rb::rocblas_status_invalid_value),
            };
        }
        let size = |value: rocblas_int| usize::try_from(value).map_err(|_| rb::rocblas_status_invalid_size);
        let [m, n, k] = self.sizes;
        let (m, n, k, batches) = (size(m)?, size(n)?, size(k)?, size(self.batches)?);
        let [transpose_a, transpose_b] = transposed;
        let shapes = [
            if transpose_a { (k, m) } else { (m, k) },
            if transpose_b { (n, k) } else { (k, n) },
            (m, n),
            (m, n),
        ];
        let mut made = Vec::with_capacity(4);
        for ((address, kind, leading, stride), (rows, columns)) in self.matrices.into_iter().zip(shapes) {
            let leading = size(leading)?;
            if leading < rows.max(1) {
                return Err(rb::rocblas_status_invalid_size);
            }
            let kind = type_of(kind).ok_or(rb::rocblas_status_not_implemented)?;
            made.push(Matrix { address: address as u64, kind, rows, columns, leading, stride });
        }
        if m == 0 || n == 0 || batches == 0 {
            return Ok(());
        }
        let (a, b, c, d) = (made[0], made[1], made[2], made[3]);
        let compute = type_of(self.compute_type).ok_or(rb::rocblas_status_not_implemented)?;
        if a.kind != b.kind || c.kind != d.kind || !supported(a.kind, c.kind, compute) {
            return Err(rb::rocblas_status_not_implemented);
        }
        let chosen = match self.algo {
            rb::rocblas_gemm_algo_standard => None,
            rb::rocblas_gemm_algo_solution_index
                if solutions(self.operations[0]).contains(&self.solution) =>
            {
                Some(self.solution)
            }
            _ => return Err(rb::rocblas_status_invalid_value),
        };
        if alpha.is_null()
            || beta.is_null()
            || d.address == 0
            || (k > 0 && (a.address == 0 || b.address == 0))
        {
            return Err(rb::rocblas_status_invalid_pointer);
        }
        // If C and D begin at the same address, they must be the same matrix.
        if c.address == d.address && (c.leading != d.leading || c.stride != d.stride) {
            return Err(rb::rocblas_status_invalid_value);
        }
        // SAFETY: both point to a number of the compute type.
        let (alpha, beta) = unsafe { (scalar(alpha, compute), scalar(beta, compute)) };
        let all = crate::settings::settings();
        let is_wrong = all.is_wrong_library("rocblas", transpose_a)
            || chosen.is_some_and(|solution| all.is_wrong(&format!("rocblas {solution}")));
        let alpha = if is_wrong { alpha * -0.5 } else { alpha };
        let delays = [all.slow_rocblas.filter(|_| chosen.is_none()), all.time_of_gemm(transpose_a)];
        if beta != 0.0 && c.address == 0 {
            return Err(rb::rocblas_status_invalid_pointer);
        }
        let gemm = Gemm {
            m,
            n,
            k,
            batches,
            transpose_a,
            transpose_b,
            alpha,
            beta,
            a,
            b,
            c,
            d,
            bias: None,
            scales: None,
            activation: Activation::None,
            device: handle.device,
        };
        let stream = stream_of(std::ptr::without_provenance_mut(settings.stream))
            .map_err(|_| rb::rocblas_status_internal_error)?;
        let work = Arc::new(move || {
            let failed =
                |message| Failure { code: hipErrorLaunchFailure, message: format!("rocblas: {message}") };
            delays.into_iter().flatten().for_each(spend);
            let is_after_kernel = AFTER_KERNEL.replace(false);
            all.slow_after_kernel.filter(|_| chosen.is_some() && is_after_kernel).into_iter().for_each(spend);
            gemm.run().map_err(failed)
        });
        stream.submit(work).map_err(|_| rb::rocblas_status_internal_error)
    }
}

/// rocBLAS's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn rocblas_status_to_string(status: rocblas_status) -> *const c_char {
    rb::status_name(status).as_ptr()
}
const _: signature::rocblas_status_to_string = rocblas_status_to_string;
