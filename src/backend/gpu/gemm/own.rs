//! Our own kernels for GEMMs (`hip/kernels/gemm.hip`): which there are, which suit a GEMM, and the launches.
//!
//! A kernel computes tiles of results. Small tiles keep more of a card busy, and large ones read less. Where there are
//! too few tiles for the card, the summed axis is divided among several blocks (split-K), and a second launch adds up
//! their sums.

use crate::network::{byte_weights, preshuffle};
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::arguments::GemmArguments;
use crate::runtime::ffi::gemm::{
    ElementType, Epilogue, GateOperands, GemmOperands, GemmShape, WORKSPACE_BYTES, WeightLayout,
};
use crate::runtime::ffi::hip::Address;
use crate::runtime::ffi::module::{Function, Grid, Module};
use crate::runtime::ffi::program::{LanePlaces, Step};
use crate::runtime::kernels::{VECTOR, activation_code, grid};
use rukh_net::architecture::Activation;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// The size of a kernel's tile: the results that a block of threads computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileSize {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) threads: u32,
}

impl TileSize {
    /// What the size adds to the name of a kernel.
    pub(crate) fn suffix(self) -> String {
        let TileSize { rows, columns, threads } = self;
        format!("_{rows}x{columns}_{threads}")
    }
}

/// The sizes that some architecture has a kernel for.
pub(crate) fn tile_sizes() -> Vec<TileSize> {
    TILES.iter().map(|tile| tile.size).collect()
}

/// The tile of a kernel.
#[derive(Clone, Copy, Debug)]
struct Tile {
    size: TileSize,
    /// The time for one result, relative to that of the tile of 128 x 128, if there are enough tiles for the card. An
    /// estimate, for GEMMs that have not been timed.
    cost: f64,
    /// The shared memory in bytes that a launch requests for each block; 0 for kernels whose shared memory is static. With
    /// it a multiprocessor holds one block. So a launch has no more blocks than the card has multiprocessors, and each
    /// block computes tiles one after another.
    launch_bytes: u32,
}

const fn tile(rows: usize, columns: usize, threads: u32, cost: f64) -> Tile {
    Tile { size: TileSize { rows, columns, threads }, cost, launch_bytes: 0 }
}

/// A tile of two warpgroups, and of a third that copies, with so many columns (`hip/kernels/gemm_warpgroups.hip`).
const fn warpgroup_tile(columns: usize, cost: f64, launch_bytes: u32) -> Tile {
    Tile { launch_bytes, ..tile(128, columns, 384, cost) }
}

/// The tiles that some architecture has a kernel for. Their places in this list are in the files of tuned GEMMs, so
/// a new one goes to the end. It also needs its instances in `hip/kernels/gemm.hip`, for each `MATRIX_LAYOUT` that shall
/// have it, and where it pays in `gemm_byte_weights.hip` and `bytes.hip`. An architecture without an instance leaves the
/// tile out. The costs of warpgroups' tiles are those on an NVIDIA H100.
const TILES: [Tile; 12] = [
    tile(128, 128, 256, 1.0),
    tile(128, 128, 128, 1.0),
    tile(64, 64, 128, 1.3),
    tile(32, 64, 128, 1.8),
    tile(64, 32, 128, 1.8),
    tile(16, 32, 32, 2.6),
    tile(64, 128, 128, 1.1),
    tile(64, 128, 256, 1.2),
    tile(64, 128, 64, 1.05),
    warpgroup_tile(256, 0.49, 215_616),
    warpgroup_tile(192, 0.48, 223_568),
    // No card has timed it, so that only tuning chooses it.
    tile(256, 128, 512, 1.02),
];

/// The kernel for widths that are not multiples of [`VECTOR`].
const ANY: Tile = tile(16, 16, 256, 100.0);

/// The index of the word of [`GemmArguments`] that is the address of the partial sums.
const PARTIAL: usize = std::mem::offset_of!(GemmArguments, partial) / size_of::<u64>();

/// The bytes of each row that a kernel multiplies in one step.
const STEP_BYTES: usize = 64;

/// The number of blocks that a GEMM is divided into, in multiples of the card's multiprocessors.
const BLOCKS_PER_UNIT: [usize; 2] = [1, 2];

/// The most parts of the summed axis with split-K.
const MOST_SPLITS: usize = 32;

/// The cost of a block beside its steps, as that of so many steps.
const STEPS_OF_A_BLOCK: f64 = 3.0;

/// The same for a tile of warpgroups: while a multiprocessor stores its results, it multiplies little.
const STEPS_OF_A_WARPGROUP_TILE: f64 = 6.0;

/// The cost of adding up partial sums: of one sum in one part, and of the launch for one multiprocessor. The unit is that
/// of [`Tile::cost`].
const COST_OF_A_SUM: f64 = 2.0;
const COST_OF_A_LAUNCH: f64 = 100_000.0;

/// One way to compute a GEMM with our own kernels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(crate) struct OwnChoice {
    /// The index in [`TILES`], or its length for [`ANY`].
    tile: usize,
    splits: usize,
    /// Plain, preshuffled, or of 8 bits.
    layout: WeightLayout,
}

impl OwnChoice {
    /// The choice of the tile with this number, which divides the summed axis into so many parts, with weights of this
    /// layout; `None` if there is no such choice.
    pub(crate) fn new(tile: usize, splits: usize, layout: WeightLayout) -> Option<OwnChoice> {
        let most = match layout {
            WeightLayout::Plain => TILES.len(),
            WeightLayout::Preshuffled | WeightLayout::Bytes => TILES.len() - 1,
            WeightLayout::Transposed => return None,
        };
        let is_there = tile <= most && (1..=MOST_SPLITS).contains(&splits);
        is_there.then_some(OwnChoice { tile, splits, layout })
    }

    /// The tile with this number, without split-K and with plain weights.
    const fn whole(tile: usize) -> OwnChoice {
        OwnChoice { tile, splits: 1, layout: WeightLayout::Plain }
    }

    /// The same tile and parts with weights of another layout; `None` if there is no such choice.
    pub(crate) fn with_layout(self, layout: WeightLayout) -> Option<OwnChoice> {
        OwnChoice::new(self.tile, self.splits, layout)
    }

    /// The same tile and parts with plain weights.
    pub(crate) fn with_plain_weights(self) -> OwnChoice {
        OwnChoice { layout: WeightLayout::Plain, ..self }
    }

    /// The layout of the weights.
    pub(crate) fn layout(self) -> WeightLayout {
        self.layout
    }

    /// The number of the tile in files.
    pub(crate) fn tile(self) -> usize {
        self.tile
    }

    /// The number of parts of the summed axis (split-K); 1 without.
    pub(crate) fn splits(self) -> usize {
        self.splits
    }

    /// The name of the kernel.
    pub(crate) fn kernel_name(self, element: ElementType) -> String {
        let family = if self.layout == WeightLayout::Bytes { BYTE_WEIGHTS } else { family(element) };
        let suffix = self.suffix();
        // GEMMs of 8-bit numbers have results in fp16.
        match (suffix.is_empty(), element.bytes()) {
            (true, _) => format!("gemm_any_{}", element.name()),
            (false, 1) => format!("{family}_f16{suffix}"),
            (false, _) => format!("{family}_{}{suffix}", element.name()),
        }
    }

    /// What the tile adds to the name of its kernel; empty for the kernel of any widths.
    pub(crate) fn suffix(self) -> String {
        TILES.get(self.tile).map_or(String::new(), |tile| tile.size.suffix())
    }

    /// The tile and the number of parts of the summed axis, for reports: `64x128_128 in 2 parts`.
    pub(crate) fn name(self) -> String {
        let suffix = self.suffix();
        let tile = if suffix.is_empty() { "any width" } else { suffix.trim_start_matches('_') };
        let splits = if self.splits > 1 { format!(" in {} parts", self.splits) } else { String::new() };
        format!("{tile}{splits}")
    }

    fn size_and_cost(self) -> Tile {
        TILES.get(self.tile).copied().unwrap_or(ANY)
    }

    /// The size of the tile.
    pub(crate) fn size(self) -> TileSize {
        self.size_and_cost().size
    }

    /// The grid for this tile: `tiles` for each of `gemms`, the number of GEMMs times that of parts of the summed axis.
    /// With warpgroups there are at most `multiprocessors` blocks in x.
    pub(crate) fn grid(self, tiles: usize, gemms: usize, multiprocessors: usize) -> Grid {
        let Tile { size, launch_bytes, .. } = self.size_and_cost();
        let blocks = if launch_bytes > 0 { tiles.min(multiprocessors) } else { tiles };
        grid(blocks, gemms, size.threads).with_shared_bytes(launch_bytes)
    }

    /// Whether the tile is one of whole warpgroups, which only the GEMMs of 16 bits have.
    pub(crate) fn is_of_warpgroups(self) -> bool {
        self.size_and_cost().launch_bytes > 0
    }
}

/// Our own kernels on a device.
pub(crate) struct OwnKernels {
    module: Arc<Module>,
    multiprocessors: usize,
    /// By name; `None` for a kernel that the architecture does not have.
    functions: RefCell<HashMap<String, Option<Function>>>,
}

impl OwnKernels {
    pub(crate) fn new(module: Arc<Module>, multiprocessors: usize) -> OwnKernels {
        OwnKernels { module, multiprocessors: multiprocessors.max(1), functions: RefCell::default() }
    }

    /// The kernel with this name; `None` if the architecture has none.
    pub(crate) fn function(&self, name: String) -> Option<Function> {
        let mut functions = self.functions.borrow_mut();
        let find = |name: &String| self.module.function(name).ok();
        functions.entry(name).or_insert_with_key(find).clone()
    }

    /// Whether there is a kernel with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.module.has(name)
    }

    fn has_tile(&self, element: ElementType, choice: OwnChoice) -> bool {
        self.has(&choice.kernel_name(element))
    }

    fn tile_function(&self, element: ElementType, choice: OwnChoice) -> Option<Function> {
        self.function(choice.kernel_name(element))
    }

    /// The choices for a shape, the one that should be fastest first. There is always one, unless the shape has
    /// different types of input and output.
    pub(crate) fn candidates(&self, shape: &GemmShape) -> Vec<OwnChoice> {
        if shape.input_type != shape.output_type {
            return Vec::new();
        }
        if !has_vectors(shape) {
            return vec![OwnChoice::whole(TILES.len())];
        }
        let is_there = |&tile: &usize| self.has_tile(shape.input_type, OwnChoice::whole(tile));
        let tiles = (0..TILES.len()).filter(is_there);
        let mut choices: Vec<OwnChoice> = tiles.flat_map(|tile| self.choices_of_tile(shape, tile)).collect();
        choices.sort_by(|&a, &b| self.cost(shape, a).total_cmp(&self.cost(shape, b)));
        choices
    }

    /// The choices for a shape with weights of 8 bits, the one that should be fastest first.
    pub(crate) fn byte_candidates(&self, shape: &GemmShape) -> Vec<OwnChoice> {
        if !byte_weights::may_pay(shape) || !has_vectors(shape) {
            return Vec::new();
        }
        let of_bytes = |choice: OwnChoice| choice.with_layout(WeightLayout::Bytes);
        let is_there = |&tile: &usize| {
            let choice = of_bytes(OwnChoice::whole(tile));
            choice.is_some_and(|choice| self.has_tile(shape.input_type, choice))
        };
        let tiles = (0..TILES.len()).filter(is_there);
        let choices = tiles.flat_map(|tile| self.choices_of_tile(shape, tile));
        let mut choices: Vec<OwnChoice> = choices.filter_map(of_bytes).collect();
        choices.sort_by(|&a, &b| self.cost(shape, a).total_cmp(&self.cost(shape, b)));
        choices
    }

    /// The choices for a shape that have the tile with this number.
    pub(crate) fn choices_of_tile(&self, shape: &GemmShape, tile: usize) -> Vec<OwnChoice> {
        let whole = OwnChoice::whole(tile);
        let mut choices = vec![whole];
        for per_unit in BLOCKS_PER_UNIT {
            let wanted = (self.multiprocessors * per_unit).div_ceil(blocks(shape, whole));
            let choice = OwnChoice { splits: fewest_splits(shape, wanted), ..whole };
            if choice.splits > 1
                && !choices.contains(&choice)
                && partial_bytes(shape, choice.splits) <= WORKSPACE_BYTES
            {
                choices.push(choice);
            }
        }
        choices
    }

    /// An estimate of a GEMM's time, for GEMMs that have not been timed.
    pub(crate) fn cost(&self, shape: &GemmShape, choice: OwnChoice) -> f64 {
        cost(shape, choice, self.multiprocessors)
    }

    /// The kernel that makes preshuffled weights, if the device's code has it and the GEMMs of this shape can use them.
    pub(crate) fn preshuffler(&self, shape: &GemmShape) -> Option<Function> {
        let has_tiles = shape.input_type == shape.output_type && has_vectors(shape);
        has_tiles.then(|| self.function(preshuffle::KERNEL.to_owned())).flatten()
    }

    /// The step that computes a GEMM. The weights among the operands have the layout of `choice`.
    ///
    /// # Errors
    /// The architecture has no such kernel.
    pub(crate) fn step(
        &self,
        name: &str,
        shape: &GemmShape,
        (operands, bias): (GemmOperands, Address),
        choice: OwnChoice,
    ) -> Result<Step> {
        let element = shape.input_type;
        let is_aligned = are_aligned(&operands, bias);
        let choice = if is_aligned { choice } else { OwnChoice::whole(TILES.len()) };
        let absent = || GpuError::Unsupported(format!("no kernel of our own computes the GEMM {shape}"));
        let function = self.tile_function(element, choice).ok_or_else(absent)?;
        let sum = if choice.splits > 1 {
            let function = self.function(format!("gemm_sum_{}", element.name())).ok_or_else(absent)?;
            let runs = shape.rows * shape.outputs.div_ceil(VECTOR);
            Some((function, grid(runs.div_ceil(256), shape.batch, 256)))
        } else {
            None
        };
        let tiles = tiles(shape, choice.size_and_cost());
        let launch_grid = choice.grid(tiles, shape.batch * choice.splits, self.multiprocessors);
        let places = LanePlaces { workspace: Some(PARTIAL), counters: None };
        let arguments = gemm_arguments(shape, operands, bias, choice.splits);
        Ok(Step::own_gemm(name.to_owned(), (function, launch_grid), sum, (arguments, places), [*shape]))
    }
}

/// An estimate of a GEMM's time on a device with so many multiprocessors.
fn cost(shape: &GemmShape, choice: OwnChoice, multiprocessors: usize) -> f64 {
    let tile = choice.size_and_cost();
    let rounds = (blocks(shape, choice)).div_ceil(multiprocessors) as f64;
    let of_a_block = if choice.is_of_warpgroups() { STEPS_OF_A_WARPGROUP_TILE } else { STEPS_OF_A_BLOCK };
    let steps = steps(shape).div_ceil(choice.splits) as f64 + of_a_block;
    let products = rounds * steps * (tile.size.rows * tile.size.columns) as f64 * tile.cost;
    if choice.splits == 1 {
        return products;
    }
    let sums = (partial_bytes(shape, choice.splits) / 4) as f64;
    products + sums * COST_OF_A_SUM / multiprocessors as f64 + COST_OF_A_LAUNCH
}

/// The first part of the names of the kernels for weights of 8 bits and x of 16 bits.
const BYTE_WEIGHTS: &str = "gemm_byte_weights";

/// The first part of the names of the kernels that multiply factors of this type.
pub(crate) fn family(element: ElementType) -> &'static str {
    match element {
        ElementType::Int8 => "gemm_bytes",
        ElementType::Fp8(_) => "gemm_fp8",
        ElementType::Fp32 | ElementType::Fp16 | ElementType::Bf16 => "gemm",
    }
}

/// All tiles but those of warpgroups for a GEMM without split-K and with plain weights. The one that should be the
/// fastest comes first.
pub(crate) fn whole_choices(shape: &GemmShape, multiprocessors: usize) -> Vec<OwnChoice> {
    let choices = (0..TILES.len()).map(OwnChoice::whole);
    let mut choices: Vec<OwnChoice> = choices.filter(|choice| !choice.is_of_warpgroups()).collect();
    choices.sort_by(|&a, &b| cost(shape, a, multiprocessors).total_cmp(&cost(shape, b, multiprocessors)));
    choices
}

/// Whether our kernels can load and store the operands 16 bytes at a time.
pub(crate) fn are_aligned(operands: &GemmOperands, bias: Address) -> bool {
    let GemmOperands { weights, x, y, gates, .. } = *operands;
    let [multiply, add] = GateOperands::addresses(gates);
    [weights, x, y, bias, multiply, add].iter().all(|address| address.is_aligned(16))
}

/// The arguments of a GEMM with so many parts of the summed axis (split-K). The address of the partial sums is null.
pub(crate) fn gemm_arguments(
    shape: &GemmShape,
    operands: GemmOperands,
    bias: Address,
    splits: usize,
) -> GemmArguments {
    let [weights_batch, x_batch, output_batch] = shape.batch_strides.map(|stride| stride as i64);
    let [multiply, add] = GateOperands::addresses(operands.gates.filter(|_| shape.is_gated));
    let plain = GemmArguments {
        x: operands.x,
        weights: operands.weights,
        output: operands.y,
        bias: if shape.epilogue == Epilogue::None { Address::NULL } else { bias },
        multiply,
        add,
        residual: if shape.accumulate { operands.y } else { Address::NULL },
        partial: Address::NULL,
        x_batch,
        weights_batch,
        output_batch,
        rows: shape.rows as i32,
        outputs: shape.outputs as i32,
        inputs: shape.inputs as i32,
        x_stride: shape.x_stride as i32,
        weights_stride: shape.weights_stride as i32,
        output_stride: shape.y_stride as i32,
        gemms: shape.batch as i32,
        splits: splits as i32,
        activation: activation_code(activation(shape.epilogue)).unwrap_or(0),
        is_preshuffled: 0,
    };
    match operands.layout {
        WeightLayout::Preshuffled => preshuffle::arguments(shape, plain),
        WeightLayout::Bytes => byte_weights::arguments(shape, plain),
        WeightLayout::Plain | WeightLayout::Transposed => plain,
    }
}

/// The function that an epilogue applies after the bias.
pub(crate) fn activation(epilogue: Epilogue) -> Activation {
    match epilogue {
        Epilogue::None | Epilogue::Bias => Activation::None,
        Epilogue::BiasRelu => Activation::Relu,
        Epilogue::BiasSwish => Activation::Swish,
        Epilogue::BiasRelu2 => Activation::Relu2,
        Epilogue::BiasTanh => Activation::Tanh,
        Epilogue::BiasSigmoid => Activation::Sigmoid,
        Epilogue::BiasSelu => Activation::Selu,
        Epilogue::BiasMish => Activation::Mish,
    }
}

/// Whether all rows of both factors begin at a multiple of [`VECTOR`] elements.
pub(crate) fn has_vectors(shape: &GemmShape) -> bool {
    let GemmShape { inputs, weights_stride, x_stride, batch, batch_strides: [weights, x, _], .. } = *shape;
    let batches = if batch > 1 { [weights, x] } else { [0, 0] };
    [inputs, weights_stride, x_stride].iter().chain(&batches).all(|count| count.is_multiple_of(VECTOR))
}

fn tiles(shape: &GemmShape, tile: Tile) -> usize {
    shape.rows.div_ceil(tile.size.rows) * shape.outputs.div_ceil(tile.size.columns)
}

fn blocks(shape: &GemmShape, choice: OwnChoice) -> usize {
    tiles(shape, choice.size_and_cost()) * shape.batch * choice.splits
}

fn steps(shape: &GemmShape) -> usize {
    (shape.inputs * shape.input_type.bytes()).div_ceil(STEP_BYTES)
}

/// The least number of parts that are as short as `wanted` parts, each of at least two steps.
fn fewest_splits(shape: &GemmShape, wanted: usize) -> usize {
    let steps = steps(shape);
    let each = steps.div_ceil(wanted.clamp(1, MOST_SPLITS)).max(2);
    steps.div_ceil(each).max(1)
}

/// The size of the partial sums of a GEMM with so many parts of the summed axis (split-K).
pub(crate) fn partial_bytes(shape: &GemmShape, splits: usize) -> usize {
    splits * shape.batch * shape.rows * shape.outputs.next_multiple_of(VECTOR) * size_of::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_choice_of_a_file_exists_or_is_refused() {
        let [plain, preshuffled, transposed, bytes] = WeightLayout::ALL;
        for (tile, splits, layout) in [(0, 1, preshuffled), (0, 2, bytes), (TILES.len(), MOST_SPLITS, plain)]
        {
            let choice = OwnChoice { tile, splits, layout };
            assert_eq!(OwnChoice::new(tile, splits, layout), Some(choice));
        }
        for (tile, splits) in [(0, 0), (0, MOST_SPLITS + 1), (TILES.len() + 1, 1), (usize::MAX, 1)] {
            assert_eq!(OwnChoice::new(tile, splits, plain), None, "{tile}, {splits}");
        }
        let any = TILES.len();
        assert_eq!(OwnChoice::new(any, 1, preshuffled), None, "weights of any width are never preshuffled");
        assert_eq!(OwnChoice::new(any, 1, bytes), None, "weights of any width never have 8 bits");
        assert_eq!(OwnChoice::new(0, 1, transposed), None, "only libraries read transposed weights");
    }

    /// Where an instance is missing, the tile would silently never be a candidate.
    #[test]
    fn the_tiles_are_those_that_have_instances_in_the_kernels_source() {
        let source = include_str!("../../../../hip/kernels/gemm.hip");
        let instance = |line: &str| {
            let (_, arguments) = line.split_once("Core, ")?;
            let mut numbers = arguments.split(", ").map(|number| number.parse().ok());
            Some([numbers.next()??, numbers.next()??, numbers.next()??])
        };
        let instances: BTreeSet<[usize; 3]> = source.lines().filter_map(instance).collect();
        let of_size = |TileSize { rows, columns, threads }: TileSize| [rows, columns, threads as usize];
        let usual = TILES.iter().filter(|tile| tile.launch_bytes == 0);
        let tiles: BTreeSet<[usize; 3]> = usual.map(|tile| of_size(tile.size)).collect();
        assert_eq!(tiles, instances);

        let source = include_str!("../../../../hip/kernels/gemm_warpgroups.hip");
        for Tile { size, launch_bytes, .. } in TILES.iter().filter(|tile| tile.launch_bytes > 0) {
            assert_eq!((size.rows, size.threads), (128, 384));
            assert!(source.contains(&format!("GEMM(type, T, {})", size.columns)), "{size:?}");
            assert!(source.contains(&launch_bytes.to_string()), "{size:?}: {launch_bytes} bytes");
        }
    }

    #[test]
    fn a_launch_of_warpgroups_has_no_more_blocks_than_the_card_has_units() {
        let warpgroups = OwnChoice::whole(9);
        assert!(warpgroups.is_of_warpgroups());
        assert_eq!(warpgroups.grid(1000, 2, 132), grid(132, 2, 384).with_shared_bytes(215_616));
        assert_eq!(warpgroups.grid(100, 1, 132).blocks, (100, 1));
        assert_eq!(OwnChoice::whole(0).grid(1000, 2, 132), grid(1000, 2, 256));
    }

    #[test]
    fn the_tile_of_64_x_128_is_the_first_where_larger_ones_leave_units_idle() {
        let first = |rows, multiprocessors| {
            let shape = GemmShape::plain(rows, 768, 768, ElementType::Fp16);
            let TileSize { rows, columns, .. } = whole_choices(&shape, multiprocessors)[0].size();
            (rows, columns)
        };
        // Of 192 tiles of 128 x 128, 132 units compute 60 in a second round. 96 units compute all in two full rounds.
        assert_eq!(first(4096, 132), (64, 128));
        assert_eq!(first(4096, 96), (128, 128));
        assert_eq!(first(64 * 512, 132), (128, 128));
    }

    #[test]
    fn a_report_names_a_tile_and_its_parts() {
        let in_parts = OwnChoice { splits: 3, ..OwnChoice::whole(2) };
        let names = [OwnChoice::whole(0), in_parts, OwnChoice::whole(TILES.len())].map(OwnChoice::name);
        assert_eq!(names, ["128x128_256", "64x64_128 in 3 parts", "any width"]);
    }

    #[test]
    fn no_part_of_the_summed_axis_is_empty() {
        for inputs in (8..2000).step_by(8) {
            let shape = GemmShape::plain(16, 64, inputs, ElementType::Fp16);
            for wanted in 1..=2 * MOST_SPLITS {
                let (steps, splits) = (steps(&shape), fewest_splits(&shape, wanted));
                assert!(splits >= 1 && splits <= wanted.min(MOST_SPLITS), "{inputs}, {wanted}: {splits}");
                assert!((splits - 1) * steps.div_ceil(splits) < steps, "{inputs}, {wanted}: {splits}");
            }
        }
    }

    #[test]
    fn rows_at_odd_places_need_the_kernel_for_any_width() {
        let plain = GemmShape::plain(16, 12, 64, ElementType::Fp16);
        assert!(has_vectors(&plain), "outputs may have any width");
        assert!(!has_vectors(&GemmShape { inputs: 60, ..plain }));
        assert!(!has_vectors(&GemmShape { x_stride: 65, ..plain }));
        assert!(!has_vectors(&GemmShape { batch: 2, batch_strides: [4, 8, 8], ..plain }));
    }
}
