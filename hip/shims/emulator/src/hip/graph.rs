//! Stream capture and graphs.

use std::ffi::c_char;
use std::sync::Arc;

use hip_runtime_sys::{
    hipErrorInvalidHandle, hipErrorInvalidValue, hipErrorNotSupported, hipErrorStreamCaptureUnsupported,
    hipErrorUnknown, hipGraph_t, hipGraphExec_t, hipGraphNode_t, hipStream_t, hipStreamCaptureMode,
    hipStreamCaptureStatus,
};

use super::call::{api, pointer, write_result};
use super::stream::stream_of;
use crate::handles::Handles;
use crate::settings::{BadCapture, settings};
use crate::stream::{CAPTURE_MODE, Graph};

static GRAPHS: Handles<Graph> = Handles::new();
static EXECUTABLES: Handles<Graph> = Handles::new();

api! {
    fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) {
        if stream.is_null() {
            return Err(hipErrorStreamCaptureUnsupported);
        }
        if settings().bad_capture == Some(BadCapture::Begin) {
            return Err(hipErrorNotSupported);
        }
        stream_of(stream)?.begin_capture(mode)
    }

    fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) {
        let captured = stream_of(stream)?.end_capture()?;
        if settings().bad_capture == Some(BadCapture::End) {
            return Err(hipErrorUnknown);
        }
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(graph, pointer(GRAPHS.add(Arc::new(captured)))) }
    }

    fn hipStreamIsCapturing(stream: hipStream_t, status: *mut hipStreamCaptureStatus) {
        let state = match stream_of(stream)?.capture_state() {
            None => hip_runtime_sys::hipStreamCaptureStatusNone,
            Some(true) => hip_runtime_sys::hipStreamCaptureStatusActive,
            Some(false) => hip_runtime_sys::hipStreamCaptureStatusInvalidated,
        };
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(status, state) }
    }

    fn hipThreadExchangeStreamCaptureMode(mode: *mut hipStreamCaptureMode) {
        if mode.is_null() {
            return Err(hipErrorInvalidValue);
        }
        // SAFETY: the caller passes a valid pointer.
        let wanted = unsafe { mode.read() };
        // SAFETY: the reason above applies here too.
        unsafe { write_result(mode, CAPTURE_MODE.replace(wanted)) }
    }

    fn hipGraphDestroy(graph: hipGraph_t) {
        GRAPHS.remove(graph.addr()).map(|_| ()).ok_or(hipErrorInvalidHandle)
    }

    fn hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize) {
        let graph = GRAPHS.get(graph.addr()).ok_or(hipErrorInvalidHandle)?;
        if count.is_null() {
            return Err(hipErrorInvalidValue);
        }
        if !nodes.is_null() {
            // SAFETY: the caller passes a valid pointer.
            let room = unsafe { count.read() };
            for number in 0..room.min(graph.len()) {
                // SAFETY: the caller's buffer has room for `room` nodes.
                unsafe { nodes.add(number).write(pointer(number + 1)) };
            }
        }
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(count, graph.len()) }
    }

    fn hipGraphInstantiate(
        executable: *mut hipGraphExec_t, graph: hipGraph_t, _node: *mut hipGraphNode_t, _log: *mut c_char, _bytes: usize,
    ) {
        if settings().bad_capture == Some(BadCapture::Instantiate) {
            return Err(hipErrorNotSupported);
        }
        let graph = GRAPHS.get(graph.addr()).ok_or(hipErrorInvalidHandle)?;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(executable, pointer(EXECUTABLES.add(graph))) }
    }

    fn hipGraphExecDestroy(executable: hipGraphExec_t) {
        EXECUTABLES.remove(executable.addr()).map(|_| ()).ok_or(hipErrorInvalidHandle)
    }

    fn hipGraphLaunch(executable: hipGraphExec_t, stream: hipStream_t) {
        let graph = EXECUTABLES.get(executable.addr()).ok_or(hipErrorInvalidHandle)?;
        let stream = stream_of(stream)?;
        if stream.capture_state().is_some() {
            return Err(hipErrorStreamCaptureUnsupported);
        }
        stream.submit_graph(Arc::new(move || graph.run()))
    }
}
