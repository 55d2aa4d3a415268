//! rocBLAS. Each stream has a handle of its own, which works in memory that the slot owns.

use super::super::error::{GpuError, Result};
use super::gemm::{ElementType, GemmOperands, GemmShape, WeightLayout};
use super::hip::DeviceBuffer;
use super::stream::Stream;
use hip_runtime_sys::loader::file_of;
use rocblas_sys as sys;
use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::ptr::{from_ref, null_mut};
use std::sync::OnceLock;

/// The table of rocBLAS's functions, which lives until the process ends.
pub(crate) type Library = &'static sys::Rocblas;

/// Loads rocBLAS and calls none of its functions.
pub(crate) fn load() -> Result<Library> {
    // The library stays loaded until the process ends, so its function table is never freed either.
    Ok(Box::leak(Box::new(sys::Rocblas::load()?)))
}

/// The path of the library's file, as the dynamic linker opened it.
pub(crate) fn file(library: Library) -> Option<PathBuf> {
    file_of(library.rocblas_create_handle as usize)
}

/// The library's version string, e.g. `4.4.1.7f1e3b5`.
pub(crate) fn version(library: Library) -> Result<String> {
    let mut length = 0;
    // SAFETY: rocBLAS writes one number.
    let status = unsafe { (library.rocblas_get_version_string_size)(&mut length) };
    check(library, status, || "rocblas_get_version_string_size".to_owned())?;
    let mut text = vec![0_u8; length.max(1)];
    // SAFETY: rocBLAS writes at most `text.len()` bytes, and ends them with a zero byte.
    let status = unsafe { (library.rocblas_get_version_string)(text.as_mut_ptr().cast(), text.len()) };
    check(library, status, || "rocblas_get_version_string".to_owned())?;
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// A rocBLAS handle for one stream.
pub(crate) struct Rocblas {
    library: Library,
    raw: sys::rocblas_handle,
}

// SAFETY: any thread may use a handle, but only one thread at a time. Only the slot that owns the handle uses it.
unsafe impl Send for Rocblas {}

fn check(library: Library, status: sys::rocblas_status, call: impl FnOnce() -> String) -> Result<()> {
    if status == sys::rocblas_status_success {
        return Ok(());
    }
    // SAFETY: the function takes any number, and returns a static string or null.
    let text = unsafe { (library.rocblas_status_to_string)(status) };
    let name = if text.is_null() {
        "unknown status".into()
    } else {
        // SAFETY: the string is static and ends with a zero byte.
        unsafe { CStr::from_ptr(text) }.to_string_lossy()
    };
    Err(GpuError::Call { call: call(), reason: format!("{name} ({status})") })
}

fn data_type(element: ElementType) -> sys::rocblas_datatype {
    match element {
        ElementType::Fp32 => sys::rocblas_datatype_f32_r,
        ElementType::Fp16 => sys::rocblas_datatype_f16_r,
        ElementType::Bf16 => sys::rocblas_datatype_bf16_r,
        // rocBLAS has no scales for rows, and is not asked for such GEMMs.
        ElementType::Int8 => sys::rocblas_datatype_i8_r,
        ElementType::Fp8(_) => sys::rocblas_datatype_f8_r,
    }
}

/// Converts a size to rocBLAS's 32-bit integer. Larger sizes become `i32::MAX`.
fn int(size: usize) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

impl Rocblas {
    /// Creates a handle for `stream` that works in `workspace` and allocates no memory itself. The caller must drop
    /// the handle before the stream and the workspace.
    pub(crate) fn new(library: Library, stream: &Stream, workspace: &DeviceBuffer) -> Result<Rocblas> {
        let mut raw = null_mut();
        // SAFETY: rocBLAS writes one pointer.
        let status = unsafe { (library.rocblas_create_handle)(&mut raw) };
        check(library, status, || "rocblas_create_handle".to_owned())?;
        let handle = Rocblas { library, raw };
        // SAFETY: handle and stream are alive.
        let status = unsafe { (library.rocblas_set_stream)(raw, stream.raw) };
        check(library, status, || "rocblas_set_stream".to_owned())?;
        // SAFETY: the handle is alive.
        let status = unsafe { (library.rocblas_set_pointer_mode)(raw, sys::rocblas_pointer_mode_host) };
        check(library, status, || "rocblas_set_pointer_mode".to_owned())?;
        let (pointer, bytes) = (workspace.address().pointer(), workspace.bytes());
        // SAFETY: the workspace has this length and outlives the handle.
        let status = unsafe { (library.rocblas_set_workspace)(raw, pointer, bytes) };
        check(library, status, || format!("rocblas_set_workspace of {bytes} bytes"))?;
        Ok(handle)
    }

    /// Enqueues a GEMM without an epilogue. `solution` selects a kernel by rocBLAS's solution index; `None` leaves
    /// the choice to rocBLAS.
    ///
    /// # Safety
    /// The matrices must have the shape's sizes, and must stay allocated until the stream has finished the GEMM.
    pub(super) unsafe fn run(
        &self,
        shape: &GemmShape,
        operands: &GemmOperands,
        solution: Option<i32>,
    ) -> Result<()> {
        let arguments = Arguments::new(shape, operands);
        let Arguments { m, n, k, of_a, lda, ldb, ldd, strides, batch, a, b, y, input, output, .. } =
            arguments;
        let (alpha, beta) = (from_ref(&arguments.alpha).cast(), from_ref(&arguments.beta).cast());
        let algorithm = match solution {
            Some(_) => sys::rocblas_gemm_algo_solution_index,
            None => sys::rocblas_gemm_algo_standard,
        };
        let solution = solution.unwrap_or(0);
        let status = if shape.batch == 1 {
            // SAFETY: the caller guarantees the matrices; the scalars are read before the call returns.
            unsafe {
                (self.library.rocblas_gemm_ex)(
                    self.raw, of_a, AS_IT_IS, m, n, k, alpha, a, input, lda, b, input, ldb, beta, y, output,
                    ldd, y, output, ldd, COMPUTE, algorithm, solution, FLAGS,
                )
            }
        } else {
            let [stride_a, stride_b, stride_d] = strides;
            // SAFETY: as above.
            unsafe {
                (self.library.rocblas_gemm_strided_batched_ex)(
                    self.raw, of_a, AS_IT_IS, m, n, k, alpha, a, input, lda, stride_a, b, input, ldb,
                    stride_b, beta, y, output, ldd, stride_d, y, output, ldd, stride_d, batch, COMPUTE,
                    algorithm, solution, FLAGS,
                )
            }
        };
        check(self.library, status, || format!("rocblas_gemm_ex ({shape})"))
    }

    /// The solution indexes of all kernels that rocBLAS has for a GEMM without an epilogue. There are none if this
    /// rocBLAS cannot list them.
    pub(super) fn solutions(&self, shape: &GemmShape, operands: &GemmOperands) -> Result<Vec<i32>> {
        let Some(beta) = beta_of(self.library) else { return Ok(Vec::new()) };
        let mut count = 0;
        self.list(beta, shape, operands, null_mut(), &mut count)?;
        let mut list = vec![0; usize::try_from(count).unwrap_or(0)];
        if !list.is_empty() {
            self.list(beta, shape, operands, list.as_mut_ptr(), &mut count)?;
        }
        // The GEMM table writes the library's own choice as a negative index.
        list.retain(|&solution| solution >= 0);
        list.sort_unstable();
        list.dedup();
        Ok(list)
    }

    /// Asks for the number of solutions, or with a `list` that has room for `count` for their indexes.
    fn list(
        &self,
        functions: &sys::RocblasBeta,
        shape: &GemmShape,
        operands: &GemmOperands,
        list: *mut i32,
        count: &mut i32,
    ) -> Result<()> {
        let arguments = Arguments::new(shape, operands);
        let Arguments { m, n, k, of_a, lda, ldb, ldd, strides, batch, a, b, y, input, output, .. } =
            arguments;
        let (alpha, beta) = (from_ref(&arguments.alpha).cast(), from_ref(&arguments.beta).cast());
        let algorithm = sys::rocblas_gemm_algo_solution_index;
        let status = if shape.batch == 1 {
            // SAFETY: no GEMM is computed. rocBLAS reads the scalars, and writes the number and at most `count`
            // indexes, for which the caller has made room.
            unsafe {
                (functions.rocblas_gemm_ex_get_solutions)(
                    self.raw, of_a, AS_IT_IS, m, n, k, alpha, a, input, lda, b, input, ldb, beta, y, output,
                    ldd, y, output, ldd, COMPUTE, algorithm, FLAGS, list, count,
                )
            }
        } else {
            let [stride_a, stride_b, stride_d] = strides;
            // SAFETY: as above.
            unsafe {
                (functions.rocblas_gemm_strided_batched_ex_get_solutions)(
                    self.raw, of_a, AS_IT_IS, m, n, k, alpha, a, input, lda, stride_a, b, input, ldb,
                    stride_b, beta, y, output, ldd, stride_d, y, output, ldd, stride_d, batch, COMPUTE,
                    algorithm, FLAGS, list, count,
                )
            }
        };
        check(self.library, status, || format!("rocblas_gemm_ex_get_solutions ({shape})"))
    }
}

/// The functions that list solutions, if they are in the same file as the others: a handle of one file must not be given
/// to another. Without them, rocBLAS chooses.
fn beta_of(library: Library) -> Option<&'static sys::RocblasBeta> {
    static BETA: OnceLock<Option<sys::RocblasBeta>> = OnceLock::new();
    let beta = BETA.get_or_init(|| sys::RocblasBeta::load().ok()).as_ref()?;
    let functions_file = file_of(beta.rocblas_gemm_ex_get_solutions as usize)?;
    (file(library)? == functions_file).then_some(beta)
}

/// The operation on B.
const AS_IT_IS: sys::rocblas_operation = sys::rocblas_operation_none;
const COMPUTE: sys::rocblas_datatype = sys::rocblas_datatype_f32_r;
const FLAGS: u32 = sys::rocblas_gemm_flags_none;

/// A GEMM in rocBLAS's terms. The result is both C and D.
struct Arguments {
    m: i32,
    n: i32,
    k: i32,
    /// The operation on A: none if the weights are transposed already.
    of_a: sys::rocblas_operation,
    alpha: f32,
    beta: f32,
    a: *const c_void,
    b: *const c_void,
    y: *mut c_void,
    input: sys::rocblas_datatype,
    output: sys::rocblas_datatype,
    lda: i32,
    ldb: i32,
    ldd: i32,
    /// The distances of A, B and D from one GEMM to the next.
    strides: [i64; 3],
    batch: i32,
}

impl Arguments {
    fn new(shape: &GemmShape, operands: &GemmOperands) -> Arguments {
        let weights = shape.column_major_weights(operands.layout);
        let [_, x_batch, y_batch] = shape.batch_strides;
        Arguments {
            m: int(shape.outputs),
            n: int(shape.rows),
            k: int(shape.inputs),
            of_a: match operands.layout {
                WeightLayout::Transposed => sys::rocblas_operation_none,
                WeightLayout::Plain | WeightLayout::Preshuffled | WeightLayout::Bytes => {
                    sys::rocblas_operation_transpose
                }
            },
            alpha: 1.0,
            beta: if shape.accumulate { 1.0 } else { 0.0 },
            a: operands.weights.pointer(),
            b: operands.x.pointer(),
            y: operands.y.pointer(),
            input: data_type(shape.input_type),
            output: data_type(shape.output_type),
            lda: int(weights.stride),
            ldb: int(shape.x_stride),
            ldd: int(shape.y_stride),
            strides: [weights.batch_stride, x_batch, y_batch].map(|stride| stride as i64),
            batch: int(shape.batch),
        }
    }
}

impl Drop for Rocblas {
    fn drop(&mut self) {
        // SAFETY: made by rocblas_create_handle and destroyed once. A drop cannot report an error.
        let _ = unsafe { (self.library.rocblas_destroy_handle)(self.raw) };
    }
}
