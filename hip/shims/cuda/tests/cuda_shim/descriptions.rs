//! Tests of hipBLASLt's layouts, descriptors and preferences, which the shim makes with cuBLASLt. The tests need
//! cuBLASLt, but no GPU.

use std::ptr::{from_ref, null_mut};

use hip_runtime_sys as hip;
use hipblaslt_sys as lt;

use super::libraries;

#[test]
fn attributes_are_accepted_and_epilogues_that_cublaslt_lacks_are_refused() {
    let lib = libraries();
    let blas = &lib.hipblaslt;
    let mut description = null_mut();
    // SAFETY: the pointer is to a local variable.
    let made = unsafe {
        (blas.hipblasLtMatmulDescCreate)(&mut description, lt::HIPBLAS_COMPUTE_32F, hip::HIP_R_32F)
    };
    if made == lt::HIPBLAS_STATUS_NOT_INITIALIZED {
        return println!("skipped: no cuBLASLt (RUKH_CUDA_SHIM_PATH can name its folder)");
    }
    assert_eq!(made, lt::HIPBLAS_STATUS_SUCCESS);
    let set = |name, value: u32| {
        // SAFETY: the description is alive, and the value has four bytes.
        unsafe { (blas.hipblasLtMatmulDescSetAttribute)(description, name, from_ref(&value).cast(), 4) }
    };
    assert_eq!(set(lt::HIPBLASLT_MATMUL_DESC_TRANSA, lt::HIPBLAS_OP_T), lt::HIPBLAS_STATUS_SUCCESS);
    assert_eq!(set(lt::HIPBLASLT_MATMUL_DESC_TRANSB, lt::HIPBLAS_OP_N), lt::HIPBLAS_STATUS_SUCCESS);
    assert_eq!(set(lt::HIPBLASLT_MATMUL_DESC_TRANSB, 1), lt::HIPBLAS_STATUS_INVALID_ENUM);
    assert_eq!(set(lt::HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, hip::HIP_R_16F), lt::HIPBLAS_STATUS_SUCCESS);
    for epilogue in
        [lt::HIPBLASLT_EPILOGUE_DEFAULT, lt::HIPBLASLT_EPILOGUE_BIAS, lt::HIPBLASLT_EPILOGUE_RELU_BIAS]
    {
        assert_eq!(set(lt::HIPBLASLT_MATMUL_DESC_EPILOGUE, epilogue), lt::HIPBLAS_STATUS_SUCCESS);
    }
    let swish = set(lt::HIPBLASLT_MATMUL_DESC_EPILOGUE, lt::HIPBLASLT_EPILOGUE_SWISH_BIAS_EXT);
    assert_eq!(swish, lt::HIPBLAS_STATUS_NOT_SUPPORTED);
    let (mut layout, mut preference) = (null_mut(), null_mut());
    let (count, stride, workspace) = (36_i32, 4096_i64, 32_u64 << 20);
    // SAFETY: the pointers are to local variables of the given sizes.
    unsafe {
        let created = (blas.hipblasLtMatrixLayoutCreate)(&mut layout, hip::HIP_R_16BF, 768, 1024, 768);
        assert_eq!(created, lt::HIPBLAS_STATUS_SUCCESS);
        let set = blas.hipblasLtMatrixLayoutSetAttribute;
        let batch = set(layout, lt::HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, from_ref(&count).cast(), 4);
        assert_eq!(batch, lt::HIPBLAS_STATUS_SUCCESS);
        let offset =
            set(layout, lt::HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, from_ref(&stride).cast(), 8);
        assert_eq!(offset, lt::HIPBLAS_STATUS_SUCCESS);
        assert_eq!((blas.hipblasLtMatmulPreferenceCreate)(&mut preference), lt::HIPBLAS_STATUS_SUCCESS);
        let most = lt::HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let limited =
            (blas.hipblasLtMatmulPreferenceSetAttribute)(preference, most, from_ref(&workspace).cast(), 8);
        assert_eq!(limited, lt::HIPBLAS_STATUS_SUCCESS);
        assert_eq!((blas.hipblasLtMatmulPreferenceDestroy)(preference), lt::HIPBLAS_STATUS_SUCCESS);
        assert_eq!((blas.hipblasLtMatrixLayoutDestroy)(layout), lt::HIPBLAS_STATUS_SUCCESS);
        assert_eq!((blas.hipblasLtMatmulDescDestroy)(description), lt::HIPBLAS_STATUS_SUCCESS);
    }
}
