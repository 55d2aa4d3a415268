//! Golden sets: networks with lc0's own evaluations of some positions, with which every evaluator is compared.
//!
//! A set consists of a network file, the heads to select, and positions with lc0's raw policy logits, q, d and m.
//! The sets of [`committed`] are in `tests/data`. Those of [`shared`] are too large for git; they are used if they
//! are present beside the checkout. A set for another input format uses micro-attn with that header field changed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use prost::Message;
use rukh_net::HeadSelection;
use rukh_net::file::proto::{Net, Weights, decode_bounded};
use serde::Deserialize;

/// A network with lc0's evaluations of some positions.
pub(crate) struct GoldenSet {
    /// The golden file's name without its suffix, for messages: for example `micro-multihead.value-q`.
    pub(crate) name: String,
    /// The bytes of the network file, gzipped or not.
    pub(crate) network: Vec<u8>,
    /// The heads that lc0 evaluated.
    pub(crate) heads: HeadSelection,
    /// lc0's number for the format of the input planes.
    pub(crate) input_format: i32,
    /// Whether the value head gives win, draw and loss. If not, every `d` is 0.
    pub(crate) has_wdl: bool,
    /// Whether the network has a moves-left head. If not, every `m` is 0.
    pub(crate) has_moves_left: bool,
    /// lc0 encoded all positions with the history fill `fen_only`.
    pub(crate) positions: Vec<GoldenPosition>,
}

/// A position with lc0's evaluation.
#[derive(Clone, Deserialize)]
pub(crate) struct GoldenPosition {
    pub(crate) id: String,
    /// The position before the first of `moves`.
    pub(crate) fen: String,
    #[serde(rename = "frc")]
    pub(crate) chess960: bool,
    /// The UCI moves that lead from `fen` to the evaluated position.
    pub(crate) moves: Vec<String>,
    /// For each legal move: its UCI notation, its policy index, and its logit before any softmax.
    pub(crate) policy_raw: Vec<(String, u16, f32)>,
    /// The probability of a win minus that of a loss, from the side to move's view.
    pub(crate) q: f32,
    /// The probability of a draw.
    pub(crate) d: f32,
    /// The moves left, in plies.
    pub(crate) m: f32,
}

#[derive(Deserialize)]
struct GoldenFile {
    network: String,
    backend_opts: String,
    input_format: i32,
    has_wdl: bool,
    has_mlh: bool,
    history_fill: String,
    positions: Vec<GoldenPosition>,
}

/// The sets in `tests/data`. Together they cover every format, weight encoding and head.
pub(crate) fn committed() -> Vec<GoldenSet> {
    let data = data_directory();
    let sets: Vec<GoldenSet> = golden_files(&data, ".json.gz")
        .into_iter()
        .map(|(name, path)| {
            let mut json = String::new();
            let file = fs::File::open(&path).expect("a golden file can be opened");
            GzDecoder::new(file).read_to_string(&mut json).expect("a golden file is gzipped text");
            let golden = parse(&name, &json);
            let network = committed_network(&golden);
            golden.with(name, network)
        })
        .collect();
    assert!(sets.len() >= 22, "tests/data has only {} golden sets", sets.len());
    sets
}

/// The set of `tests/data` with this name.
pub(crate) fn named(name: &str) -> GoldenSet {
    let found = committed().into_iter().find(|set| set.name == name);
    found.unwrap_or_else(|| panic!("there is no committed network {name}"))
}

/// The sets in `../shared/goldens`, if it exists: real and larger networks, which are not committed. A set is skipped
/// if its network file is missing; the files are in `../shared/nets` or in the directory that `RUKH_TEST_NETS` names.
pub(crate) fn shared() -> Vec<GoldenSet> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    if !shared.join("goldens").is_dir() {
        println!("skipped: the shared golden sets, because the directory ../shared/goldens does not exist");
        return Vec::new();
    }
    let committed = golden_files(&data_directory(), ".json.gz");
    let mut directories = vec![shared.join("nets")];
    directories.extend(std::env::var_os("RUKH_TEST_NETS").map(PathBuf::from));
    let mut sets = Vec::new();
    for (name, path) in golden_files(&shared.join("goldens"), ".json") {
        if committed.contains_key(&name) || name == "planes" {
            continue;
        }
        let golden = parse(&name, &fs::read_to_string(&path).expect("a golden file can be read"));
        match directories.iter().map(|directory| directory.join(&golden.network)).find(|path| path.is_file())
        {
            Some(path) => {
                let network = fs::read(path).expect("a network file can be read");
                sets.push(golden.with(name, network));
            }
            None => {
                let file = &golden.network;
                println!("skipped: {name}, because {file} is neither in ../shared/nets nor in RUKH_TEST_NETS")
            }
        }
    }
    sets
}

/// The directory of the committed networks and golden files.
pub(crate) fn data_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The bytes of the committed network file `NAME.pb.gz`, still gzipped.
pub(crate) fn network_file(name: &str) -> Vec<u8> {
    let path = data_directory().join(format!("{name}.pb.gz"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The decompressed bytes of the committed network file `NAME.pb.gz`: a protobuf message.
pub(crate) fn network_message(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(&network_file(name)[..]).read_to_end(&mut bytes).expect("a network file is gzipped");
    bytes
}

/// The decompressed bytes of a committed network file after `edit` has changed its header.
pub(crate) fn edited_network(name: &str, edit: impl FnOnce(&mut Net)) -> Vec<u8> {
    let mut net = Net::decode(network_message(name).as_slice()).expect("a committed network decodes");
    edit(&mut net);
    net.encode_to_vec()
}

/// The decompressed bytes of a committed network file after `edit` has changed its weights.
pub(crate) fn edited_weights(name: &str, edit: impl FnOnce(&mut Weights)) -> Vec<u8> {
    edited_network(name, |net| {
        let bytes = net.weights.as_ref().expect("a committed network has weights");
        let mut weights: Weights = decode_bounded(bytes).expect("a committed network's weights decode");
        edit(&mut weights);
        net.weights = Some(weights.encode_to_vec().into());
    })
}

/// The paths of the files in `directory` that end in `suffix`, by file name without the suffix.
fn golden_files(directory: &Path, suffix: &str) -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let paths = entries.map(|entry| entry.expect("a directory entry can be read").path());
    paths
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(suffix)?.to_owned();
            Some((name, path))
        })
        .collect()
}

fn parse(name: &str, json: &str) -> GoldenFile {
    let golden: GoldenFile = serde_json::from_str(json).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(golden.history_fill, "fen_only", "{name}");
    golden
}

/// The network of a committed set: a file of its own, or micro-attn with another input format.
fn committed_network(golden: &GoldenFile) -> Vec<u8> {
    let name = golden.network.strip_suffix(".pb.gz").expect("networks are .pb.gz");
    if !name.starts_with("micro-in") {
        return network_file(name);
    }
    edited_network("micro-attn", |net| {
        let format = net.format.as_mut().and_then(|format| format.network_format.as_mut());
        format.expect("micro-attn has a network format").input = Some(golden.input_format);
    })
}

impl GoldenFile {
    fn with(self, name: String, network: Vec<u8>) -> GoldenSet {
        let mut heads = HeadSelection::default();
        for option in self.backend_opts.split(',').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("policy_head", head)) => heads.policy = head.to_owned(),
                Some(("value_head", head)) => heads.value = head.to_owned(),
                _ => panic!("{name}: unexpected backend option {option}"),
            }
        }
        GoldenSet {
            name,
            network,
            heads,
            input_format: self.input_format,
            has_wdl: self.has_wdl,
            has_moves_left: self.has_mlh,
            positions: self.positions,
        }
    }
}
