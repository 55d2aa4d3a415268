//! Lets another process open the device before this one does.
//!
//! Releases of ROCm have ended or hung processes in calls as simple as an allocation (ROCm's SIGSEGV in `hipMalloc` on
//! gfx1151 before 7.2). A helper process therefore opens the device first, loads the kernels, copies to the device, and
//! makes the libraries' handles. The outcome is kept in the cache folder with what it depends on, so that the next start
//! needs no helper.

use crate::gemm::gemms::Effort;
use crate::helper::child::silence;
use crate::helper::probe::{Opening, open_in_helper};
use crate::helper::report::Request;
use crate::options::GpuOptions;
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::{hip, hipblaslt, rocblas};
use crate::runtime::libraries::Libraries;
use crate::runtime::maker::Maker;
use rukh_base::cache_folder;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};
use sysinfo::System;

/// The first part of the names of the files that keep an outcome.
const NAME: &str = "opened";

/// The first line of a kept outcome if the helper has survived.
const SURVIVED: &str = "survived";

/// How many times longer the second start waits for a helper that was silent at the first one. The libraries have
/// gigabytes, which a slow disk does not read within the usual time.
const LONGER: u32 = 4;

/// Checks that a process survives opening the device. Without [`GpuOptions::warm_up`] or without a helper nothing is
/// checked.
///
/// # Errors
/// A helper died of it or fell silent, now or at an earlier start with the same libraries.
pub(crate) fn survive_opening(options: &GpuOptions, libraries: &Libraries) -> Result<()> {
    let Some(program) = options.helper.as_ref().filter(|_| options.warm_up) else {
        return Ok(());
    };
    let key = key(options, libraries);
    let kept = cache_folder::kept_line(NAME, &key);
    let silent_once = silence(options.helper_patience);
    let patience = match kept.as_deref() {
        Some(SURVIVED) => return Ok(()),
        None => Some(options.helper_patience),
        Some(how) => (how == silent_once).then_some(options.helper_patience * LONGER),
    };
    let opening = patience.map(|patience| open_in_helper(program, &request(options), patience));
    let (how, is_kept) = match opening {
        None => (kept.unwrap_or_default(), true),
        Some(Opening::Unknown) => return Ok(()),
        Some(Opening::Survived) => {
            // Without a cache folder the next start asks a helper again.
            let _ = cache_folder::keep_line(NAME, &key, SURVIVED);
            return Ok(());
        }
        Some(Opening::Died(how)) => {
            let is_kept = cache_folder::keep_line(NAME, &key, &how).is_ok();
            (how, is_kept)
        }
    };
    let again = match cache_folder::file(NAME, &key, "txt").filter(|_| is_kept) {
        Some(_) if how == silent_once => "; the next start waits longer".to_owned(),
        Some(path) => format!("; to try again, delete {}", path.display()),
        None => String::new(),
    };
    let known = match libraries.maker {
        Maker::Amd => "; ROCm before 7.2 is known for this on gfx1151 (Strix Halo)",
        Maker::Nvidia => "",
    };
    Err(GpuError::Unsupported(format!(
        "a process that opens the card ends ({how}), so the card is not used{known}{again}"
    )))
}

fn request(options: &GpuOptions) -> Request {
    Request {
        gpu: options.gpu.clone(),
        sources: options.sources(),
        weights: options.weight_bits,
        // All number formats are in one module.
        element: ElementType::Fp32,
        effort: Effort::Quick,
        budget: Duration::ZERO,
        timeout: options.timeout,
        avoided: Default::default(),
        wanted: Vec::new(),
    }
}

/// What the outcome depends on: the program, the options, the operating system's kernel, which has the driver, and the
/// libraries' files.
fn key(options: &GpuOptions, libraries: &Libraries) -> String {
    let mut key = format!(
        "{},{},{},{}",
        rukh_base::version::version(),
        options.gpu,
        options.gemm.key(),
        System::kernel_version().unwrap_or_default()
    );
    let files = [
        hip::file(libraries.hip),
        libraries.rocblas.as_ref().and_then(|library| rocblas::file(*library.as_ref().ok()?)),
        libraries
            .hipblaslt
            .as_ref()
            .and_then(|library| hipblaslt::file(libraries.maker, *library.as_ref().ok()?)),
    ];
    for file in files.into_iter().flatten() {
        let _ = write!(key, ",{}", identity(&file));
    }
    key.replace(['\n', '\r'], " ")
}

/// A text that changes when a file is replaced.
fn identity(file: &Path) -> String {
    let metadata = fs::metadata(file);
    let bytes = metadata.as_ref().map_or(0, fs::Metadata::len);
    let modified = metadata.and_then(|metadata| metadata.modified()).ok();
    let seconds = modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    format!("{} of {bytes} bytes at {}", file.display(), seconds.unwrap_or_default().as_secs())
}
