//! Copies of the weights of layers in other layouts: [`super::preshuffle`] and [`super::byte_weights`] for our own
//! kernels, and [`super::transposed`] for the libraries.
//!
//! The plain weights that a network is loaded with stay where they are, because GEMMs of few rows, some other
//! kernels and a start that has to give up a library read them. A copy is made when the first pass that needs it is
//! laid out, so a layout that no batch size uses takes no memory.

use super::{byte_weights, preshuffle, transposed};
use crate::runtime::error::Result;
use crate::runtime::ffi::gemm::{GemmShape, WeightLayout};
use crate::runtime::ffi::hip::{Address, Device, DeviceBuffer};
use crate::runtime::ffi::module::Function;
use crate::runtime::ffi::pinned::Staging;
use crate::runtime::ffi::program::{BlasLibraries, Lanes, Program};
use crate::runtime::ffi::stream::Stream;
use std::collections::HashMap;
use std::sync::Arc;

/// Device memory is allocated in pieces of at least this size, because each allocation costs time.
const CHUNK_BYTES: usize = 8 << 20;

/// A layout of which a copy is made.
pub(crate) enum CopiedLayout {
    /// By the kernel with the name [`preshuffle::KERNEL`].
    Preshuffled(Function),
    Transposed,
    Bytes,
}

impl CopiedLayout {
    /// Its name without what makes the copy.
    pub(crate) fn layout(&self) -> WeightLayout {
        match self {
            CopiedLayout::Preshuffled(_) => WeightLayout::Preshuffled,
            CopiedLayout::Transposed => WeightLayout::Transposed,
            CopiedLayout::Bytes => WeightLayout::Bytes,
        }
    }
}

/// The copies, in device memory.
pub(crate) struct WeightCopies {
    stream: Stream,
    lanes: Lanes,
    device: Device,
    /// The memory that weights are read and written through. It is made for the first copy that the host makes.
    staging: Option<Staging>,
    chunks: Vec<Arc<DeviceBuffer>>,
    /// The number of bytes of the last chunk that are in use.
    used: usize,
    copies: HashMap<(Address, [usize; 4], WeightLayout), Address>,
}

impl WeightCopies {
    /// No copies yet.
    ///
    /// # Errors
    /// The device makes no stream.
    pub(crate) fn new(device: Device) -> Result<WeightCopies> {
        let stream = Stream::new(device)?;
        let no_libraries = BlasLibraries { rocblas: None, hipblaslt: None, workspace_bytes: 0 };
        let lanes = Lanes::new(device, &stream, 0, no_libraries)?;
        let (chunks, copies) = (Vec::new(), HashMap::new());
        Ok(WeightCopies { stream, lanes, device, staging: None, chunks, used: 0, copies })
    }

    /// The address of a layer's weights in a layout, where `plain` is that of the plain ones. A copy is made if it is
    /// not there.
    ///
    /// # Errors
    /// There is too little memory, or the device fails.
    pub(crate) fn of(&mut self, shape: &GemmShape, copied: &CopiedLayout, plain: Address) -> Result<Address> {
        let layout = copied.layout();
        let key = (plain, [shape.outputs, shape.inputs, shape.weights_stride, shape.batch], layout);
        if let Some(&known) = self.copies.get(&key) {
            return Ok(known);
        }
        let copy = match copied {
            CopiedLayout::Preshuffled(kernel) => self.preshuffled(shape, plain, kernel.clone()),
            CopiedLayout::Transposed => self.by_host(plain, shape, transposed::bytes, transposed::transposed),
            CopiedLayout::Bytes => self.by_host(plain, shape, byte_weights::bytes, byte_weights::rounded),
        }?;
        self.copies.insert(key, copy);
        Ok(copy)
    }

    fn preshuffled(&mut self, shape: &GemmShape, plain: Address, function: Function) -> Result<Address> {
        let (chunk, start) = self.room(preshuffle::bytes(shape))?;
        let output = chunk.address().offset(start);
        let program = Program::new(vec![preshuffle::step(function, shape, plain, output)], Vec::new());
        program.enqueue(&self.stream, &self.lanes)?;
        self.stream.synchronize()?;
        Ok(output)
    }

    /// The copy that the host makes with `copy`. It has `bytes`.
    fn by_host(
        &mut self,
        plain: Address,
        shape: &GemmShape,
        bytes: impl Fn(&GemmShape) -> usize,
        copy: impl Fn(&GemmShape, &[u8]) -> Vec<u8>,
    ) -> Result<Address> {
        let (chunk, start) = self.room(bytes(shape))?;
        let staging = match &mut self.staging {
            Some(staging) => staging,
            none => none.insert(Staging::new(self.device)?),
        };
        let weights = staging.download_weights(plain, transposed::plain_bytes(shape))?;
        staging.upload(&chunk, start, &copy(shape, &weights), "copies of weights")?;
        Ok(chunk.address().offset(start))
    }

    /// Unused memory of so many bytes, and where it begins in its chunk.
    fn room(&mut self, bytes: usize) -> Result<(Arc<DeviceBuffer>, usize)> {
        let chunk = match self.chunks.last() {
            Some(chunk) if chunk.bytes() - self.used >= bytes => Arc::clone(chunk),
            _ => {
                let size = bytes.max(CHUNK_BYTES);
                let chunk = Arc::new(DeviceBuffer::zeroed(self.device, size, "copies of weights")?);
                self.chunks.push(Arc::clone(&chunk));
                self.used = 0;
                chunk
            }
        };
        let start = self.used;
        self.used = (start + bytes).next_multiple_of(preshuffle::ALIGNMENT).min(chunk.bytes());
        Ok((chunk, start))
    }

    /// The memory of the copies, for programs that must keep it allocated.
    pub(crate) fn memory(&self) -> &[Arc<DeviceBuffer>] {
        &self.chunks
    }
}
