//! A residual tower. Shapes as in [`super::forward`].

use super::error::{Result, RocmError};
use super::ffi::hip::Address;
use super::forward::Pass;
use super::steps::StepList;
use super::weights::{Block, Convolution};
use crate::net::architecture::Activation;

/// Planes -> `stream [T][filters]`.
pub(super) fn tower(
    _pass: &Pass<'_>,
    _input: &Convolution,
    _blocks: &[Block],
    _steps: &mut StepList<'_>,
) -> Result<Address> {
    Err(RocmError::Unsupported("convolution networks do not run on this backend".to_owned()))
}

/// `y [T][outputs] = act(conv3x3(x [T][inputs]) + b)`
pub(super) fn convolve(
    _name: &str,
    _layer: &Convolution,
    (_x, _y): (Address, Address),
    _activation: Activation,
    _steps: &mut StepList<'_>,
) -> Result<()> {
    Err(RocmError::Unsupported("convolution policy heads do not run on this backend".to_owned()))
}
