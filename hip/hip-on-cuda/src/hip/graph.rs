//! Stream capture and graphs.

use std::ffi::c_char;

use hip_runtime_sys::{
    hipGraph_t, hipGraphExec_t, hipGraphNode_t, hipStream_t, hipStreamCaptureMode, hipStreamCaptureStatus,
};

use super::call::api;
use crate::driver::{check, current, driver, submit};

api! {
    fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) {
        // SAFETY: the caller passes a valid stream.
        check(unsafe { (current()?.cuStreamBeginCapture_v2)(stream.cast(), mode) })
    }

    fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) {
        // SAFETY: the caller passes a valid stream and pointer.
        check(unsafe { (current()?.cuStreamEndCapture)(stream.cast(), graph.cast()) })
    }

    fn hipStreamIsCapturing(stream: hipStream_t, status: *mut hipStreamCaptureStatus) {
        // SAFETY: the caller passes a valid stream and pointer.
        check(unsafe { (current()?.cuStreamIsCapturing)(stream.cast(), status) })
    }

    fn hipThreadExchangeStreamCaptureMode(mode: *mut hipStreamCaptureMode) {
        // SAFETY: the caller passes a valid pointer.
        check(unsafe { (current()?.cuThreadExchangeStreamCaptureMode)(mode) })
    }

    fn hipGraphDestroy(graph: hipGraph_t) {
        // SAFETY: the caller passes a valid graph.
        check(unsafe { (current()?.cuGraphDestroy)(graph.cast()) })
    }

    fn hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize) {
        // SAFETY: the caller passes a valid graph and valid pointers.
        check(unsafe { (current()?.cuGraphGetNodes)(graph.cast(), nodes.cast(), count) })
    }

    fn hipGraphInstantiate(
        executable: *mut hipGraphExec_t, graph: hipGraph_t, _node: *mut hipGraphNode_t, _log: *mut c_char,
        _bytes: usize,
    ) {
        // SAFETY: the caller passes a valid graph and pointer.
        unsafe { driver()?.instantiate(executable.cast(), graph.cast()) }
    }

    fn hipGraphLaunch(executable: hipGraphExec_t, stream: hipStream_t) {
        // SAFETY: the caller passes a valid graph and stream.
        check(unsafe { (current()?.cuGraphLaunch)(executable.cast(), stream.cast()) })?;
        submit(current()?, stream.cast());
        Ok(())
    }

    fn hipGraphExecDestroy(executable: hipGraphExec_t) {
        // SAFETY: the caller passes a valid graph.
        check(unsafe { (current()?.cuGraphExecDestroy)(executable.cast()) })
    }
}
