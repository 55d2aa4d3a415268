//! Keeps how the weights of a network were rounded to 8 bits, so that only the first start with it evaluates positions.
//!
//! For the embedded network this is compiled into the binary, where weights have all 8 bits. Otherwise it is a file in the
//! user's cache folder. [`rounding_file`] has the format. [`super::device_rounder`] keeps the same for a GPU.

use super::calibration::calibrated;
use super::network::{CpuNetwork, InstructionSet, Precision};
use super::rounder::{Guide, Rounder};
use super::rounding_file;
use rukh_base::cache_folder;
use rukh_net::Network;
use rukh_net::digest::digest;
use std::path::{Path, PathBuf};

/// How the weights of the embedded network are rounded.
#[cfg(feature = "embedded")]
const EMBEDDED: &[u8] = rukh_weights::ROUNDING;
#[cfg(not(feature = "embedded"))]
const EMBEDDED: &[u8] = &[];

/// The first word of the names of the cached files with what the CPU's own products use.
const NAME: &str = "int8-weights";

/// The file that keeps how the weights of a network were rounded.
pub(super) struct KeptFile {
    /// Without a cache folder, every start evaluates positions.
    path: Option<PathBuf>,
    /// What the content depends on.
    key: String,
}

impl KeptFile {
    /// The file in the cache folder. `name` is the first word of its name, and `identity` says on what the content depends
    /// apart from the version of Rukh and the instructions that evaluate the positions.
    pub(super) fn in_cache(name: &str, instructions: InstructionSet, identity: &str) -> KeptFile {
        let key = format!("{}\n{}\n{identity}", rukh_base::version::version(), instructions.name());
        KeptFile { path: cache_folder::file(name, &key, "gz"), key }
    }

    /// A rounder that rounds as the file says. If it is not there, is damaged, or has another key, positions are evaluated.
    /// `largest` is the largest 8-bit weight.
    pub(super) fn rounder(&self, network: &Network, instructions: InstructionSet, largest: i8) -> Rounder {
        let read = |path: &Path| rounding_file::read(&cache_folder::read(path).ok()?, &self.key);
        match self.path.as_deref().and_then(read) {
            Some(rounding) => Rounder::new(instructions.0, largest, Guide::Kept(rounding)),
            None => calibrated(network, instructions, largest).keeping(),
        }
    }

    /// Writes what the rounder has rounded, unless it did so as the file says. It is no error if that is not possible,
    /// because the next start can evaluate the positions again.
    pub(super) fn keep(&self, rounder: Rounder) {
        let bytes = rounder.made().map(|made| rounding_file::write(&self.key, &made));
        if let (Some(path), Some(Ok(bytes))) = (&self.path, bytes) {
            let _ = cache_folder::keep(path, &bytes);
        }
    }
}

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
            let largest = instructions.0.largest_int8_weight();
            let rounder = Rounder::new(instructions.0, largest, Guide::Kept(rounding));
            return CpuNetwork::pack(network, precision, instructions, rounder).0;
        }
        let file = KeptFile::in_cache(NAME, instructions, &identity);
        CpuNetwork::with_file(network, precision, instructions, &file)
    }

    /// Rounds 8-bit weights by the file, and writes it if it is of no use.
    fn with_file(
        network: Network,
        precision: Precision,
        instructions: InstructionSet,
        file: &KeptFile,
    ) -> CpuNetwork {
        let rounder = file.rounder(&network, instructions, instructions.0.largest_int8_weight());
        let (packed, rounder) = CpuNetwork::pack(network, precision, instructions, rounder);
        file.keep(rounder);
        packed
    }
}

/// The network's weights, and the largest weight that they are rounded to.
pub(super) fn identity_of_weights(network: &Network, largest: i8) -> String {
    format!("network {:016x}\nlargest weight {largest}\n", digest(network))
}

/// The network, and what else the rounded weights depend on, except the last bits of the evaluations by which they were
/// rounded.
fn identity(network: &Network, precision: Precision, instructions: InstructionSet) -> String {
    let convolutions = precision.int8_convolutions(&network.body);
    let largest = instructions.0.largest_int8_weight();
    format!("{}convolutions {convolutions:?}\n", identity_of_weights(network, largest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_chess::bench_positions;
    use rukh_net::discover::{OWN_NETWORK, find_network};
    use rukh_net::file::HeadSelection;
    use rukh_net::input::{HistoryFill, InputPlanes, encode};
    use std::fs;
    use std::io::Read as _;

    const RENEW: &str = "run scripts/training/round.sh, which writes weights/rukh-128x6.int8.gz";

    fn embedded_network() -> Network {
        let file = find_network(OWN_NETWORK, |_| {}).expect("the embedded network opens");
        file.network(&HeadSelection::default()).expect("the embedded network is valid")
    }

    fn planes(network: &Network) -> Vec<InputPlanes> {
        let format = network.architecture.input_format;
        let histories = bench_positions::POSITIONS[..4].iter().map(|text| {
            let fen = text.split(" moves ").next().expect("there is a FEN");
            rukh_chess::PositionHistory::new(rukh_chess::Position::from_fen(fen).expect("it is valid"))
        });
        histories.map(|history| encode(&history, format, HistoryFill::FenOnly).0).collect()
    }

    /// With `RUKH_WRITE_ROUNDING`, the test writes the file that it checks.
    #[test]
    fn the_embedded_rounding_is_what_calibration_gives() {
        let network = embedded_network();
        // AMX evaluates the positions in three products of bf16. The differences from fp32 are too small for the network's
        // figures, but large enough to round a third of the weights to another step.
        let is_used = |instructions: &InstructionSet| {
            instructions.0.largest_int8_weight() == i8::MAX && instructions.name() != "AMX"
        };
        let Some(instructions) = InstructionSet::available().into_iter().rfind(is_used) else {
            return println!(
                "skipped: this processor has no instruction set whose 8-bit weights have all 8 bits"
            );
        };
        let precision = Precision::Int8Dense;
        let identity = identity(&network, precision, instructions);
        let rounder = calibrated(&network, instructions, i8::MAX).keeping();
        let (_, rounder) = CpuNetwork::pack(network, precision, instructions, rounder);
        let made = rounder.made().expect("the rounder keeps it");
        if std::env::var_os("RUKH_WRITE_ROUNDING").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../weights/rukh-128x6.int8.gz");
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

    /// Otherwise every first start with the embedded network would evaluate positions. The test above does not run on
    /// every processor.
    #[test]
    fn the_embedded_rounding_is_that_of_the_embedded_network() {
        let expected = identity_of_weights(&embedded_network(), i8::MAX);
        let mut start = vec![0; size_of::<u32>() + expected.len()];
        flate2::read::GzDecoder::new(EMBEDDED).read_exact(&mut start).expect("it is not shorter");
        assert_eq!(String::from_utf8_lossy(&start[size_of::<u32>()..]), expected, "{RENEW}");
    }

    #[test]
    fn the_second_start_reads_the_file_and_gives_the_same_evaluations() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rukh/rounding.gz");
        let network = embedded_network();
        let planes = planes(&network);
        let instructions = InstructionSet::best();
        let start = |network: &Network, key: &str| {
            let file = KeptFile { path: Some(path.clone()), key: key.to_owned() };
            let packed = CpuNetwork::with_file(network.clone(), Precision::Int8Dense, instructions, &file);
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
        let file = KeptFile { path: None, key: String::new() };
        let [first, second] = [0, 1].map(|_| {
            CpuNetwork::with_file(network.clone(), Precision::Int8Dense, instructions, &file)
                .evaluate_raw(&planes)
        });
        assert_eq!(first, second);
    }
}
