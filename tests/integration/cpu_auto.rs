//! `cpu-auto`: the number format is measured at the first start with a network, and remembered.

use crate::driver::{Driver, rukh};
use std::fs;
use std::path::{Path, PathBuf};

const NETWORKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

/// What the engine says about `cpu-auto` when it starts with a network of the tests and searches.
fn said(network: &str, cache: &Path, arguments: &[&str]) -> String {
    let weights = format!("--weights={NETWORKS}/{network}.pb.gz");
    let mut command = rukh(&[&["--backend=cpu-auto", &*weights], arguments].concat());
    command.env("XDG_CACHE_HOME", cache);
    let mut engine = Driver::spawn(command);
    engine.send("go nodes 20");
    let lines = engine.until("bestmove");
    let line = lines.iter().find(|line| line.contains("cpu-auto")).expect("the choice is named");
    line.strip_prefix("info string ").expect("it is an info string").to_owned()
}

fn kept(cache: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(cache.join("rukh")).into_iter().flatten();
    let paths = files.map(|file| file.expect("the folder can be read").path());
    paths.filter(|path| path.to_string_lossy().contains("cpu-format")).collect()
}

#[test]
fn the_format_is_measured_once_for_a_network() {
    let cache = tempfile::tempdir().expect("a folder");
    let measured = |file: &Path| fs::read_to_string(file).expect("the file can be read");
    let first = said("micro-attn", cache.path(), &[]);
    assert!(first.starts_with("cpu-auto uses cpu"), "{first}");
    let files = kept(cache.path());
    assert_eq!(files.len(), 1);
    let text = measured(&files[0]);
    let (line, key) = text.split_once('\n').expect("it has a line and a key");
    let last: Vec<&str> = line.split(';').next_back().unwrap_or_default().split(' ').collect();
    assert!(last[0] == "cpu-int8" && last.len() == 4, "{line}");

    // The next start believes the file.
    fs::write(&files[0], format!("cpu-int8 77 0.001 0.0001\n{key}")).expect("the file can be written");
    let second = said("micro-attn", cache.path(), &[]);
    assert_eq!(
        second,
        "cpu-auto uses cpu-int8: 77.00 times as fast as cpu, and q differs by 0.0010 on average"
    );
    fs::write(&files[0], format!("cpu-int8 77 0.1 0.0001\n{key}")).expect("the file can be written");
    let third = said("micro-attn", cache.path(), &[]);
    assert_eq!(third, "cpu-auto uses cpu: no faster number format is accurate enough for this network");
    // Figures of another network, or with other instructions, are no use.
    for (network, arguments) in
        [("micro-smolgen", [].as_slice()), ("micro-attn", &["--backend-opts=isa=portable"])]
    {
        let before = kept(cache.path()).len();
        said(network, cache.path(), arguments);
        assert_eq!(kept(cache.path()).len(), before + 1, "{network}");
    }

    // A file that is no file of ours is replaced.
    for damaged in ["", "cpu-int8", "\u{0}", &format!("cpu-int8 much 0 0\n{key}")] {
        fs::write(&files[0], damaged).expect("the file can be written");
        said("micro-attn", cache.path(), &[]);
        assert!(measured(&files[0]).ends_with(key), "{damaged}");
        assert_ne!(measured(&files[0]), damaged);
    }
}

#[test]
fn a_residual_tower_is_in_fp32_without_instructions_for_bytes_and_nothing_is_measured() {
    let cache = tempfile::tempdir().expect("a folder");
    let portable = ["--backend-opts=isa=portable"];
    assert_eq!(said("micro-se-conv", cache.path(), &portable), "cpu-auto uses cpu");
    assert!(kept(cache.path()).is_empty());
}

#[test]
fn without_a_cache_folder_the_format_is_measured_at_each_start() {
    // A file cannot be a folder.
    let file = tempfile::NamedTempFile::new().expect("a file");
    let first = said("micro-attn", file.path(), &[]);
    assert!(first.starts_with("cpu-auto uses cpu"), "{first}");
}
