//! Tests that calls return an error, and do not end the process, if there is no driver or card.

use std::ptr::null_mut;

use hip_runtime_sys as hip;

use super::libraries;

#[test]
fn without_a_card_calls_return_an_error() {
    let lib = libraries();
    let (status, count) = lib.devices();
    if status == hip::hipSuccess {
        println!("skipped: there is a card");
        return assert!(count > 0);
    }
    assert!(
        [hip::hipErrorNoDevice, hip::hipErrorInitializationError].contains(&status),
        "{}",
        lib.hip.describe(status)
    );
    assert_eq!(count, 0);
    assert!(lib.hip.describe(status).contains("hipError"), "{}", lib.hip.describe(status));
    let mut pointer = null_mut();
    let (mut stream, mut rocblas, mut hipblaslt) = (null_mut(), null_mut(), null_mut());
    // SAFETY: the pointers are to local variables.
    unsafe {
        assert_eq!((lib.hip.hipMalloc)(&mut pointer, 64), status);
        assert_eq!((lib.hip.hipGetLastError)(), status);
        assert_eq!((lib.hip.hipGetLastError)(), hip::hipSuccess);
        assert_eq!((lib.hip.hipSetDevice)(0), status);
        assert_eq!((lib.hip.hipStreamCreateWithFlags)(&mut stream, 1), status);
        assert_eq!((lib.hip.hipGraphLaunch)(null_mut(), null_mut()), status);
        assert_eq!(lib.hip.architecture(0), Err(status));
        assert_ne!((lib.rocblas.rocblas_create_handle)(&mut rocblas), rocblas_sys::rocblas_status_success);
        assert_ne!((lib.hipblaslt.hipblasLtCreate)(&mut hipblaslt), hipblaslt_sys::HIPBLAS_STATUS_SUCCESS);
    }
}
