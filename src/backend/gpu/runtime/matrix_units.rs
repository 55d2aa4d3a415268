//! Whether a card of Turing's architecture has the units that multiply matrices. Some have none (GTX 16, MX450 and others).
//! There matrix instructions run at a tenth of the rate of plain fp32 (lc0's pull request 849 has figures of a
//! GTX 1650), and nothing that the driver says tells these cards from the others. So a GEMM is timed in both ways.

use super::choice::Found;
use super::code_objects::code_for_trial;
use super::error::Result;
use super::ffi::arguments::GemmArguments;
use super::ffi::hip::{Device, DeviceBuffer, Versioned};
use super::ffi::module::{Grid, Module};
use super::ffi::program::{BlasLibraries, Lanes, Program, Step, Stopwatch};
use super::ffi::stream::Stream;
use rukh_base::cache_folder;

/// The number of Turing's architecture, and its name. It has cards with these units and cards without.
const NUMBER: u32 = 75;
const ARCHITECTURE: &str = "sm_75";
/// The target whose kernels suit cards without these units.
const WITHOUT_UNITS: &str = "sm_61";
/// The kernels of [`ARCHITECTURE`] for a GEMM: with matrix instructions, and without.
const KERNELS: [&str; 2] = ["gemm_f16_64x64_128", "gemm_f32_64x64_128"];

/// The GEMM's rows, and its outputs and inputs alike: 2.1 GFLOP.
const ROWS: usize = 4096;
const WIDTH: usize = 512;
/// The rows and columns of the kernels' tiles, and the threads of a block.
const TILE: usize = 64;
const THREADS: u32 = 128;
/// How often each kernel is timed, in turn with the other. The shortest time counts.
const RUNS: usize = 3;

/// The name of the file that keeps what was found, and the words in it.
const NAME: &str = "matrix-units";
const KEPT: [&str; 2] = ["none", "some"];

/// The target whose kernels suit the device, where only a measurement can tell. The answer is kept for the next start.
///
/// # Errors
/// A kernel cannot be compiled, memory is missing, or a call fails.
pub(super) fn measured_target(device: Device, found: &Found) -> Result<Option<&'static str>> {
    if found.architecture != ARCHITECTURE {
        return Ok(None);
    }
    let key = format!("{},driver {}", found.name, device.version(Versioned::Driver)?);
    let kept = cache_folder::kept_line(NAME, &key);
    let has_units = match kept.and_then(|word| KEPT.iter().position(|known| *known == word)) {
        Some(known) => known == 1,
        None => {
            let [with, without] = milliseconds(device, &found.architecture)?;
            let has_units = with < without;
            // Without a cache folder it is measured at each start.
            let _ = cache_folder::keep_line(NAME, &key, KEPT[usize::from(has_units)]);
            has_units
        }
    };
    Ok((!has_units).then_some(WITHOUT_UNITS))
}

/// The milliseconds that the GEMM takes in fp16 with matrix instructions, and in fp32 without, on a device of Turing's
/// architecture or a newer one.
///
/// # Errors
/// A kernel cannot be compiled, memory is missing, or a call fails.
pub(crate) fn milliseconds(device: Device, architecture: &str) -> Result<[f32; 2]> {
    let stream = Stream::new(device)?;
    let blas = BlasLibraries { rocblas: None, hipblaslt: None, workspace_bytes: 0 };
    let lanes = Lanes::new(device, &stream, 0, blas)?;
    // As large as fp32 needs.
    let matrix = |rows: usize| DeviceBuffer::zeroed(device, rows * WIDTH * size_of::<f32>(), "a GEMM");
    let (x, weights, output) = (matrix(ROWS)?, matrix(WIDTH)?, matrix(ROWS)?);
    let arguments = || GemmArguments {
        x: x.address(),
        weights: weights.address(),
        output: output.address(),
        rows: ROWS as i32,
        outputs: WIDTH as i32,
        inputs: WIDTH as i32,
        x_stride: WIDTH as i32,
        weights_stride: WIDTH as i32,
        output_stride: WIDTH as i32,
        gemms: 1,
        splits: 1,
        ..GemmArguments::NONE
    };
    let code = code_for_trial(architecture, NUMBER, device.version(Versioned::Driver)?)?;
    let module = Module::load(device, &code)?;
    let blocks = (ROWS / TILE * (WIDTH / TILE)) as u32;
    let program = |name: &str| -> Result<Program> {
        let grid = Grid { blocks: (blocks, 1), threads: THREADS, shared_bytes: 0 };
        let step = Step::kernel(name.to_owned(), module.function(name)?, grid, arguments());
        Ok(Program::new(vec![step], Vec::new()))
    };
    let [with, without] = [program(KERNELS[0])?, program(KERNELS[1])?];
    let [with, without] = [&with, &without].map(|program| || program.enqueue(&stream, &lanes));
    let times = Stopwatch::new(device)?.samples_in_turn(&stream, RUNS, &[&with, &without])?;
    let shortest = |index: usize| times[index].iter().copied().fold(f32::INFINITY, f32::min);
    Ok([shortest(0), shortest(1)])
}
