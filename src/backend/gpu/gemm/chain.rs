//! Launches of several steps: chains, which are up to three GEMMs, each of which reads the results of the one before,
//! and the LayerNorms that follow them (`hip/kernels/gemm.hip`); and whole convolutions
//! (`hip/kernels/convolution.hip`).
//!
//! A block waits for the blocks that compute the rows which it reads. For that, rows are divided into groups, and this
//! file counts the blocks of a group. All links have the same groups: where a link has 64 rows for each row of the next
//! one, its groups have 64 times as many rows.

use super::own::{
    OwnChoice, OwnKernels, TileSize, are_aligned, gemm_arguments, has_vectors, partial_bytes, tile_sizes,
};
use crate::network::byte_weights;
use crate::runtime::ffi::arguments::{
    ChainArguments, ChainLink, ConvolutionArguments, LONGEST_CHAIN, LayerNormArguments, WinogradArguments,
};
use crate::runtime::ffi::gemm::{
    COUNTERS, ElementType, GemmOperands, GemmShape, WORKSPACE_BYTES, WeightLayout,
};
use crate::runtime::ffi::hip::Address;
use crate::runtime::ffi::program::{LanePlaces, Step};
use crate::runtime::kernels::{LARGEST_LAYER_NORM, VECTOR, grid};
use rukh_backend::winograd::TILES;

/// The indices of the words of [`ChainArguments`] that are the addresses of the partial sums and of the counters.
const WORKSPACE: usize = std::mem::offset_of!(ChainArguments, workspace) / size_of::<u64>();
const BLOCKS_ENDED: usize = std::mem::offset_of!(ChainArguments, counters) / size_of::<u64>();

/// The index of the word of [`ConvolutionArguments`] that is the address of the counters.
const CONVOLUTION_COUNTERS: usize = std::mem::offset_of!(ConvolutionArguments, counters) / size_of::<u64>();

/// The channels of a block that transforms the input or the output of a convolution, and its threads.
const CHANNELS: usize = 64;
const WINOGRAD_THREADS: u32 = 128;

/// A convolution takes one launch if its GEMMs are fastest with tiles of at most so many elements. The kernels of whole
/// convolutions have tiles of 64 x 64, which read a third more than tiles of 64 x 128, and twice as much as tiles of
/// 128 x 128.
const LARGEST_CONVOLUTION_TILE: usize = 64 * 128;

/// The widest row that 32 threads normalise. A whole block normalises a wider one.
const NARROW_NORM: usize = 1024;

/// The counters before those of groups: that of the blocks that have started.
const COUNTERS_BEFORE_GROUPS: usize = 1;

/// A GEMM, and the LayerNorm of its results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) shape: GemmShape,
    pub(crate) operands: GemmOperands,
    pub(crate) bias: Address,
    /// A LayerNorm whose input is the GEMM's output.
    pub(crate) norm: Option<LayerNormArguments>,
}

impl Link {
    /// Whether the weights have 8 bits.
    pub(crate) fn is_of_bytes(&self) -> bool {
        self.operands.layout == WeightLayout::Bytes
    }

    /// Whether the kernels can compute this link.
    fn is_possible(&self) -> bool {
        let Link { shape, operands, bias, norm, .. } = self;
        let has_norm_rows = norm.is_none()
            || shape.outputs.is_multiple_of(VECTOR)
                && shape.y_stride == shape.outputs
                && shape.outputs <= LARGEST_LAYER_NORM;
        shape.batch == 1
            && shape.rows > 0
            && shape.input_type == shape.output_type
            && has_vectors(shape)
            && are_aligned(operands, *bias)
            && has_norm_rows
    }
}

/// How a chain's rows are divided.
#[derive(Clone, Copy)]
struct Rows {
    /// The rows of the link that has the fewest.
    rows: usize,
    size: TileSize,
}

impl Rows {
    fn groups(self) -> usize {
        self.rows.div_ceil(self.size.rows)
    }

    /// The number of rows of the last group, or of any other group, of a link with so many rows in all.
    fn of_group(self, link_rows: usize, is_last: bool) -> usize {
        let each = self.group_rows(link_rows);
        if is_last { link_rows - (self.groups() - 1) * each } else { each }
    }

    fn group_rows(self, link_rows: usize) -> usize {
        self.size.rows * (link_rows / self.rows)
    }

    /// The tiles of so many rows of a GEMM.
    fn tiles(self, shape: &GemmShape, rows: usize) -> usize {
        rows.div_ceil(self.size.rows) * shape.outputs.div_ceil(self.size.columns)
    }

    /// The blocks that normalise so many rows of a link.
    fn norm_blocks(self, link: &Link, rows: usize) -> usize {
        let together = if link.shape.outputs > NARROW_NORM { 1 } else { self.size.threads as usize / 32 };
        if link.norm.is_some() { rows.div_ceil(together) } else { 0 }
    }
}

/// The name of the kernel with tiles of this size, for weights of 8 bits or usual ones.
fn kernel_name(element: ElementType, size: TileSize, is_of_bytes: bool) -> String {
    let weights = if is_of_bytes { "byte_weights_" } else { "" };
    format!("gemm_chain_{weights}{}{}", element.name(), size.suffix())
}

/// Whether the GEMMs of a chain should all read weights of 8 bits: if they can, and if GEMMs with such choices have
/// most of the weights. A GEMM with few weights, such as smolgen's first, may be faster otherwise by itself.
pub(crate) fn prefers_bytes(links: &[Link], choices: &[OwnChoice]) -> bool {
    let weights = |link: &Link| link.shape.outputs * link.shape.inputs;
    let of_bytes = links.iter().zip(choices).filter(|(_, choice)| choice.layout() == WeightLayout::Bytes);
    let of_bytes: usize = of_bytes.map(|(link, _)| weights(link)).sum();
    let all: usize = links.iter().map(weights).sum();
    2 * of_bytes > all && links.iter().all(|link| byte_weights::are_possible(&link.shape))
}

impl OwnKernels {
    /// Whether this card's code has chains in `element`, for any tile.
    pub(crate) fn has_chains(&self, element: ElementType) -> bool {
        tile_sizes().into_iter().any(|size| self.has(&kernel_name(element, size, false)))
    }

    /// The step of a chain; `None` if the kernels cannot compute it. All links have weights of 8 bits, or none has.
    /// `usual` has the choice for each GEMM by itself.
    pub(crate) fn chain(&self, name: &str, links: &[Link], usual: &[OwnChoice]) -> Option<Step> {
        let first = links.first()?;
        let element = first.shape.input_type;
        let rows = fewest_rows(links);
        let is_possible = |link: &Link| {
            link.is_possible() && link.shape.input_type == element && link.shape.rows.is_multiple_of(rows)
        };
        if links.len() > LONGEST_CHAIN || !links.iter().all(is_possible) {
            return None;
        }
        let choices = self.chain_choices(element, links, usual)?;
        let size = choices.first()?.size();
        let function = self.function(kernel_name(element, size, first.is_of_bytes()))?;
        let splits: Vec<usize> = choices.iter().map(|choice| choice.splits()).collect();
        let chain = lay_out(links, &splits, size);
        if chain.counters > COUNTERS || chain.partial_bytes > WORKSPACE_BYTES {
            return None;
        }
        let launch = (function, grid(chain.blocks, 1, size.threads));
        let places = LanePlaces { workspace: Some(WORKSPACE), counters: Some(BLOCKS_ENDED) };
        let shapes = links.iter().map(|link| link.shape);
        Some(Step::own_gemm(name.to_owned(), launch, None, (chain.arguments, places), shapes))
    }

    /// A choice for each link, all with the same tile. GEMMs that usually have the same tile keep their choices, which
    /// may have been measured, if there is a kernel with that tile. Otherwise the sum of the estimated times decides.
    fn chain_choices(
        &self,
        element: ElementType,
        links: &[Link],
        usual: &[OwnChoice],
    ) -> Option<Vec<OwnChoice>> {
        let is_of_bytes = links.iter().any(Link::is_of_bytes);
        let exists = |size| self.has(&kernel_name(element, size, is_of_bytes));
        let first = usual.first()?;
        let is_one_tile = usual.iter().all(|choice| choice.tile() == first.tile());
        if is_one_tile && first.tile() < tile_sizes().len() && exists(first.size()) {
            return Some(usual.to_vec());
        }
        let sizes = tile_sizes().into_iter().enumerate().filter(|&(_, size)| exists(size));
        let of_tile = |tile: usize| -> Option<(f64, Vec<OwnChoice>)> {
            let best = links.iter().map(|link| {
                let choices = self.choices_of_tile(&link.shape, tile).into_iter();
                let costs = choices.map(|choice| (self.cost(&link.shape, choice), choice));
                costs.min_by(|(a, _), (b, _)| a.total_cmp(b))
            });
            let best: Vec<(f64, OwnChoice)> = best.collect::<Option<_>>()?;
            Some((best.iter().map(|(cost, _)| cost).sum(), best.iter().map(|&(_, choice)| choice).collect()))
        };
        let all = sizes.filter_map(|(tile, _)| of_tile(tile));
        all.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, choices)| choices)
    }
}

/// The three steps of a convolution of boards whose elements have the type `element`.
pub(crate) struct WholeConvolution {
    pub(crate) element: ElementType,
    pub(crate) input: WinogradArguments,
    pub(crate) shape: GemmShape,
    pub(crate) operands: GemmOperands,
    pub(crate) output: WinogradArguments,
}

impl WholeConvolution {
    /// The arguments and the number of blocks, with tiles of this size. The address of the counters is null.
    pub(crate) fn lay_out(&self, size: TileSize) -> (ConvolutionArguments, usize) {
        let WholeConvolution { input, shape, operands, output, .. } = self;
        let positions = shape.rows / TILES;
        let transforms = shape.inputs.div_ceil(CHANNELS) + shape.outputs.div_ceil(CHANNELS);
        let tiles = shape.rows.div_ceil(size.rows) * shape.outputs.div_ceil(size.columns);
        let blocks = positions * transforms + tiles * shape.batch;
        let arguments = ConvolutionArguments {
            input: *input,
            gemm: gemm_arguments(shape, *operands, Address::NULL, 1),
            output: *output,
            counters: Address::NULL,
            positions: positions as i32,
            blocks: blocks as i32,
        };
        (arguments, blocks)
    }

    /// The number of counters with tiles of this size.
    pub(crate) fn counters(&self, size: TileSize) -> usize {
        COUNTERS_BEFORE_GROUPS + self.shape.rows.div_ceil(size.rows)
    }
}

impl OwnKernels {
    /// The step of a whole convolution; `None` if there is no kernel for it, or if the `usual` choice for its GEMMs
    /// has tiles of more than [`LARGEST_CONVOLUTION_TILE`] elements.
    pub(crate) fn convolution(
        &self,
        name: &str,
        convolution: &WholeConvolution,
        usual: OwnChoice,
    ) -> Option<Step> {
        let WholeConvolution { element, shape, operands, .. } = convolution;
        let kernel_of = |size: TileSize| {
            self.function(format!("convolution_{}_{}x{}", element.name(), size.rows, size.columns))
        };
        let choices = (0..tile_sizes().len()).filter_map(|tile| OwnChoice::new(tile, 1, WeightLayout::Plain));
        let choices = choices
            .filter(|choice| choice.size().threads == WINOGRAD_THREADS && kernel_of(choice.size()).is_some());
        let best = choices.min_by(|&a, &b| self.cost(shape, a).total_cmp(&self.cost(shape, b)))?;
        let (size, usual) = (best.size(), usual.size());
        let is_possible = has_vectors(shape)
            && are_aligned(operands, Address::NULL)
            && usual.rows * usual.columns <= LARGEST_CONVOLUTION_TILE
            && convolution.counters(size) <= COUNTERS;
        if !is_possible {
            return None;
        }
        let (arguments, blocks) = convolution.lay_out(size);
        let launch = (kernel_of(size)?, grid(blocks, 1, size.threads));
        let places = LanePlaces { workspace: None, counters: Some(CONVOLUTION_COUNTERS) };
        Some(Step::own_gemm(name.to_owned(), launch, None, (arguments, places), [*shape]))
    }
}

fn fewest_rows(links: &[Link]) -> usize {
    links.iter().map(|link| link.shape.rows).min().unwrap_or_default()
}

/// The launch of a chain.
pub(crate) struct LaidOut {
    /// The addresses of the workspace and of the counters are null.
    pub(crate) arguments: ChainArguments,
    pub(crate) blocks: usize,
    /// The number of counters.
    pub(crate) counters: usize,
    /// The size of the partial sums in the workspace.
    pub(crate) partial_bytes: usize,
}

/// The launch of a chain with tiles of this size, and with split-K into so many parts for each link. Each link has a
/// multiple of the rows of the link that has the fewest.
pub(crate) fn lay_out(links: &[Link], splits: &[usize], size: TileSize) -> LaidOut {
    let rows = Rows { rows: fewest_rows(links), size };
    let groups = rows.groups();
    let mut chain = ChainArguments {
        links: [ChainLink::NONE; LONGEST_CHAIN],
        workspace: Address::NULL,
        counters: Address::NULL,
        count: links.len() as i32,
        blocks: 0,
        last_group: groups as i32 - 1,
        all: [0; 2],
        reserved: 0,
    };
    let (mut blocks, mut counters, mut partial) = (0, COUNTERS_BEFORE_GROUPS + groups, 0);
    let mut ended = [0; 2];
    for ((link, &splits), to) in links.iter().zip(splits).zip(&mut chain.links) {
        let Link { shape, operands, bias, norm } = link;
        let tiles = rows.tiles(shape, shape.rows);
        let before_tiles = ended;
        let of_both = |blocks_of: &dyn Fn(usize) -> usize| {
            [false, true].map(|is_last| blocks_of(rows.of_group(shape.rows, is_last)) as i32)
        };
        let tiles_of = of_both(&|some| rows.tiles(shape, some));
        let norms_of = of_both(&|some| rows.norm_blocks(link, some));
        let before_norm = [0, 1].map(|index| before_tiles[index] + tiles_of[index]);
        ended = [0, 1].map(|index| before_norm[index] + norms_of[index]);
        *to = ChainLink {
            gemm: gemm_arguments(shape, *operands, *bias, splits),
            norm: norm.unwrap_or(LayerNormArguments::NONE),
            first_block: blocks as i32,
            first_norm_block: (blocks + tiles * splits) as i32,
            group_rows: rows.group_rows(shape.rows) as i32,
            first_counter: counters as i32,
            partial_start: (partial / size_of::<f32>()) as i64,
            before_tiles,
            before_norm,
        };
        blocks += tiles * splits + rows.norm_blocks(link, shape.rows);
        if splits > 1 {
            counters += tiles;
            partial += partial_bytes(shape, splits);
        }
    }
    chain.blocks = blocks as i32;
    chain.all = ended;
    LaidOut { arguments: chain, blocks, counters, partial_bytes: partial }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link whose LayerNorm has rows of so many elements.
    fn link(rows: usize, outputs: usize, inputs: usize, has_norm: bool) -> Link {
        let null = Address::NULL;
        let norm =
            LayerNormArguments { rows: rows as i32, width: outputs as i32, ..LayerNormArguments::NONE };
        Link {
            shape: GemmShape::plain(rows, outputs, inputs, ElementType::Fp16),
            operands: GemmOperands::plain(null, null, null),
            bias: null,
            norm: has_norm.then_some(norm),
        }
    }

    #[test]
    fn the_counters_of_all_groups_count_every_tile_and_every_norm() {
        let sizes = [(64, 32, 128), (128, 128, 256)].map(|(rows, columns, threads)| TileSize {
            rows,
            columns,
            threads,
        });
        for size in sizes {
            for positions in [1, 2, 63, 64, 65, 128, 200, 513] {
                let links = [
                    link(64 * positions, 32, 768, false),
                    link(positions, 256, 2048, true),
                    link(positions, 6144, 256, true),
                ];
                let LaidOut { arguments, blocks, counters, .. } = lay_out(&links, &[1, 3, 1], size);
                let groups = arguments.last_group as usize + 1;
                let [full, last] = arguments.all.map(|count| count as usize);
                let tiles =
                    |rows: usize, outputs: usize| rows.div_ceil(size.rows) * outputs.div_ceil(size.columns);
                let norms = positions.div_ceil(size.threads as usize / 32) + positions;
                let tiles = [tiles(64 * positions, 32), tiles(positions, 256), tiles(positions, 6144)];
                // Of a tile in three parts, only one counts.
                let counted: usize = tiles.iter().sum::<usize>() + norms;
                assert_eq!(full * (groups - 1) + last, counted, "{positions} positions");
                assert_eq!(blocks, counted + 2 * tiles[1], "{positions} positions");
                assert_eq!(counters, 1 + groups + tiles[1], "{positions} positions");
            }
        }
    }
}
