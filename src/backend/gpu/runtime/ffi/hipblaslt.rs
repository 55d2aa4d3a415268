//! hipBLASLt: GEMMs with epilogues. A GEMM is planned once and run often.
//!
//! A [`Plan`] holds the matrix layouts of one shape and an algorithm for it. A [`Descriptor`] holds the epilogue and
//! the bias of a layer. Neither depends on a stream, so all slots share them.

use super::super::error::{GpuError, Result};
use super::super::fp8::Fp8Format;
use super::super::maker::Maker;
use super::gemm::{ElementType, Epilogue, GemmOperands, GemmShape, WeightLayout};
use super::hip::{Address, Device, DeviceBuffer};
use super::stream::Stream;
use hip_runtime_sys as hip;
use hip_runtime_sys::loader::file_of;
use hipblaslt_sys as sys;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::ptr::{from_ref, null_mut};
use std::sync::Arc;

/// The table of hipBLASLt's functions, which lives until the process ends.
pub(crate) type Library = &'static sys::HipblasLt;

/// `HIPBLAS_OP_N` and `HIPBLAS_OP_T`.
const OPERATION_NONE: i32 = 111;
const OPERATION_TRANSPOSE: i32 = 112;

/// Loads hipBLASLt, or NVIDIA's cuBLASLt, and calls none of its functions. cuBLASLt is loaded from `folder`, if the user
/// has named one.
pub(crate) fn load(maker: Maker, folder: Option<&Path>) -> Result<Library> {
    // The library stays loaded until the process ends, so its function table is never freed either.
    Ok(Box::leak(Box::new(match maker {
        Maker::Amd => sys::HipblasLt::load()?,
        Maker::Nvidia => hip_on_cuda::hipblaslt(folder)?,
    })))
}

/// The path of the library's file, as the dynamic linker opened it.
pub(crate) fn file(maker: Maker, library: Library) -> Option<PathBuf> {
    match maker {
        Maker::Amd => file_of(library.hipblasLtCreate as usize),
        Maker::Nvidia => hip_on_cuda::hipblaslt_file(),
    }
}

fn check(status: sys::hipblasStatus_t, call: impl FnOnce() -> String) -> Result<()> {
    let name = match status {
        sys::HIPBLAS_STATUS_SUCCESS => return Ok(()),
        sys::HIPBLAS_STATUS_NOT_INITIALIZED => "HIPBLAS_STATUS_NOT_INITIALIZED",
        sys::HIPBLAS_STATUS_ALLOC_FAILED => "HIPBLAS_STATUS_ALLOC_FAILED",
        sys::HIPBLAS_STATUS_INVALID_VALUE => "HIPBLAS_STATUS_INVALID_VALUE",
        sys::HIPBLAS_STATUS_MAPPING_ERROR => "HIPBLAS_STATUS_MAPPING_ERROR",
        sys::HIPBLAS_STATUS_EXECUTION_FAILED => "HIPBLAS_STATUS_EXECUTION_FAILED",
        sys::HIPBLAS_STATUS_INTERNAL_ERROR => "HIPBLAS_STATUS_INTERNAL_ERROR",
        sys::HIPBLAS_STATUS_NOT_SUPPORTED => "HIPBLAS_STATUS_NOT_SUPPORTED",
        sys::HIPBLAS_STATUS_ARCH_MISMATCH => "HIPBLAS_STATUS_ARCH_MISMATCH",
        sys::HIPBLAS_STATUS_INVALID_ENUM => "HIPBLAS_STATUS_INVALID_ENUM",
        _ => "unknown status",
    };
    Err(GpuError::Call { call: call(), reason: format!("{name} ({status})") })
}

fn data_type(element: ElementType) -> hip::hipDataType {
    match element {
        ElementType::Fp32 => hip::HIP_R_32F,
        ElementType::Fp16 => hip::HIP_R_16F,
        ElementType::Bf16 => hip::HIP_R_16BF,
        ElementType::Int8 => hip::HIP_R_8I,
        ElementType::Fp8(Fp8Format::Ocp) => hip::HIP_R_8F_E4M3,
        ElementType::Fp8(Fp8Format::Fnuz) => hip::HIP_R_8F_E4M3_FNUZ,
    }
}

/// The library's number for an epilogue; `None` if no version of it has this epilogue.
fn epilogue_code(epilogue: Epilogue) -> Option<sys::hipblasLtEpilogue_t> {
    match epilogue {
        Epilogue::None => Some(sys::HIPBLASLT_EPILOGUE_DEFAULT),
        Epilogue::Bias => Some(sys::HIPBLASLT_EPILOGUE_BIAS),
        Epilogue::BiasRelu => Some(sys::HIPBLASLT_EPILOGUE_RELU_BIAS),
        Epilogue::BiasSwish => Some(sys::HIPBLASLT_EPILOGUE_SWISH_BIAS_EXT),
        _ => None,
    }
}

/// Checks that the device has enough free memory for a handle of hipBLASLt or rocBLAS. A rocBLAS handle needs as much
/// memory as a hipBLASLt handle, because rocBLAS may create a hipBLASLt handle of its own.
///
/// Creating a hipBLASLt handle allocates 25 MiB, and ends the process if that fails
/// (<https://github.com/ROCm/rocm-libraries/issues/8917>).
pub(crate) fn check_room(device: Device) -> Result<()> {
    const ROOM: usize = 64 << 20;
    device.check_room(ROOM, "the BLAS libraries themselves")
}

/// The version of ROCm 6.0's hipBLASLt, 0.6.0, as `hipblasLtGetVersion` encodes it. Older versions number the data
/// types and compute types differently.
const OLDEST: i32 = 600;

/// Version 1.0.0, which came with ROCm 7.0 and brought the swish epilogue. Older versions return success for that
/// epilogue, but compute the plain GEMM, without bias and activation.
const FIRST_WITH_SWISH: i32 = 100_000;

/// A hipBLASLt handle. It is not bound to a stream, so all slots share it.
pub(crate) struct HipblasLt {
    library: Library,
    raw: sys::hipblasLtHandle_t,
    /// The library's version as `hipblasLtGetVersion` encodes it, if the library reports one.
    version: Option<i32>,
}

// SAFETY: a handle may be used from any thread.
unsafe impl Send for HipblasLt {}
// SAFETY: as above.
unsafe impl Sync for HipblasLt {}

impl HipblasLt {
    /// Creates a handle for the current device. Call [`check_room`] first.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] if the library is too old. Another error if it cannot create the handle.
    pub(crate) fn new(library: Library) -> Result<HipblasLt> {
        let mut raw = null_mut();
        // SAFETY: hipBLASLt writes one pointer; there is a device, so it does not end the process.
        let status = unsafe { (library.hipblasLtCreate)(&mut raw) };
        check(status, || "hipblasLtCreate".to_owned())?;
        let mut handle = HipblasLt { library, raw, version: None };
        let mut version = 0;
        // SAFETY: hipBLASLt writes one integer.
        let status = unsafe { (library.hipblasLtGetVersion)(handle.raw, &mut version) };
        if status == sys::HIPBLAS_STATUS_SUCCESS {
            handle.version = Some(version);
        }
        if handle.version.is_some_and(|version| version < OLDEST) {
            let (major, minor, patch) = (version / 100_000, version / 100 % 1000, version % 100);
            let file =
                file(Maker::Amd, library).map(|file| format!(" ({})", file.display())).unwrap_or_default();
            return Err(GpuError::Unsupported(format!(
                "hipBLASLt {major}.{minor}.{patch}{file} is older than 0.6.0, the version of ROCm 6.0, and numbers \
                 its types differently: update ROCm"
            )));
        }
        Ok(handle)
    }

    /// The library's version as `hipblasLtGetVersion` encodes it, if the library reports one.
    pub(crate) fn version(&self) -> Option<i32> {
        self.version
    }

    /// Whether the library computes `epilogue`. A library without a known version counts as an old one, because an old
    /// one gives wrong results without an error.
    pub(crate) fn supports(&self, epilogue: Epilogue) -> bool {
        match epilogue {
            Epilogue::BiasSwish => self.version.is_some_and(|version| version >= FIRST_WITH_SWISH),
            _ => epilogue_code(epilogue).is_some(),
        }
    }

    /// Returns up to `wanted` algorithms for a shape that need at most `workspace` bytes, in hipBLASLt's order from the
    /// best to the worst.
    ///
    /// `descriptor` must have the shape's epilogue. The weights have its layout.
    pub(crate) fn plans(
        &self,
        shape: &GemmShape,
        descriptor: &Descriptor,
        workspace: usize,
        wanted: usize,
    ) -> Result<Vec<Plan>> {
        let layouts = || -> Result<[Layout; 3]> {
            let input = descriptor.factors.unwrap_or(data_type(shape.input_type));
            let output = data_type(shape.output_type);
            let weights = shape.column_major_weights(descriptor.layout);
            let (size, [_, x, y]) = ((weights.rows, weights.columns), shape.batch_strides);
            let batch = shape.batch;
            Ok([
                Layout::new(self.library, input, size, weights.stride, (batch, weights.batch_stride))?,
                Layout::new(self.library, input, (shape.inputs, shape.rows), shape.x_stride, (batch, x))?,
                Layout::new(self.library, output, (shape.outputs, shape.rows), shape.y_stride, (batch, y))?,
            ])
        };
        let layouts = Arc::new(layouts()?);
        let [a, b, d] = &*layouts;
        let preference = Preference::new(self.library, workspace)?;
        let mut results: Vec<MaybeUninit<sys::hipblasLtMatmulHeuristicResult_t>> = Vec::new();
        results.resize_with(wanted, MaybeUninit::zeroed);
        let mut found = 0;
        // SAFETY: all descriptors are alive; hipBLASLt writes at most `wanted` results, and their number.
        let status = unsafe {
            (self.library.hipblasLtMatmulAlgoGetHeuristic)(
                self.raw,
                descriptor.raw,
                a.raw,
                b.raw,
                d.raw,
                d.raw,
                preference.raw,
                i32::try_from(wanted).unwrap_or(i32::MAX),
                results.as_mut_ptr().cast(),
                &mut found,
            )
        };
        check(status, || format!("hipblasLtMatmulAlgoGetHeuristic ({shape})"))?;
        let found = usize::try_from(found).unwrap_or(0).min(wanted);
        let plan = |result: MaybeUninit<sys::hipblasLtMatmulHeuristicResult_t>| {
            // SAFETY: hipBLASLt wrote this result, and all its fields are numbers, for which zeroed memory is valid
            // too.
            let result = unsafe { result.assume_init() };
            Plan { layouts: Arc::clone(&layouts), algorithm: result.algo, shape: *shape }
        };
        Ok(results.into_iter().take(found).map(plan).collect())
    }

    /// Enqueues a GEMM.
    ///
    /// # Safety
    /// The matrices must have the sizes of the plan's shape, the workspace must have the size that the plan was made
    /// for, and the descriptor must have the shape's epilogue, the layout of the weights, and a bias with one element
    /// for each output. All of them must stay allocated until the stream has finished the GEMM.
    pub(super) unsafe fn run(
        &self,
        stream: &Stream,
        plan: &Plan,
        descriptor: &Descriptor,
        operands: &GemmOperands,
        workspace: &DeviceBuffer,
    ) -> Result<()> {
        let alpha = 1.0_f32;
        let beta = if plan.shape.accumulate { 1.0_f32 } else { 0.0 };
        let y = operands.y.pointer();
        let [a, b, d] = &*plan.layouts;
        // SAFETY: the caller guarantees the memory; the scalars are read before the call returns.
        let status = unsafe {
            (self.library.hipblasLtMatmul)(
                self.raw,
                descriptor.raw,
                from_ref(&alpha).cast(),
                operands.weights.pointer(),
                a.raw,
                operands.x.pointer(),
                b.raw,
                from_ref(&beta).cast(),
                y,
                d.raw,
                y,
                d.raw,
                &plan.algorithm,
                workspace.address().pointer(),
                workspace.bytes(),
                stream.raw,
            )
        };
        check(status, || format!("hipblasLtMatmul ({})", plan.shape))
    }
}

impl Drop for HipblasLt {
    fn drop(&mut self) {
        // SAFETY: made by hipblasLtCreate and destroyed once. A drop cannot report an error.
        let _ = unsafe { (self.library.hipblasLtDestroy)(self.raw) };
    }
}

/// The matrix layouts of a shape, and an algorithm for it.
pub(crate) struct Plan {
    /// The layouts of W, x and y.
    layouts: Arc<[Layout; 3]>,
    algorithm: sys::hipblasLtMatmulAlgo_t,
    shape: GemmShape,
}

impl Plan {
    pub(crate) fn shape(&self) -> &GemmShape {
        &self.shape
    }

    /// The number by which the library knows the algorithm in every process. It is the first word of the algorithm's
    /// data, where `hipblaslt_ext::getIndexFromAlgo` reads it.
    pub(crate) fn solution(&self) -> i32 {
        let [a, b, c, d, ..] = self.algorithm.data;
        i32::from_ne_bytes([a, b, c, d])
    }
}

/// The epilogue of a GEMM, with the bias of one layer.
pub(crate) struct Descriptor {
    library: Library,
    raw: sys::hipblasLtMatmulDesc_t,
    /// The layout of W.
    layout: WeightLayout,
    /// The type of W and x, if it is not the shape's.
    factors: Option<hip::hipDataType>,
}

/// Factors in e4m3 with a scale for each row of W and of x, by which the sums are multiplied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScaledFactors {
    pub(crate) format: Fp8Format,
    /// One fp32 number for each output.
    pub(crate) weights_scales: Address,
    /// One fp32 number for each row.
    pub(crate) row_scales: Address,
}

/// `HIPBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F` of hipBLASLt's `hipblasLtMatmulMatrixScale_t`: a scale for each row of A
/// or column of B.
const SCALE_OF_EACH_ROW: u32 = 3;

// SAFETY: hipBLASLt only reads a descriptor after it is made.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    /// Describes the GEMM of W transposed and x with fp32 sums, followed by `epilogue`. W has the layout `layout`.
    /// The epilogue reads the bias at `bias`, whose elements have the type `bias_type`.
    pub(crate) fn new(
        library: Library,
        layout: WeightLayout,
        epilogue: Epilogue,
        (bias, bias_type): (Address, ElementType),
    ) -> Result<Descriptor> {
        let code = epilogue_code(epilogue)
            .ok_or_else(|| GpuError::Unsupported(format!("hipBLASLt lacks the epilogue {epilogue:?}")))?;
        let mut raw = null_mut();
        // SAFETY: hipBLASLt writes one pointer.
        let status = unsafe {
            (library.hipblasLtMatmulDescCreate)(&mut raw, sys::HIPBLAS_COMPUTE_32F, hip::HIP_R_32F)
        };
        check(status, || "hipblasLtMatmulDescCreate".to_owned())?;
        let descriptor = Descriptor { library, raw, layout, factors: None };
        let of_weights = match layout {
            WeightLayout::Transposed => OPERATION_NONE,
            WeightLayout::Plain | WeightLayout::Preshuffled | WeightLayout::Bytes => OPERATION_TRANSPOSE,
        };
        descriptor.set(sys::HIPBLASLT_MATMUL_DESC_TRANSA, "TRANSA", of_weights)?;
        descriptor.set(sys::HIPBLASLT_MATMUL_DESC_TRANSB, "TRANSB", OPERATION_NONE)?;
        descriptor.set(sys::HIPBLASLT_MATMUL_DESC_EPILOGUE, "EPILOGUE", code)?;
        if epilogue != Epilogue::None {
            let bias: *mut c_void = bias.pointer();
            descriptor.set(
                sys::HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                "BIAS_DATA_TYPE",
                data_type(bias_type),
            )?;
            descriptor.set(sys::HIPBLASLT_MATMUL_DESC_BIAS_POINTER, "BIAS_POINTER", bias)?;
        }
        Ok(descriptor)
    }

    /// The same for factors in e4m3.
    pub(crate) fn scaled(mut self, factors: &ScaledFactors) -> Result<Descriptor> {
        let ScaledFactors { format, weights_scales, row_scales } = *factors;
        let (weights_scales, row_scales): (*mut c_void, *mut c_void) =
            (weights_scales.pointer(), row_scales.pointer());
        self.set(sys::HIPBLASLT_MATMUL_DESC_A_SCALE_MODE, "A_SCALE_MODE", SCALE_OF_EACH_ROW)?;
        self.set(sys::HIPBLASLT_MATMUL_DESC_B_SCALE_MODE, "B_SCALE_MODE", SCALE_OF_EACH_ROW)?;
        self.set(sys::HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER, "A_SCALE_POINTER", weights_scales)?;
        self.set(sys::HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER, "B_SCALE_POINTER", row_scales)?;
        self.factors = Some(match format {
            Fp8Format::Ocp => hip::HIP_R_8F_E4M3,
            Fp8Format::Fnuz => hip::HIP_R_8F_E4M3_FNUZ,
        });
        Ok(self)
    }

    fn set<T: Copy>(
        &self,
        attribute: sys::hipblasLtMatmulDescAttributes_t,
        name: &str,
        value: T,
    ) -> Result<()> {
        // SAFETY: the descriptor is alive, and the value is read before the call returns.
        let status = unsafe {
            (self.library.hipblasLtMatmulDescSetAttribute)(
                self.raw,
                attribute,
                from_ref(&value).cast(),
                size_of::<T>(),
            )
        };
        check(status, || format!("hipblasLtMatmulDescSetAttribute({name})"))
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by hipblasLtMatmulDescCreate and destroyed once. A drop cannot report an error.
        let _ = unsafe { (self.library.hipblasLtMatmulDescDestroy)(self.raw) };
    }
}

/// The memory layout of one matrix.
struct Layout {
    library: Library,
    raw: sys::hipblasLtMatrixLayout_t,
}

// SAFETY: hipBLASLt only reads a layout after it is made.
unsafe impl Send for Layout {}
// SAFETY: as above.
unsafe impl Sync for Layout {}

impl Layout {
    /// Describes a column-major matrix of `(rows, columns)` with `stride` elements from one column to the next. The
    /// last pair is the batch size, and the distance in elements between the matrices of two consecutive GEMMs.
    fn new(
        library: Library,
        element: hip::hipDataType,
        (rows, columns): (usize, usize),
        stride: usize,
        (batch, batch_stride): (usize, usize),
    ) -> Result<Layout> {
        let mut raw = null_mut();
        // SAFETY: hipBLASLt writes one pointer.
        let status = unsafe {
            (library.hipblasLtMatrixLayoutCreate)(
                &mut raw,
                element,
                rows as u64,
                columns as u64,
                stride as i64,
            )
        };
        check(status, || format!("hipblasLtMatrixLayoutCreate of {rows} x {columns}"))?;
        let layout = Layout { library, raw };
        if batch > 1 {
            let count = i32::try_from(batch).unwrap_or(i32::MAX);
            layout.set(sys::HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, "BATCH_COUNT", count)?;
            let offset = batch_stride as i64;
            layout.set(sys::HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, "STRIDED_BATCH_OFFSET", offset)?;
        }
        Ok(layout)
    }

    fn set<T: Copy>(
        &self,
        attribute: sys::hipblasLtMatrixLayoutAttribute_t,
        name: &str,
        value: T,
    ) -> Result<()> {
        // SAFETY: the layout is alive, and the value is read before the call returns.
        let status = unsafe {
            (self.library.hipblasLtMatrixLayoutSetAttribute)(
                self.raw,
                attribute,
                from_ref(&value).cast(),
                size_of::<T>(),
            )
        };
        check(status, || format!("hipblasLtMatrixLayoutSetAttribute({name})"))
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: made by hipblasLtMatrixLayoutCreate and destroyed once. A drop cannot report an error.
        let _ = unsafe { (self.library.hipblasLtMatrixLayoutDestroy)(self.raw) };
    }
}

/// The limit on the workspace, for the heuristic that proposes algorithms.
struct Preference {
    library: Library,
    raw: sys::hipblasLtMatmulPreference_t,
}

impl Preference {
    fn new(library: Library, workspace: usize) -> Result<Preference> {
        let mut raw = null_mut();
        // SAFETY: hipBLASLt writes one pointer.
        let status = unsafe { (library.hipblasLtMatmulPreferenceCreate)(&mut raw) };
        check(status, || "hipblasLtMatmulPreferenceCreate".to_owned())?;
        let preference = Preference { library, raw };
        let bytes = workspace as u64;
        // SAFETY: the preference is alive, and the value is read before the call returns.
        let status = unsafe {
            (library.hipblasLtMatmulPreferenceSetAttribute)(
                raw,
                sys::HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                from_ref(&bytes).cast(),
                size_of::<u64>(),
            )
        };
        check(status, || format!("hipblasLtMatmulPreferenceSetAttribute(MAX_WORKSPACE_BYTES = {bytes})"))?;
        Ok(preference)
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: made by hipblasLtMatmulPreferenceCreate and destroyed once. A drop cannot report an error.
        let _ = unsafe { (self.library.hipblasLtMatmulPreferenceDestroy)(self.raw) };
    }
}
