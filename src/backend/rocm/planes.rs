//! The steps that expand a batch's bitboards to matrices. [`super::forward`] explains the shapes.

use super::error::Result;
use super::ffi::arguments::PlanesArguments;
use super::ffi::hip::Address;
use super::kernels::grid;
use super::layers::{SQUARES, SquareTable};
use super::pass::Input;
use super::scratch::Region;
use super::steps::StepList;
use crate::net::input::InputPlanes;

/// Bitboards `[B][112]` -> `planes [T][112 + width]`: the last columns are the square's row of the table.
pub(super) fn planes(input: &Input, table: SquareTable, steps: &mut StepList<'_>) -> Result<Address> {
    let output = steps.region(Region::Planes, steps.rows() * (InputPlanes::COUNT + table.width));
    expand(input, table, InputPlanes::COUNT, output, steps)?;
    Ok(output)
}

/// Bitboards `[B][112]` -> `output [T][count + width]`, from the first `count` planes.
pub(super) fn expand(
    input: &Input,
    table: SquareTable,
    count: usize,
    output: Address,
    steps: &mut StepList<'_>,
) -> Result<()> {
    let launch = (steps.kernels.function("planes", "")?, grid(steps.positions, 1, 256));
    let arguments = PlanesArguments {
        masks: input.masks,
        values: input.rule50,
        table: table.values,
        output,
        mask_stride: InputPlanes::COUNT as i32,
        planes: count as i32,
        extra: table.width as i32,
        valued_plane: InputPlanes::RULE50_PLANE as i32,
    };
    steps.kernel("planes", launch, arguments);
    Ok(())
}

// A row of all planes must be a multiple of 8 elements wide, because the kernels and products that read it load 8
// elements at a time.
const _: () = assert!(InputPlanes::COUNT.is_multiple_of(8) && SQUARES == 64);
