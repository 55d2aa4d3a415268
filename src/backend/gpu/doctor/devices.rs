//! Stage 1: every library with its version and its HIP runtime, every device, and the code object for each.

use super::exchange::Request;
use super::reporter::Reporter;
use super::subject::given;
use crate::gemm::gemms::Gemms;
use crate::runtime::code_objects::code_for;
use crate::runtime::device::Gpu;
use crate::runtime::driver_hint::explained;
use crate::runtime::error::{GpuError, Result};
use crate::runtime::facts::Facts;
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::{self, Device};
use crate::runtime::ffi::{hipblaslt, hiprtc, rocblas};
use crate::runtime::kernels::Kernels;
use crate::runtime::maker::Maker;
use crate::runtime::matrix_units;
use std::path::PathBuf;

/// What is known of a loaded library.
#[derive(Default)]
struct Loaded {
    version: Option<String>,
    file: Option<PathBuf>,
    /// The file of the HIP runtime that it calls.
    runtime: Option<PathBuf>,
}

pub(super) fn run(request: &Request, report: &mut Reporter<'_>) -> Result<()> {
    let options = given(request)?.options;
    let maker = request.maker;
    library(report, maker.interface(), || {
        let hip = hip::load(maker)?;
        let version = hip::version(hip, hip::Versioned::Runtime).ok().map(|version| release(maker, version));
        Ok(Loaded { version, file: hip::file(hip), runtime: None })
    });
    if maker == Maker::Amd {
        library(report, "rocBLAS", || {
            let library = rocblas::load()?;
            let runtime = library.runtime().and_then(|runtime| runtime.file());
            Ok(Loaded { file: rocblas::file(library), runtime, version: None })
        });
    }
    library(report, maker.blaslt(), || {
        let library = hipblaslt::load(maker, options.libraries.as_deref())?;
        let runtime = library.runtime().and_then(|runtime| runtime.file());
        Ok(Loaded { file: hipblaslt::file(maker, library), runtime, version: None })
    });
    if maker == Maker::Amd {
        library(report, "hiprtc", || {
            let (version, file) = hiprtc::find()?;
            Ok(Loaded { version, file, runtime: None })
        });
    }
    let hip = hip::load(maker).map_err(|error| explained(maker, error))?;
    let count = hip::count(hip).map_err(|error| explained(maker, error))?;
    for number in 0..count {
        report.item(&format!("gpu {number}"), |report| {
            let device = Device::new(hip, number)?;
            let (free, total) = device.memory()?;
            let architecture = device.architecture()?;
            report.row(
                "devices",
                [
                    ("gpu", number.into()),
                    ("name", device.name()?.into()),
                    ("architecture", architecture.as_str().into()),
                    (Facts::of(&architecture).multiprocessors, device.multiprocessors()?.into()),
                    ("lanes", device.warp_size().ok().into()),
                    ("MiB", (total >> 20).into()),
                    ("MiB free", (free >> 20).into()),
                    ("integrated", device.is_integrated()?.into()),
                ],
            );
            Ok(())
        });
        report.item(&format!("code for gpu {number}"), |report| {
            let device = Device::new(hip, number)?;
            let architecture = device.architecture()?;
            let (code, bytes, reason) =
                match code_for(&architecture, &architecture, || device.version(hip::Versioned::Driver)) {
                    Ok(code) => {
                        let loaded = Kernels::new(device, &code, request.precision.element());
                        (code.name(), code.bytes(), loaded.err().map(|error| error.to_string()))
                    }
                    Err(error) => ("none".to_owned(), 0, Some(error.to_string())),
                };
            report.row(
                "code objects",
                [
                    ("gpu", number.into()),
                    ("architecture", architecture.into()),
                    ("code", code.into()),
                    ("bytes", bytes.into()),
                    ("verdict", if reason.is_none() { "right" } else { "unusable" }.into()),
                    ("reason", reason.into()),
                ],
            );
            Ok(())
        });
    }
    let mut opened = None;
    report.item("the choice of a gpu", |_| {
        opened = Some(Gpu::open(&options.gpu, &options.sources()));
        Ok(())
    });
    // Without a result, opening the device has ended an earlier process, which the report says.
    let Some(gpu) = opened.transpose()? else { return Ok(()) };
    gpu.notices.iter().chain(&gpu.refusals).for_each(|notice| report.note(notice.clone()));
    report.note(format!("gpu {}, {}, {} is used", gpu.device.ordinal(), gpu.name, gpu.architecture));
    if maker == Maker::Nvidia && Facts::of(&gpu.architecture).has_fp16 {
        report.item("matrix instructions", |report| {
            let [with, without] = matrix_units::milliseconds(gpu.device, &gpu.architecture)?;
            report.note(format!(
                "a GEMM takes {with:.3} ms in fp16 with matrix instructions, and {without:.3} ms in fp32 without"
            ));
            Ok(())
        });
    }
    report.item("the versions of the BLAS libraries", |report| {
        if let Some(library) = gpu.rocblas {
            report.note(format!("rocBLAS {}", rocblas::version(library)?));
        }
        let kernels = Kernels::of(&gpu, ElementType::Fp32)?;
        let gemms = Gemms::new(&gpu, &kernels, options.gemm)?.with_weights(options.weight_bits);
        if let Some(version) = gemms.hipblaslt_version() {
            let [major, rest] = match maker {
                Maker::Amd => [version / 100_000, version % 100_000],
                Maker::Nvidia => [version / 10_000, version % 10_000],
            };
            let (minor, patch) = (rest / 100, rest % 100);
            report.note(format!("{} {major}.{minor}.{patch}", maker.blaslt()));
        }
        gemms.refusals().iter().for_each(|refusal| report.note(refusal.clone()));
        Ok(())
    });
    Ok(())
}

/// Loads a library and writes its row.
fn library(report: &mut Reporter<'_>, name: &str, load: impl FnOnce() -> Result<Loaded>) {
    report.item(name, |report| {
        let (verdict, loaded, reason) = match load() {
            Ok(loaded) => ("right", loaded, None),
            Err(GpuError::Library(reason)) if reason.contains(" is not in ") => {
                ("missing", Loaded::default(), Some(reason))
            }
            Err(error) => ("unusable", Loaded::default(), Some(error.to_string())),
        };
        let path = |path: Option<PathBuf>| path.map(|path| path.display().to_string());
        report.row(
            "libraries",
            [
                ("library", name.into()),
                ("verdict", verdict.into()),
                ("version", loaded.version.into()),
                ("file", path(loaded.file).into()),
                ("HIP runtime", path(loaded.runtime).into()),
                ("reason", reason.into()),
            ],
        );
        Ok(())
    });
}

/// A version number as text: HIP's 60443484 is 6.4.43484, and CUDA's 12040 is 12.4.
fn release(maker: Maker, version: i32) -> String {
    match maker {
        Maker::Amd => format!("{}.{}.{}", version / 10_000_000, version / 100_000 % 100, version % 100_000),
        Maker::Nvidia => format!("{}.{}", version / 1000, version % 1000 / 10),
    }
}
