//! A batch as a list of steps, and the slot that runs it.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`slot`] | one batch in flight: stream, memory, BLAS handles, a graph per bucket |
//! | [`buckets`] | the batch sizes that a forward pass is laid out for |
//! | [`forward`] | the forward pass as a list of steps, with shapes |
//! | [`embedding`], [`tower`], [`heads`] | the stages before the encoders, instead of them, and after them |
//! | [`encoder`] | the encoders of a body or of a policy head |
//! | [`planes`] | the steps that expand bitboards to matrices |
//! | [`arguments`] | the arguments of a pass: the network, and the layout of input and output |
//! | [`steps`], [`gemm_steps`] | appends the steps of one operation: memory, kernels, GEMMs |
//! | [`scratch`], [`norm`] | the memory for intermediate results; the operands of a LayerNorm |
//! | [`kernel_work`], [`timing`] | the operations and bytes of each kernel; a table of the time that each kind of step takes |

pub(crate) mod arguments;
pub(crate) mod buckets;
pub(crate) mod embedding;
pub(crate) mod encoder;
pub(crate) mod forward;
pub(crate) mod gemm_steps;
pub(crate) mod heads;
pub(crate) mod kernel_work;
pub(crate) mod norm;
pub(crate) mod planes;
pub(crate) mod scratch;
pub(crate) mod slot;
pub(crate) mod steps;
pub(crate) mod timing;
pub(crate) mod tower;
