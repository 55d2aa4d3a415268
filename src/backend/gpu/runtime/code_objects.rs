//! The code objects of our kernels: embedded for the usual architectures, compiled at run time for others.
//!
//! Some architectures have the code of another one, byte for byte, such as gfx1036 that of gfx1030. Their objects are
//! made from the stored one, which costs no space: only the name in the metadata and the number in the ELF header
//! change. scripts/kernels/compile.sh checks that the result is what the compiler makes for such an architecture.
//!
//! Code compiled at run time is kept in the user's cache folder, so that the next start finds it. The file's name has
//! the architecture and a hash of the source. It is loaded only if nobody but the user can have written it.
//!
//! For NVIDIA's cards the build has PTX for several targets ([`super::ptx`]).

use super::error::{GpuError, Result};
use super::facts::nvidia_number;
use super::ffi::hiprtc;
use super::kernel_code::KernelCode;
use super::ptx::Ptx;
use flate2::read::GzDecoder;
use rukh_base::{cache_folder, progress};
use rukh_kernels::{OBJECTS, PTX, SAME_CODE, SOURCE};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// The code for a device of `architecture`. On an NVIDIA card it is that of `target`, which may be older. `driver` asks for
/// the version of the driver that translates PTX.
///
/// # Errors
/// The embedded code is damaged. Or the architecture has no embedded code, and hiprtc is missing or cannot compile for the
/// architecture.
pub(crate) fn code_for(
    architecture: &str,
    target: &str,
    driver: impl FnOnce() -> Result<i32>,
) -> Result<KernelCode> {
    if let Some(number) = nvidia_number(target) {
        // The driver translates for the card itself.
        let driver = driver()?;
        return Ok(KernelCode::Ptx(Arc::new(Ptx::new(architecture, driver, &ptx_texts(number, driver)?))));
    }
    if let Some(code) = embedded(architecture) {
        return Ok(KernelCode::Object(code?.into(), format!("the code object for {architecture}")));
    }
    let what = format!("the code compiled for {architecture}");
    let path = cache_path(architecture);
    if let Some(code) = path.as_ref().and_then(|path| cache_folder::read(path).ok()) {
        return Ok(KernelCode::Object(code.into(), what));
    }
    progress::tell(&format!(
        "hiprtc compiles Rukh's kernels for {architecture}, which takes a while at the first start"
    ));
    let code = compile(architecture).map_err(|error| {
        GpuError::Unsupported(format!(
            "no kernels for the architecture {architecture} (in this build: {}), and they cannot be compiled \
             here: {error}",
            architectures().collect::<Vec<_>>().join(", ")
        ))
    })?;
    if let Some(path) = path {
        // If the code cannot be kept, it is only compiled again at the next start.
        let _ = cache_folder::keep(&path, &code);
    }
    Ok(KernelCode::Object(code.into(), what))
}

/// The PTX of a target for a short trial on an NVIDIA device of `architecture`, with this version of the driver.
///
/// # Errors
/// The embedded code is damaged, or the oldest target is newer than `target`.
pub(super) fn code_for_trial(architecture: &str, target: u32, driver: i32) -> Result<KernelCode> {
    let ptx = Ptx::new(architecture, driver, &ptx_texts(target, driver)?).for_trial();
    Ok(KernelCode::Ptx(Arc::new(ptx)))
}

/// The PTX for an NVIDIA architecture: that of the newest target which the card can run, the kernels in e4m3 if the card
/// multiplies it, and those that only this architecture has, if the driver can translate them.
fn ptx_texts(number: u32, driver: i32) -> Result<Vec<String>> {
    let fits = |target: &&(&str, &[u8])| nvidia_number(target.0).is_some_and(|least| least <= number);
    let is_whole = |target: &&(&str, &[u8])| target.0 != FP8_TARGET;
    let newest = PTX.iter().filter(fits).filter(is_whole).max_by_key(|target| nvidia_number(target.0));
    let newest = newest.ok_or_else(|| {
        GpuError::Unsupported(format!(
            "no kernels for sm_{number}: NVIDIA's cards since Pascal (sm_61) have them"
        ))
    })?;
    let with_fp8 = PTX.iter().filter(fits).find(|target| target.0 == FP8_TARGET);
    let of_warpgroups = PTX.iter().find(|target| target.0 == WARPGROUPS_TARGET);
    let of_warpgroups = of_warpgroups.filter(|_| number == WITH_WARPGROUPS && driver >= WARPGROUPS_DRIVER);
    std::iter::once(newest).chain(with_fp8).chain(of_warpgroups).map(|target| text(target.1)).collect()
}

/// The target that has only the kernels for numbers in e4m3.
const FP8_TARGET: &str = "sm_89";

/// The target that has only the GEMMs by whole warpgroups.
const WARPGROUPS_TARGET: &str = "sm_90a";

/// The only architecture that has instructions of whole warpgroups.
const WITH_WARPGROUPS: u32 = 90;

/// The oldest version of CUDA whose driver knows these instructions.
const WARPGROUPS_DRIVER: i32 = 12000;

fn text(packed: &[u8]) -> Result<String> {
    String::from_utf8(inflate(packed)?)
        .map_err(|error| GpuError::Unsupported(format!("a PTX text of this build is damaged: {error}")))
}

/// The architectures that have embedded code.
pub(crate) fn architectures() -> impl Iterator<Item = &'static str> {
    let own = OBJECTS.iter().map(|(name, _)| *name);
    own.chain(SAME_CODE.iter().map(|(name, ..)| *name))
}

/// The embedded code object for `architecture`, or `None` if there is none.
pub(crate) fn embedded(architecture: &str) -> Option<Result<Vec<u8>>> {
    let stored =
        |wanted: &str| OBJECTS.iter().find(|(name, _)| *name == wanted).map(|(_, code)| inflate(code));
    stored(architecture).or_else(|| {
        let (_, base, number) = SAME_CODE.iter().find(|(name, ..)| *name == architecture)?;
        Some(stored(base)?.map(|code| renamed(code, base, architecture, *number)))
    })
}

/// The code object of `base` under the name and the number of an architecture that has the same code. Both names have
/// the same length.
fn renamed(mut code: Vec<u8>, base: &str, architecture: &str, number: u8) -> Vec<u8> {
    /// The place of the flags in the ELF header. The lowest byte is the architecture's number.
    const FLAGS: usize = 48;
    if let Some(byte) = code.get_mut(FLAGS) {
        *byte = number;
    }
    let [from, to] = [base, architecture].map(|name| format!("amdgcn-amd-amdhsa--{name}").into_bytes());
    let mut at = 0;
    while let Some(found) = code.get(at..).and_then(|rest| rest.windows(from.len()).position(|w| w == from)) {
        at += found + from.len();
        code.splice(at - from.len()..at, to.iter().copied());
    }
    code
}

fn inflate(object: &[u8]) -> Result<Vec<u8>> {
    if !object.starts_with(&[0x1f, 0x8b]) {
        return Ok(object.to_vec());
    }
    let mut code = Vec::new();
    GzDecoder::new(object)
        .read_to_end(&mut code)
        .map_err(|error| GpuError::Unsupported(format!("a code object of this build is damaged: {error}")))?;
    Ok(code)
}

fn compile(architecture: &str) -> Result<Vec<u8>> {
    let options = [format!("--offload-arch={architecture}"), "-O3".to_owned(), "-std=c++17".to_owned()];
    hiprtc::compile("kernels.hip", SOURCE, &options)
}

/// The file that keeps the compiled code for `architecture`, if the user has a cache folder.
fn cache_path(architecture: &str) -> Option<PathBuf> {
    cache_folder::file(&format!("kernels-{architecture}"), SOURCE, "co")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_object_is_an_elf_file() {
        for architecture in architectures() {
            assert!(embedded(architecture).unwrap().unwrap().starts_with(b"\x7fELF"), "{architecture}");
        }
    }

    /// The loader compares the number in the ELF header with the device, and tools show the name in the metadata.
    #[test]
    fn an_object_that_serves_several_architectures_names_the_one_it_is_loaded_for() {
        let names = |code: &[u8], name: &str| {
            let name = format!("amdgcn-amd-amdhsa--{name}");
            code.windows(name.len()).filter(|window| *window == name.as_bytes()).count()
        };
        assert_eq!(SAME_CODE.len(), 8, "{SAME_CODE:?}");
        for (architecture, base, number) in SAME_CODE {
            let (original, code) =
                (embedded(base).unwrap().unwrap(), embedded(architecture).unwrap().unwrap());
            let flags = |code: &[u8]| u32::from_le_bytes(code[48..52].try_into().unwrap());
            assert_eq!(flags(&code), flags(&original) & !0xff | u32::from(*number), "{architecture}");
            assert_ne!(flags(&code), flags(&original), "{architecture}");
            assert_eq!((names(&code, architecture), names(&code, base)), (1, 0), "{architecture}");
            assert_eq!(code.len(), original.len(), "{architecture}");
            let changed = code.iter().zip(&original).filter(|(a, b)| a != b).count();
            assert!(changed <= 3, "{architecture}: {changed} bytes differ from {base}");
        }
    }

    /// Compiles the source for all embedded architectures, as the engine does for others. If `RUKH_TEST_OBJECTS` names
    /// a folder, the objects are written there for the emulator's tests of the kernels.
    #[test]
    #[ignore = "needs ROCm's hiprtc: scripts/checks/rocm_libraries.sh runs it"]
    fn hiprtc_compiles_for_every_architecture() {
        use std::io::Write;
        let folder = std::env::var_os("RUKH_TEST_OBJECTS").map(PathBuf::from);
        for architecture in architectures() {
            let code = compile(architecture).unwrap_or_else(|error| panic!("{architecture}: {error}"));
            assert!(code.starts_with(b"\x7fELF"), "{architecture}: {:?}", &code[..16]);
            println!("{architecture}: {} bytes", code.len());
            let Some(folder) = &folder else { continue };
            let file = std::fs::File::create(folder.join(format!("{architecture}.co.gz"))).unwrap();
            let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::default());
            file.write_all(&code).unwrap();
            file.finish().unwrap();
        }
    }

    #[test]
    fn only_cards_of_9_0_with_a_recent_driver_have_the_kernels_of_warpgroups() {
        let has = |number, driver| {
            let texts = ptx_texts(number, driver).unwrap();
            Ptx::new("sm_test", driver, &texts).has("gemm_f16_128x256_384")
        };
        assert!(has(90, WARPGROUPS_DRIVER) && has(90, 13000));
        assert!(!has(90, 11080), "a driver for CUDA 11.8 does not know PTX 8.0");
        assert!(![61, 75, 80, 89, 100, 120].iter().any(|&number| has(number, 13000)));
    }

    /// hiprtc gets only this text, so an include of a file would fail.
    #[test]
    fn the_source_includes_nothing() {
        assert!(SOURCE.contains("layer_norm"));
        assert!(!SOURCE.lines().any(|line| line.trim_start().starts_with("#include \"")));
    }
}
