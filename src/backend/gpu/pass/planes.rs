//! The steps that expand a batch's bitboards to matrices. [`super::forward`] explains the shapes.

use super::arguments::Input;
use super::scratch::Region;
use super::steps::StepList;
use crate::network::layers::{SQUARES, SquareTable};
use crate::runtime::error::Result;
use crate::runtime::ffi::arguments::PlanesArguments;
use crate::runtime::ffi::hip::Address;
use crate::runtime::kernels::grid;
use rukh_net::input::InputPlanes;

/// Bitboards `[B][112]` -> `planes [T][112 + width]`: the last columns are the square's row of the table.
pub(crate) fn planes(input: &Input, table: SquareTable, steps: &mut StepList<'_>) -> Result<Address> {
    let output = steps.region(Region::Planes, steps.rows() * (InputPlanes::COUNT + table.width));
    expand(input, table, InputPlanes::COUNT, output, steps)?;
    Ok(output)
}

/// Bitboards `[B][112]` -> `output [T][count + width]`, from the first `count` planes.
pub(crate) fn expand(
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

// A row of all planes must be a multiple of 8 elements wide, because the kernels and GEMMs that read it load 8
// elements at a time.
const _: () = assert!(InputPlanes::COUNT.is_multiple_of(8) && SQUARES == 64);
