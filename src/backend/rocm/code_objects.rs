//! Our kernels' code for a device: out of the binary for the usual architectures, else compiled at run time.
//!
//! What hiprtc compiled is kept in the user's cache folder (`XDG_CACHE_HOME`, `~/.cache`, or `LOCALAPPDATA`),
//! under a name that has the architecture and a hash of the source, so that the next start finds it.

use super::error::{Result, RocmError};
use super::ffi::hiprtc;
use flate2::read::GzDecoder;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::PathBuf;

macro_rules! object {
    ($architecture:literal) => {
        ($architecture, include_bytes!(concat!("../../../hip/kernels/objects/", $architecture, ".co.gz")))
    };
}

/// Code objects in the binary: architecture and gzipped bytes.
const EMBEDDED: &[(&str, &[u8])] = &[
    object!("gfx90a"),
    object!("gfx942"),
    object!("gfx1030"),
    object!("gfx1100"),
    object!("gfx1101"),
    object!("gfx1102"),
    object!("gfx1151"),
    object!("gfx1200"),
    object!("gfx1201"),
];

macro_rules! source {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../hip/kernels/", $name)))
    };
}

/// The one source that includes the others.
const MAIN: &str = "all.hip";

/// The kernels' source, for hiprtc.
const SOURCES: &[(&str, &str)] = &[
    source!("all.hip"),
    source!("activation.hip"),
    source!("attention.hip"),
    source!("attention_any.hip"),
    source!("convolution.hip"),
    source!("heads.hip"),
    source!("layer_norm.hip"),
    source!("planes.hip"),
    source!("policy.hip"),
    source!("squeeze_excite.hip"),
    source!("activations.h"),
    source!("elements.h"),
    source!("gpu.h"),
    source!("kernels.h"),
    source!("matrix.h"),
    source!("platform/amd.h"),
    source!("platform/nvidia.h"),
];

/// The code for `architecture`, and what it is called in errors.
///
/// # Errors
/// An architecture that is not embedded, and no hiprtc, or one that cannot compile for it.
pub(super) fn code_for(architecture: &str) -> Result<(Vec<u8>, String)> {
    if let Some((_, code)) = EMBEDDED.iter().find(|(name, _)| *name == architecture) {
        return Ok((inflate(code)?, format!("the code object for {architecture}")));
    }
    let what = format!("the code compiled for {architecture}");
    let path = cache_path(architecture);
    if let Some(code) = path.as_ref().and_then(|path| fs::read(path).ok()) {
        return Ok((code, what));
    }
    let code = compile(architecture).map_err(|error| {
        let embedded: Vec<&str> = EMBEDDED.iter().map(|(name, _)| *name).collect();
        RocmError::Unsupported(format!(
            "no kernels for the architecture {architecture} (in this build: {}), and they cannot be compiled \
             here: {error}",
            embedded.join(", ")
        ))
    })?;
    if let Some(path) = path {
        keep(&path, &code);
    }
    Ok((code, what))
}

fn inflate(gzipped: &[u8]) -> Result<Vec<u8>> {
    let mut code = Vec::new();
    GzDecoder::new(gzipped).read_to_end(&mut code).map_err(|error| {
        RocmError::Unsupported(format!("a code object of this build is damaged: {error}"))
    })?;
    Ok(code)
}

fn compile(architecture: &str) -> Result<Vec<u8>> {
    let Some((name, source)) = SOURCES.iter().find(|(name, _)| *name == MAIN) else {
        return Err(RocmError::Unsupported("this build has no kernels".to_owned()));
    };
    let options = [format!("--offload-arch={architecture}"), "-O3".to_owned(), "-std=c++17".to_owned()];
    hiprtc::compile(name, source, SOURCES, &options)
}

/// Where the code for `architecture` is kept, if this user has a cache folder.
fn cache_path(architecture: &str) -> Option<PathBuf> {
    let folder =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".cache")))
        .or_else(|| folder("LOCALAPPDATA"))?;
    let mut hasher = DefaultHasher::new();
    SOURCES.hash(&mut hasher);
    Some(cache.join("rukh").join(format!("kernels-{architecture}-{:016x}.co", hasher.finish())))
}

/// Writes beside the final name first, so that nobody reads half a file. Failure only costs time at the next start.
fn keep(path: &PathBuf, code: &[u8]) {
    let Some(folder) = path.parent() else {
        return;
    };
    let temporary = path.with_extension(format!("{}", std::process::id()));
    let written = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&temporary, code))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_is_one() {
        for (architecture, object) in EMBEDDED {
            assert!(inflate(object).unwrap().starts_with(b"\x7fELF"), "{architecture}");
        }
    }

    /// hiprtc sees no files: what a source includes must be among those that are handed to it.
    #[test]
    fn every_included_file_is_at_hand() {
        let mut found = 0;
        for (name, text) in SOURCES {
            let included =
                text.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
            for included in included.filter(|included| !included.starts_with("host/")) {
                assert!(SOURCES.iter().any(|(known, _)| *known == included), "{name} includes {included}");
                found += 1;
            }
        }
        assert!(found > 10, "only {found} includes");
    }
}
