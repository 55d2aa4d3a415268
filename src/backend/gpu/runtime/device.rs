//! Opens the best device that can be used, with the BLAS libraries that have kernels for it.

use super::blas_files::{Loaded, check_hipblaslt, check_rocblas};
use super::choice::{Found, GpuChoice, LeftOut, notice, ranked};
use super::code_objects::code_for;
use super::driver_hint::explained;
use super::error::{GpuError, Result};
use super::facts::Facts;
use super::ffi::hip::{self, Device, Versioned};
use super::ffi::{hipblaslt, rocblas};
use super::kernel_code::KernelCode;
use super::libraries::{Libraries, Sources};
use super::maker::Maker;
use super::matrix_units::measured_target;
use rukh_base::available_memory::available_bytes;
use std::time::Instant;

/// The least free memory in bytes with which a device is preferred to the next one.
const LEAST_MEMORY: usize = 256 << 20;

/// A usable device, its BLAS libraries and the code of our kernels. At least one library is present.
pub(crate) struct Gpu {
    pub(crate) device: Device,
    pub(crate) maker: Maker,
    /// The compiler's name of the architecture, e.g. `gfx1100`.
    pub(crate) architecture: String,
    /// What follows from the architecture.
    pub(crate) facts: Facts,
    /// The product name.
    pub(crate) name: String,
    pub(crate) multiprocessors: usize,
    /// Device memory that may be used, in bytes, measured when the device was opened.
    pub(crate) free_memory: usize,
    /// The code of our kernels.
    pub(crate) code: KernelCode,
    pub(crate) rocblas: Option<rocblas::Library>,
    pub(crate) hipblaslt: Option<hipblaslt::Library>,
    /// The reasons why an installed library is not used.
    pub(crate) refusals: Vec<String>,
    /// Messages about the choice of device and runtime.
    pub(crate) notices: Vec<String>,
    /// When the device was opened.
    pub(crate) opened: Instant,
}

impl Gpu {
    /// Opens the device that the user wants and makes it current for this thread. If there is a choice, devices that
    /// cannot be used are passed over.
    ///
    /// # Errors
    /// The driver's library cannot be loaded, there is no such device, or there are no kernels for it.
    pub(crate) fn open(wanted: &GpuChoice, sources: &Sources) -> Result<Gpu> {
        let libraries = Libraries::load(sources).map_err(|error| explained(sources.maker, error))?;
        Gpu::open_with(libraries, wanted)
    }

    /// Does the same as [`Gpu::open`] with libraries that are loaded already.
    pub(crate) fn open_with(libraries: Libraries, wanted: &GpuChoice) -> Result<Gpu> {
        let count = hip::count(libraries.hip).map_err(|error| explained(libraries.maker, error))?;
        let mut left_out = Vec::new();
        let mut first_error = None;
        let mut leave_out = |device: String, error: GpuError| {
            left_out.push(LeftOut { device, reason: error.to_string() });
            first_error.get_or_insert(error);
        };
        let mut found = Vec::new();
        for number in numbers(wanted, libraries.maker, count)? {
            match describe(&libraries, number) {
                Ok(device) => found.push(device),
                Err(error) => leave_out(format!("gpu {number}"), error),
            }
        }
        let candidates = ranked(found, wanted).map_err(GpuError::Unsupported)?;
        let mut opened = None;
        for (index, candidate) in candidates.iter().enumerate() {
            let behind = &candidates[index + 1..];
            match Gpu::try_open(&libraries, candidate, !behind.is_empty()) {
                Ok(gpu) => {
                    opened = Some((gpu, candidate, behind));
                    break;
                }
                Err(error) => leave_out(candidate.to_string(), error),
            }
        }
        match (opened, first_error) {
            (Some((mut gpu, used, behind)), _) => {
                gpu.notices = libraries.notices;
                gpu.notices.extend(notice(used, &left_out, behind));
                Ok(gpu)
            }
            (None, Some(error)) if left_out.len() == 1 => Err(error),
            (None, _) => {
                let reasons: Vec<String> =
                    left_out.iter().map(|LeftOut { device, reason }| format!("{device}: {reason}")).collect();
                Err(GpuError::Unsupported(format!("no device can be used: {}", reasons.join("; "))))
            }
        }
    }

    /// Opens one device. If there are others, it must have some free memory.
    fn try_open(libraries: &Libraries, found: &Found, has_others: bool) -> Result<Gpu> {
        let device = Device::new(libraries.hip, found.number)?;
        let (free, _) = device.memory()?;
        let free_memory = if found.is_integrated { shared_memory(free, available_bytes()) } else { free };
        if has_others && free_memory < LEAST_MEMORY {
            let text = format!("only {} MiB of its memory are free", free_memory >> 20);
            return Err(GpuError::Unsupported(text));
        }
        let Usable { rocblas, hipblaslt, refusals } = usable(libraries, &found.architecture)?;
        // The code, and what follows from it, may be those of an older architecture.
        let asked = libraries.target.as_deref();
        let target = match asked {
            Some(target) => target,
            None => measured_target(device, found)?.unwrap_or(&found.architecture),
        };
        let code = code_for(&found.architecture, target, || device.version(Versioned::Driver))?;
        let facts = Facts::of(target);
        let Found { name, architecture, multiprocessors, .. } = found.clone();
        let notices = Vec::new();
        Ok(Gpu {
            device,
            maker: libraries.maker,
            facts,
            architecture,
            name,
            multiprocessors,
            free_memory,
            code,
            rocblas,
            hipblaslt,
            refusals,
            notices,
            opened: Instant::now(),
        })
    }

    /// The floating-point operations on fp16 in a second, by the data sheet and the driver's clock; infinite if the driver
    /// tells no clock.
    pub(crate) fn peak_operations_per_second(&self) -> f64 {
        let kilohertz = self.device.kilohertz().ok().filter(|&kilohertz| kilohertz > 0);
        let hertz = kilohertz.map_or(f64::INFINITY, |kilohertz| kilohertz as f64 * 1e3);
        hertz * (self.multiprocessors * self.facts.operations_per_clock) as f64
    }
}

/// The driver's numbers of the devices to look at.
fn numbers(wanted: &GpuChoice, maker: Maker, count: i32) -> Result<std::ops::Range<i32>> {
    let GpuChoice::Number(number) = wanted else { return Ok(0..count) };
    match i32::try_from(*number) {
        Ok(number) if number < count => Ok(number..number + 1),
        _ => Err(GpuError::Unsupported(format!(
            "gpu={number}, but {} finds only {count} device(s), numbered from 0",
            maker.interface()
        ))),
    }
}

/// What the driver says about the device with this number.
pub(super) fn describe(libraries: &Libraries, number: i32) -> Result<Found> {
    let device = Device::new(libraries.hip, number)?;
    let architecture = device.architecture()?;
    let is_integrated = device.is_integrated()? || Facts::of(&architecture).is_integrated;
    let (name, multiprocessors) = (device.name()?, device.multiprocessors()?);
    Ok(Found { number, name, architecture, multiprocessors, is_integrated })
}

/// The memory in bytes that an integrated device may use. HIP's figure may be nearly all of the machine's memory, which
/// the engine's own tree and the desktop need as well, so at most half of what the machine has left is used.
fn shared_memory(free: usize, available: Option<u64>) -> usize {
    let half = available.map_or(u64::MAX, |available| available / 2);
    free.min(usize::try_from(half).unwrap_or(usize::MAX))
}

/// The BLAS libraries that have kernels for a device.
struct Usable {
    rocblas: Option<rocblas::Library>,
    hipblaslt: Option<hipblaslt::Library>,
    refusals: Vec<String>,
}

/// The BLAS libraries that have kernels for `architecture`. One is enough if the user wants both.
fn usable(libraries: &Libraries, architecture: &str) -> Result<Usable> {
    let rocblas = libraries.rocblas.clone().map(|library| with_rocblas_kernels(library?, architecture));
    let hipblaslt = libraries.hipblaslt.clone().map(|library| match libraries.maker {
        Maker::Amd => with_hipblaslt_kernels(library?, architecture),
        Maker::Nvidia => library,
    });
    let errors: Vec<&GpuError> = [
        rocblas.as_ref().and_then(|library| library.as_ref().err()),
        hipblaslt.as_ref().and_then(|library| library.as_ref().err()),
    ]
    .into_iter()
    .flatten()
    .collect();
    let refusals = errors.iter().filter_map(|error| match error {
        GpuError::Unsupported(reason) => Some(reason.clone()),
        // A library that is not installed needs no notice while the other one works.
        _ => None,
    });
    let refusals = refusals.collect();
    let reasons: Vec<String> = errors.iter().map(|error| error.to_string()).collect();
    match (rocblas.and_then(Result::ok), hipblaslt.and_then(Result::ok)) {
        (None, None) if !libraries.has_own => Err(GpuError::Library(reasons.join("; "))),
        (rocblas, hipblaslt) => Ok(Usable { rocblas, hipblaslt, refusals }),
    }
}

fn with_rocblas_kernels(library: rocblas::Library, architecture: &str) -> Result<rocblas::Library> {
    let loaded =
        Loaded { file: rocblas::file(library), version: rocblas::version(library).unwrap_or_default() };
    check_rocblas(&loaded, architecture).map_err(GpuError::Unsupported)?;
    Ok(library)
}

fn with_hipblaslt_kernels(library: hipblaslt::Library, architecture: &str) -> Result<hipblaslt::Library> {
    let loaded = Loaded { file: hipblaslt::file(Maker::Amd, library), version: String::new() };
    check_hipblaslt(&loaded, architecture).map_err(GpuError::Unsupported)?;
    Ok(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integrated_device_leaves_half_of_the_machines_memory() {
        const GIB: usize = 1 << 30;
        assert_eq!(shared_memory(100 * GIB, Some(32 << 30)), 16 * GIB);
        assert_eq!(shared_memory(4 * GIB, Some(32 << 30)), 4 * GIB);
        assert_eq!(shared_memory(4 * GIB, None), 4 * GIB);
    }
}
