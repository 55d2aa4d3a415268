//! The code objects of our kernels: embedded for the usual architectures, compiled at run time for others.
//!
//! Code compiled at run time is kept in the user's cache folder, so that the next start finds it. The file's name has
//! the architecture and a hash of the source.

use super::cache;
use super::error::{Result, RocmError};
use super::ffi::hiprtc;
use flate2::read::GzDecoder;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::PathBuf;

// build.rs writes `OBJECTS`, a list of architectures and code objects (plain or gzipped), and `SOURCE`, all kernels as
// one text.
include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// The code object for `architecture`, and its name for error messages.
///
/// # Errors
/// The embedded code object is damaged. Or the architecture has no embedded code object, and hiprtc is missing or
/// cannot compile for the architecture.
pub(super) fn code_for(architecture: &str) -> Result<(Vec<u8>, String)> {
    if let Some((_, code)) = OBJECTS.iter().find(|(name, _)| *name == architecture) {
        return Ok((inflate(code)?, format!("the code object for {architecture}")));
    }
    let what = format!("the code compiled for {architecture}");
    let path = cache_path(architecture);
    if let Some(code) = path.as_ref().and_then(|path| fs::read(path).ok()) {
        return Ok((code, what));
    }
    let code = compile(architecture).map_err(|error| {
        let embedded: Vec<&str> = OBJECTS.iter().map(|(name, _)| *name).collect();
        RocmError::Unsupported(format!(
            "no kernels for the architecture {architecture} (in this build: {}), and they cannot be compiled \
             here: {error}",
            embedded.join(", ")
        ))
    })?;
    if let Some(path) = path {
        // If the code cannot be kept, it is only compiled again at the next start.
        let _ = cache::keep(&path, &code);
    }
    Ok((code, what))
}

fn inflate(object: &[u8]) -> Result<Vec<u8>> {
    if !object.starts_with(&[0x1f, 0x8b]) {
        return Ok(object.to_vec());
    }
    let mut code = Vec::new();
    GzDecoder::new(object).read_to_end(&mut code).map_err(|error| {
        RocmError::Unsupported(format!("a code object of this build is damaged: {error}"))
    })?;
    Ok(code)
}

fn compile(architecture: &str) -> Result<Vec<u8>> {
    let options = [format!("--offload-arch={architecture}"), "-O3".to_owned(), "-std=c++17".to_owned()];
    hiprtc::compile("kernels.hip", SOURCE, &options)
}

/// The file that keeps the compiled code for `architecture`, if the user has a cache folder.
fn cache_path(architecture: &str) -> Option<PathBuf> {
    let mut hasher = DefaultHasher::new();
    SOURCE.hash(&mut hasher);
    Some(cache::folder()?.join(format!("kernels-{architecture}-{:016x}.co", hasher.finish())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_object_is_an_elf_file() {
        for (architecture, object) in OBJECTS {
            assert!(inflate(object).unwrap().starts_with(b"\x7fELF"), "{architecture}");
        }
    }

    /// Compiles the source for all embedded architectures, as the engine does for others. If `RUKH_TEST_OBJECTS` names
    /// a folder, the objects are written there for the emulator's tests of the kernels.
    #[test]
    #[ignore = "needs ROCm's hiprtc: scripts/checks/rocm_libraries.sh runs it"]
    fn hiprtc_compiles_for_every_architecture() {
        use std::io::Write;
        let folder = std::env::var_os("RUKH_TEST_OBJECTS").map(PathBuf::from);
        for (architecture, _) in OBJECTS {
            let code = compile(architecture).unwrap_or_else(|error| panic!("{architecture}: {error}"));
            assert!(code.starts_with(b"\x7fELF"), "{architecture}: {:?}", &code[..16]);
            println!("{architecture}: {} bytes", code.len());
            let Some(folder) = &folder else { continue };
            let file = fs::File::create(folder.join(format!("{architecture}.co.gz"))).unwrap();
            let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::default());
            file.write_all(&code).unwrap();
            file.finish().unwrap();
        }
    }

    /// hiprtc gets only this text, so an include of a file would fail.
    #[test]
    fn the_source_includes_nothing() {
        assert!(SOURCE.contains("layer_norm"));
        assert!(!SOURCE.lines().any(|line| line.trim_start().starts_with("#include \"")));
    }
}
