//! Keeps how the weights of a network were rounded to 8 bits, so that only the first start with it evaluates positions.
//!
//! For the embedded network this is compiled into the binary, where weights have all 8 bits. Otherwise it is a file in the
//! user's cache folder. [`rounding_file`] has the format.

use super::calibration::calibrated;
use super::network::{CpuNetwork, InstructionSet, Precision};
use super::rounder::{Guide, NetworkRounding, Rounder};
use super::rounding_file;
use crate::cache_folder;
use crate::net::Network;
use crate::net::digest::digest;
use std::fs;
use std::path::{Path, PathBuf};

/// How the weights of the embedded network are rounded. `scripts/training/round.sh` writes it.
const EMBEDDED: &[u8] = include_bytes!("../../../weights/rukh-128x6.int8.gz");

/// The first word of the cached files' names.
const NAME: &str = "int8-weights";

impl CpuNetwork {
    /// Does the same as [`CpuNetwork::new`], by what an earlier start has kept if there is anything.
    pub(super) fn with_kept_rounding(
        network: Network,
        precision: Precision,
        instructions: InstructionSet,
    ) -> CpuNetwork {
        if !matches!(precision, Precision::Int8 | Precision::Int8Dense) {
            return CpuNetwork::new(network, precision, instructions);
        }
        let identity = identity(&network, precision, instructions);
        if let Some(rounding) = rounding_file::read(EMBEDDED, &identity) {
            return restored(network, precision, instructions, rounding);
        }
        let key = format!("{}\n{}\n{identity}", env!("RUKH_VERSION"), instructions.name());
        let path = cache_folder::file(NAME, &key, "gz");
        CpuNetwork::with_file(network, precision, instructions, path, &key)
    }

    /// Rounds 8-bit weights by the file at `path`. If it is not there, is damaged, or has another key, positions are
    /// evaluated and the file is written.
    fn with_file(
        network: Network,
        precision: Precision,
        instructions: InstructionSet,
        path: Option<PathBuf>,
        key: &str,
    ) -> CpuNetwork {
        let read = |path: &Path| rounding_file::read(&fs::read(path).ok()?, key);
        if let Some(rounding) = path.as_deref().and_then(read) {
            return restored(network, precision, instructions, rounding);
        }
        let (packed, rounder) = rounded(network, precision, instructions);
        // Without a cache folder, every start evaluates positions.
        if let (Some(path), Ok(bytes)) = (path, rounding_file::write(key, &rounder.made())) {
            let _ = cache_folder::keep(&path, &bytes);
        }
        packed
    }
}

/// Packs a network by an evaluation of positions. The rounder keeps what it has done.
fn rounded(network: Network, precision: Precision, instructions: InstructionSet) -> (CpuNetwork, Rounder) {
    let rounder = calibrated(&network, instructions).keeping();
    CpuNetwork::pack(network, precision, instructions, rounder)
}

/// Packs a network with weights that are rounded as in `rounding`.
fn restored(
    network: Network,
    precision: Precision,
    instructions: InstructionSet,
    rounding: NetworkRounding,
) -> CpuNetwork {
    let largest = instructions.0.largest_int8_weight();
    let rounder = Rounder::new(instructions.0, largest, Guide::Kept(rounding));
    CpuNetwork::pack(network, precision, instructions, rounder).0
}

/// The network, and what else the rounded weights depend on, except the last bits of the evaluations by which they were
/// rounded.
fn identity(network: &Network, precision: Precision, instructions: InstructionSet) -> String {
    let convolutions = precision.int8_convolutions(&network.body);
    let largest = instructions.0.largest_int8_weight();
    format!("network {:016x}\nlargest weight {largest}\nconvolutions {convolutions:?}\n", digest(network))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chess::bench_positions;
    use crate::net::discover::{OWN_NETWORK, find_network};
    use crate::net::file::HeadSelection;
    use crate::net::input::{HistoryFill, InputPlanes, encode};

    const RENEW: &str = "run scripts/training/round.sh, which writes weights/rukh-128x6.int8.gz";

    fn embedded_network() -> Network {
        let file = find_network(OWN_NETWORK).expect("the embedded network opens");
        file.network(&HeadSelection::default()).expect("the embedded network is valid")
    }

    fn planes(network: &Network) -> Vec<InputPlanes> {
        let format = network.architecture.input_format;
        let histories = bench_positions::POSITIONS[..4].iter().map(|text| {
            let fen = text.split(" moves ").next().expect("there is a FEN");
            crate::chess::PositionHistory::new(crate::chess::Position::from_fen(fen).expect("it is valid"))
        });
        histories.map(|history| encode(&history, format, HistoryFill::FenOnly).0).collect()
    }

    /// With `RUKH_WRITE_ROUNDING`, the test writes the file that it checks.
    #[test]
    fn the_embedded_rounding_is_what_calibration_gives() {
        let network = embedded_network();
        let Some(instructions) = InstructionSet::available()
            .into_iter()
            .rfind(|instructions| instructions.0.largest_int8_weight() == i8::MAX)
        else {
            return println!(
                "skipped: this processor has no instruction set whose 8-bit weights have all 8 bits"
            );
        };
        let precision = Precision::Int8Dense;
        let identity = identity(&network, precision, instructions);
        let made = rounded(network, precision, instructions).1.made();
        if std::env::var_os("RUKH_WRITE_ROUNDING").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/weights/rukh-128x6.int8.gz");
            let bytes = rounding_file::write(&identity, &made).expect("it is compressed");
            fs::write(path, &bytes).expect("the file is written");
            return println!("{path}: {} bytes", bytes.len());
        }
        let embedded = rounding_file::read(EMBEDDED, &identity);
        let embedded = embedded.unwrap_or_else(|| panic!("the file is not of this network: {RENEW}"));
        assert!(embedded.dense.keys().eq(made.dense.keys()), "other layers: {RENEW}");
        assert!(embedded.convolutions.is_empty());
        let (mut weights, mut different) = (0, 0);
        for (kept, new) in embedded.dense.values().zip(made.dense.values()) {
            assert_eq!(kept.shifts.len(), new.shifts.len(), "another size: {RENEW}");
            weights += kept.shifts.len();
            different += kept.shifts.iter().zip(&new.shifts).filter(|(kept, new)| kept != new).count();
        }
        println!("{different} of {weights} weights are rounded to another step");
        // The evaluations of processors differ in their last bits, which moves a few weights to the other side of the
        // middle between two steps, and with them some that compensate for them.
        assert!(different <= weights / 20, "{different} of {weights}: {RENEW}");
    }

    #[test]
    fn the_second_start_reads_the_file_and_gives_the_same_evaluations() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rukh/rounding.gz");
        let network = embedded_network();
        let planes = planes(&network);
        let instructions = InstructionSet::best();
        let start = |network: &Network, key: &str| {
            let path = Some(path.clone());
            let packed =
                CpuNetwork::with_file(network.clone(), Precision::Int8Dense, instructions, path, key);
            packed.evaluate_raw(&planes)
        };
        let first = start(&network, "one");
        let file = fs::read(&path).expect("the first start has written it");
        assert_eq!(
            CpuNetwork::new(network.clone(), Precision::Int8Dense, instructions).evaluate_raw(&planes),
            first
        );

        // A file without any shifts is believed, so the start reads it.
        let mut rounding = rounding_file::read(&file, "one").expect("it is sound");
        rounding.dense.values_mut().for_each(|layer| layer.shifts.fill(0));
        fs::write(&path, rounding_file::write("one", &rounding).expect("bytes")).expect("it is written");
        assert_ne!(start(&network, "one"), first, "the file decides how weights are rounded");
        fs::write(&path, &file).expect("it is written");
        assert_eq!(start(&network, "one"), first);

        for damaged in [&b""[..], b"no gzip", &file[..file.len() / 2]] {
            fs::write(&path, damaged).expect("it is written");
            assert_eq!(start(&network, "one"), first, "{} bytes", damaged.len());
            assert_eq!(fs::read(&path).expect("it is there"), file, "the file is replaced");
        }
        // What was kept with another key is of no use.
        start(&network, "two");
        assert!(rounding_file::read(&fs::read(&path).expect("it is there"), "two").is_some());
    }

    #[test]
    fn a_network_with_other_weights_has_another_identity() {
        let network = embedded_network();
        let instructions = InstructionSet::best();
        let mut other = network.clone();
        other.value.hidden.weights[7] += 0.5;
        let identities =
            [&network, &other].map(|network| identity(network, Precision::Int8Dense, instructions));
        assert_ne!(identities[0], identities[1]);
        assert!(rounding_file::read(EMBEDDED, &identities[1]).is_none(), "it is not the embedded network");
    }

    #[test]
    fn a_start_without_a_cache_folder_gives_the_same_evaluations() {
        let network = embedded_network();
        let planes = planes(&network);
        let instructions = InstructionSet::best();
        let [first, second] = [0, 1].map(|_| {
            CpuNetwork::with_file(network.clone(), Precision::Int8Dense, instructions, None, "")
                .evaluate_raw(&planes)
        });
        assert_eq!(first, second);
    }
}
