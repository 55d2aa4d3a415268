//! Pinned host memory, and the copies of data through it.

use super::super::error::Result;
use super::hip::{Address, Device, DeviceBuffer};
use hip_runtime_sys as sys;
use std::ops::Range;
use std::ptr::null_mut;

/// Page-locked host memory, which the device can read, write and copy asynchronously.
pub(super) struct PinnedBuffer {
    device: Device,
    pub(super) pointer: *mut u8,
    /// The memory's address for kernels.
    pub(super) address: Address,
    pub(super) bytes: usize,
}

// SAFETY: the buffer owns plain memory.
unsafe impl Send for PinnedBuffer {}

impl PinnedBuffer {
    /// Allocates `bytes` of zeroed memory. `what` says in the error message what the memory is for.
    pub(super) fn zeroed(device: Device, bytes: usize, what: &str) -> Result<PinnedBuffer> {
        let mut pointer = null_mut();
        // The device does not keep coherent memory in its caches from one batch to the next.
        let flags = sys::hipHostMallocMapped | sys::hipHostMallocCoherent;
        // SAFETY: HIP writes one pointer.
        let status = unsafe { (device.hip.hipHostMalloc)(&mut pointer, bytes, flags) };
        device.check(status, || format!("hipHostMalloc of {bytes} bytes for {what}"))?;
        let address = Address::NULL;
        let mut buffer = PinnedBuffer { device, pointer: pointer.cast::<u8>(), address, bytes };
        // SAFETY: the memory has this length, and nothing else uses it yet.
        unsafe { buffer.pointer.write_bytes(0, bytes) };
        let mut mapped = null_mut();
        // SAFETY: HIP writes one pointer, and the memory was just allocated.
        let status = unsafe { (device.hip.hipHostGetDevicePointer)(&mut mapped, pointer, 0) };
        device.check(status, || format!("hipHostGetDevicePointer of {bytes} bytes for {what}"))?;
        buffer.address = Address(mapped.expose_provenance() as u64);
        Ok(buffer)
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        if self.device.is_hung() {
            return;
        }
        // SAFETY: hipHostMalloc made the pointer, which is freed once, and no copy is in flight. A drop cannot report
        // an error.
        let _ = unsafe { (self.device.hip.hipHostFree)(self.pointer.cast()) };
    }
}

/// The size of the pinned memory that data are copied through.
const STAGING_BYTES: usize = 4 << 20;

/// Copies data piece by piece through pinned memory. HIP could copy pageable memory by itself, but that call would
/// never return if the device hangs.
pub(crate) struct Staging {
    device: Device,
    pinned: PinnedBuffer,
}

impl Staging {
    pub(crate) fn new(device: Device) -> Result<Staging> {
        Ok(Staging { device, pinned: PinnedBuffer::zeroed(device, STAGING_BYTES, "uploads")? })
    }

    /// Copies `data` to byte `offset` of `target`, and waits until the copy is done. `what` names the data in the error
    /// message.
    ///
    /// # Panics
    /// If the data reach beyond the target's end.
    pub(crate) fn upload(
        &mut self,
        target: &DeviceBuffer,
        offset: usize,
        data: &[u8],
        what: &str,
    ) -> Result<()> {
        assert!(offset + data.len() <= target.bytes(), "{what} is larger than its memory");
        let mut to = target.address().offset(offset);
        for piece in data.chunks(self.pinned.bytes) {
            self.device.health.check()?;
            let (pinned, bytes) = (self.pinned.pointer, piece.len());
            // SAFETY: a piece is not longer than the pinned memory, and no earlier copy is running.
            unsafe { pinned.copy_from_nonoverlapping(piece.as_ptr(), bytes) };
            let (copy, kind) = (self.device.hip.hipMemcpyAsync, sys::hipMemcpyHostToDevice);
            // SAFETY: the assertion above checks the target's length. Both sides stay allocated until the copy is done,
            // and for ever if the device hangs.
            let status = unsafe { copy(to.pointer(), pinned.cast(), bytes, kind, null_mut()) };
            let call = || format!("hipMemcpyAsync of {bytes} bytes of {what} to the device");
            self.device.check(status, call)?;
            self.device.finish(null_mut(), &call())?;
            to = to.offset(bytes);
        }
        Ok(())
    }

    /// Reads pieces of `source`, given as ranges of bytes, one after another, and waits for them. `what` names the data
    /// in the error message.
    ///
    /// # Panics
    /// If a piece reaches beyond the source's end.
    pub(crate) fn download(
        &mut self,
        source: &DeviceBuffer,
        pieces: &[Range<usize>],
        what: &str,
    ) -> Result<Vec<u8>> {
        assert!(
            pieces.iter().all(|piece| piece.end <= source.bytes()),
            "{what} are longer than their memory"
        );
        self.download_at(source.address(), pieces, what)
    }

    /// Reads the weights at an address. As the steps of a forward pass do, this trusts the address: so many bytes of
    /// the network's memory lie there.
    pub(crate) fn download_weights(&mut self, source: Address, bytes: usize) -> Result<Vec<u8>> {
        self.download_at(source, std::slice::from_ref(&(0..bytes)), "weights")
    }

    fn download_at(&mut self, source: Address, pieces: &[Range<usize>], what: &str) -> Result<Vec<u8>> {
        let limit = self.pinned.bytes;
        let mut data = Vec::with_capacity(pieces.iter().map(Range::len).sum());
        let short = pieces.iter().flat_map(|piece| {
            let end = piece.end;
            piece.clone().step_by(limit).map(move |start| start..end.min(start + limit))
        });
        // Many short copies are waited for together.
        let mut group: Vec<Range<usize>> = Vec::new();
        let mut bytes = 0;
        for piece in short {
            if bytes + piece.len() > limit {
                self.download_group(source, &std::mem::take(&mut group), what, &mut data)?;
                bytes = 0;
            }
            bytes += piece.len();
            group.push(piece);
        }
        self.download_group(source, &group, what, &mut data)?;
        Ok(data)
    }

    /// Appends pieces to `data` that fit into the pinned memory together. They lie in live memory.
    fn download_group(
        &mut self,
        source: Address,
        pieces: &[Range<usize>],
        what: &str,
        data: &mut Vec<u8>,
    ) -> Result<()> {
        let total: usize = pieces.iter().map(Range::len).sum();
        assert!(total <= self.pinned.bytes, "{what} are longer than the pinned memory");
        self.device.health.check()?;
        let call = |bytes: usize| format!("hipMemcpyAsync of {bytes} bytes of {what} from the device");
        let mut done = 0;
        let mut enqueued = Ok(());
        for piece in pieces {
            let from = source.offset(piece.start).pointer();
            let to = self.pinned.pointer.wrapping_add(done);
            let (copy, kind) = (self.device.hip.hipMemcpyAsync, sys::hipMemcpyDeviceToHost);
            // SAFETY: the assertion above checks the length of the pinned memory, and the callers that of the source.
            // Neither side is freed before the copy is done, or after a hang.
            let status = unsafe { copy(to.cast(), from, piece.len(), kind, null_mut()) };
            enqueued = self.device.check(status, || call(piece.len()));
            if enqueued.is_err() {
                break;
            }
            done += piece.len();
        }
        // Copies that were enqueued before an error still use the pinned memory.
        let finished = self.device.finish(null_mut(), &call(total));
        enqueued.and(finished)?;
        // SAFETY: the pinned memory is initialised and at least this long, and no copy is running.
        data.extend_from_slice(unsafe { std::slice::from_raw_parts(self.pinned.pointer, total) });
        Ok(())
    }
}
