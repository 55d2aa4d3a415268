//! Packages and modules use only what is below them: `lib.rs` and each `mod.rs` list them from the top down, and no files
//! use each other in a cycle.

#[path = "layers/source_graph.rs"]
mod source_graph;

use source_graph::SourceGraph;
use std::fs;
use std::path::{Path, PathBuf};

/// All Rust files below a directory.
pub(crate) fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => rust_files(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The Rust files of the package whose sources begin in `folder`. Folders with a `Cargo.toml` are other packages, and a
/// build script is a program of its own.
fn package_files(folder: &Path) -> Vec<PathBuf> {
    let is_inside = |file: &PathBuf| {
        let folders = file.ancestors().skip(1).take_while(|&at| at != folder);
        !file.ends_with("build.rs") && !folders.into_iter().any(|at| at.join("Cargo.toml").exists())
    };
    rust_files(folder).into_iter().filter(is_inside).collect()
}

/// The packages of the table in `src/lib.rs`, from the top down, each with its folder.
fn packages() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let lib = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    lib.lines()
        .filter_map(|line| {
            line.strip_prefix("//! | ")?.split('`').find_map(|word| word.strip_prefix("rukh_"))
        })
        .map(|name| {
            let start = format!("rukh-{name} = {{ ");
            let line = workspace.lines().find_map(|line| line.strip_prefix(&start));
            let folder = line.and_then(|rest| rest.split_once("path = \"")?.1.split('"').next());
            (format!("rukh-{name}"), root.join(folder.unwrap_or_else(|| panic!("{name} is no package"))))
        })
        .collect()
}

#[test]
fn packages_only_look_down() {
    let packages = packages();
    let mut uses = 0;
    for (at, (package, folder)) in packages.iter().enumerate() {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for line in manifest.lines().filter(|line| line.contains("workspace = true")) {
            let used = line.split(['.', ' ']).next().unwrap_or(line);
            if !used.starts_with("rukh-") {
                continue;
            }
            let row = packages.iter().position(|(name, _)| name == used);
            let row = row.unwrap_or_else(|| panic!("{used} is not in the table of src/lib.rs"));
            assert!(row > at, "{package} uses {used}, which stands above it in src/lib.rs");
            uses += 1;
        }
    }
    assert!(uses > 30, "only {uses} uses found: does this test still look at the right thing?");
}

/// No files or folders inside `folder` use each other in a cycle, and where a `mod.rs` lists its modules in a table,
/// none uses one that stands above it.
fn assert_in_order(source: &str, folder: &str, least_arrows: usize) {
    let graph = SourceGraph::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(source));
    let found = graph.arrow_count();
    assert!(
        found >= least_arrows,
        "{source}: only {found} arrows found: does this test still look at the right thing?"
    );
    let cycles = graph.cycles(Path::new(folder));
    assert!(cycles.is_empty(), "files that use each other in a cycle, in {source}:\n{}", cycles.join("\n"));
    let upward = graph.upward_arrows(Path::new(folder));
    assert!(
        upward.is_empty(),
        "against the order of a table of modules, in {source}:\n{}",
        upward.join("\n")
    );
}

#[test]
fn the_modules_of_each_package_only_look_down() {
    assert_in_order("src", "", 300);
    // A package of data has one file.
    for (_, folder) in packages().iter().filter(|(_, folder)| package_files(folder).len() > 1) {
        assert_in_order(folder.to_str().unwrap(), "", 3);
    }
}

#[test]
fn the_shims_only_look_down() {
    assert_in_order("hip/shims/emulator/src", "", 50);
    assert_in_order("hip/hip-on-cuda/src", "", 10);
}

#[test]
fn the_fleet_only_looks_down() {
    assert_in_order("fleet/src", "", 100);
}
