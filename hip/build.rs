//! Writes `kernels.rs`, which embeds the GPU kernels. A build needs no ROCm: unless a compiler is named, the kernels are
//! the code objects stored in the repository.
//!
//! | variable | meaning |
//! |---|---|
//! | `RUKH_KERNELS_COMPILER` | compiles the kernels with this compiler: clang with the amdgcn target, or hipcc |
//! | `RUKH_KERNELS_ARCHITECTURES` | the architectures to compile for; by default the stored ones |
//! | `RUKH_KERNELS_CHAINS` | a file of `scripts/kernels/ptx.sh --chains`, in place of the stored PTX for sm_80: for a check on a card |

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() {
    if let Err(message) = embed_kernels() {
        println!("cargo::error={message}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}

/// Writes `kernels.rs`, which defines
/// - `OBJECTS: &[(&str, &[u8])]`: architectures with their code objects, plain or compressed with gzip;
/// - `SAME_CODE: &[(&str, &str, u8)]`: architectures whose code is that of one in `OBJECTS`, the name of that one, and
///   the number of the former in the ELF header (`objects/same_code.txt`);
/// - `PTX: &[(&str, &[u8])]`: NVIDIA's targets with their texts, compressed with gzip;
/// - `SOURCE: &str`: the source of all kernels as one text, for compilation at run time.
fn embed_kernels() -> Result<(), String> {
    let at = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("kernels");
    let out = Path::new(&env::var("OUT_DIR").unwrap_or_default()).to_path_buf();
    println!("cargo:rerun-if-changed={}", folder.display());
    println!("cargo:rerun-if-env-changed=RUKH_KERNELS_COMPILER");
    println!("cargo:rerun-if-env-changed=RUKH_KERNELS_ARCHITECTURES");
    println!("cargo:rerun-if-env-changed=RUKH_KERNELS_CHAINS");

    let mut source = String::new();
    inline("all.hip", &folder, &mut Vec::new(), &mut source)?;
    fs::write(out.join("kernels.hip"), source).map_err(|error| at(&out, error))?;

    let stored = folder.join("objects");
    let list = fs::read_to_string(stored.join("same_code.txt")).map_err(|error| at(&stored, error))?;
    let mut same_code: Vec<[&str; 3]> = Vec::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        same_code.push(
            words.try_into().map_err(|_| format!("same_code.txt: {line:?} does not have three words"))?,
        );
    }
    let mut ptx = files(&stored, ".ptx.gz")?;
    if let (Ok(chains), Some(sm_80)) =
        (env::var("RUKH_KERNELS_CHAINS"), ptx.iter_mut().find(|(target, _)| target == "sm_80"))
    {
        sm_80.1 = PathBuf::from(chains);
    }
    let objects = match env::var("RUKH_KERNELS_COMPILER") {
        Err(_) => files(&stored, ".co.gz")?,
        Ok(compiler) => {
            let architectures = env::var("RUKH_KERNELS_ARCHITECTURES").unwrap_or_else(|_| {
                "gfx90a gfx942 gfx906 gfx908 gfx1030 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1200".to_owned()
            });
            let mut made = Vec::new();
            for architecture in architectures.split_whitespace() {
                let object = out.join(format!("{architecture}.co"));
                compile(&compiler, architecture, &folder.join("all.hip"), &object)?;
                made.push((architecture.to_owned(), object));
            }
            made.sort();
            made
        }
    };
    // An architecture with an object of its own needs no other.
    let has_object = |name: &str| objects.iter().any(|(architecture, _)| architecture == name);
    same_code.retain(|[architecture, base, _]| has_object(base) && !has_object(architecture));

    let mut code = embedded(
        "OBJECTS",
        "Architectures with their code objects, plain or compressed with gzip.",
        &objects,
    );
    code += &embedded("PTX", "NVIDIA's targets with their texts, compressed with gzip.", &ptx);
    code.push_str("/// Architectures whose code is that of one in [`OBJECTS`]: the name, the name of that one, and the number of the former in\n/// the ELF header.\npub static SAME_CODE: &[(&str, &str, u8)] = &[\n");
    for [architecture, base, number] in same_code {
        let _ = writeln!(code, "    ({architecture:?}, {base:?}, {number}),");
    }
    let _ = writeln!(code, "];");
    let text = out.join("kernels.hip");
    let _ = writeln!(
        code,
        "/// The source of all kernels as one text.\npub static SOURCE: &str = include_str!({text:?});"
    );
    fs::write(out.join("kernels.rs"), code).map_err(|error| at(&out, error))
}

/// The files of a folder whose names end with `suffix`: the rest of each name, and the path. Sorted by name.
fn files(folder: &Path, suffix: &str) -> Result<Vec<(String, PathBuf)>, String> {
    let at = |error: io::Error| format!("{}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(at)? {
        let name = entry.map_err(at)?.file_name();
        let name = name.to_string_lossy();
        if let Some(rest) = name.strip_suffix(suffix) {
            found.push((rest.to_owned(), folder.join(&*name)));
        }
    }
    found.sort();
    Ok(found)
}

/// The definition of a list of names and embedded files.
fn embedded(list: &str, about: &str, files: &[(String, PathBuf)]) -> String {
    let mut code = format!("/// {about}\npub static {list}: &[(&str, &[u8])] = &[\n");
    for (name, file) in files {
        let _ = writeln!(code, "    ({name:?}, include_bytes!({file:?})),");
    }
    code + "];\n"
}

/// Appends a kernel file to `to`, with its includes inlined. Each file is added once, and `host/` is left out.
fn inline(name: &str, folder: &Path, seen: &mut Vec<String>, to: &mut String) -> Result<(), String> {
    if seen.iter().any(|other| other == name) || name.starts_with("host/") {
        return Ok(());
    }
    seen.push(name.to_owned());
    let path = folder.join(name);
    let text =
        fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    for line in text.lines() {
        match line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            Some(included) => inline(included, folder, seen, to)?,
            None if line == "#pragma once" => {}
            None => {
                to.push_str(line);
                to.push('\n');
            }
        }
    }
    Ok(())
}

/// Compiles the kernels for one architecture, with the flags of scripts/kernels/compile.sh.
fn compile(compiler: &str, architecture: &str, source: &Path, object: &Path) -> Result<(), String> {
    let output = Command::new(compiler)
        .args(["-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "-O3", "-std=c++17"])
        .args(["--no-gpu-bundle-output", "-mcode-object-version=5", "-fuse-cuid=none"])
        .arg(format!("--offload-arch={architecture}"))
        .arg("-o")
        .args([object, source])
        .output()
        .map_err(|error| format!("cannot run {compiler}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let first =
        message.lines().find(|line| line.contains("error")).unwrap_or("the compiler printed no error");
    Err(format!("{compiler} cannot compile the kernels for {architecture}: {first}"))
}
