//! Damaged network files: real files that are cut, spliced or changed must give a network or an error.
//!
//! The fuzz target `weights_file` drives the same function, [`Network::load_bytes`].

use std::path::Path;
use std::sync::OnceLock;

use proptest::prelude::*;
use rukh::fuzzing;
use rukh_net::onnx::write::{Settings, convert};
use rukh_net::{HeadSelection, Network, NetworkFile, describe};

use crate::goldens::{network_file, network_message};

/// The offsets of all keys, lengths and varints in a protobuf message and in its nested messages. In uncompressed
/// files the tests change only these bytes, because a change inside a large tensor would merely change a weight.
fn structure(bytes: &[u8]) -> Vec<usize> {
    fn walk(bytes: &[u8], base: usize, found: &mut Vec<usize>) -> Option<()> {
        let varint = |at: &mut usize| {
            let mut value = 0u64;
            for shift in (0..64).step_by(7) {
                let byte = *bytes.get(*at)?;
                *at += 1;
                value |= u64::from(byte & 127) << shift;
                if byte < 128 {
                    return Some(value);
                }
            }
            None
        };
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            let key = varint(&mut at)?;
            let length = match key & 7 {
                0 => varint(&mut at).map(|_| 0)?,
                1 => 8,
                5 => 4,
                2 => usize::try_from(varint(&mut at)?).ok()?,
                _ => return None,
            };
            let end = at.checked_add(length).filter(|&end| end <= bytes.len() && key >> 3 != 0)?;
            found.extend(base + start..base + at);
            let known = found.len();
            if key & 7 == 2 && walk(&bytes[at..end], base + at, found).is_none() {
                found.truncate(known);
            }
            at = end;
        }
        Some(())
    }
    let mut found = Vec::new();
    walk(bytes, 0, &mut found).expect("a committed network is a message");
    found
}

/// Checks that `bytes` give a network or an error of one short line, and that a file that decodes can be described.
fn check_outcome(bytes: &[u8]) -> Result<(), TestCaseError> {
    let message = match Network::load_bytes(bytes, &HeadSelection::default()) {
        Ok(network) => {
            prop_assert!(network.flops().total() > 0);
            String::new()
        }
        Err(error) => error.to_string(),
    };
    prop_assert!(message.lines().count() <= 1, "{message}");
    prop_assert!(message.len() < 400, "{message}");
    if let Ok(file) = NetworkFile::from_bytes(Path::new("mutated"), bytes.to_vec().into()) {
        prop_assert!(describe(&file).contains("Format"));
    }
    Ok(())
}

/// An ONNX model of a committed network.
fn onnx_model(name: &str) -> Vec<u8> {
    let network = Network::load_bytes(&network_file(name), &HeadSelection::default()).expect("it loads");
    convert(&network, &Settings::default()).expect("it can be converted").to_bytes()
}

/// An ONNX model, and the offsets at which it is changed.
type MutableModel = (Vec<u8>, Vec<usize>);

/// The offsets in an ONNX model at which changes are likely to reach the recogniser: those that [`structure`] finds near
/// its beginning, where the nodes are, and every second byte there, so that names and attributes change too.
fn places_in_model(model: &[u8]) -> Vec<usize> {
    const NODES: usize = 1 << 14;
    let mut places = structure(model);
    places.retain(|&place| place < 4 * NODES);
    places.extend((0..model.len().min(NODES)).step_by(2));
    places
}

const MUTATED: [&str; 4] = ["micro-attn", "micro-se-attnpol", "micro-smolgen", "micro-classical-wdl"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_change_of_structure_ends_the_process(
        network in 0..MUTATED.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = network_message(MUTATED[network]);
        let places = structure(&bytes);
        for (place, value) in changes {
            bytes[*place.get(&places)] = value;
        }
        check_outcome(&bytes)?;
    }

    #[test]
    fn no_cut_or_splice_ends_the_process(
        networks in (0..MUTATED.len(), 0..MUTATED.len()),
        cut in any::<prop::sample::Index>(),
        resume in any::<prop::sample::Index>(),
    ) {
        let (head, tail) = (network_message(MUTATED[networks.0]), network_message(MUTATED[networks.1]));
        let (cut, resume) = (cut.get(&structure(&head)).to_owned(), resume.get(&structure(&tail)).to_owned());
        check_outcome(&head[..cut])?;
        check_outcome(&[&head[..cut], &tail[resume..]].concat())?;
    }

    #[test]
    fn no_change_of_compressed_bytes_ends_the_process(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        length in any::<prop::sample::Index>(),
    ) {
        let mut bytes = network_file("micro-bf16");
        bytes.truncate(length.index(bytes.len()) + 1);
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        check_outcome(&bytes)?;
    }

    #[test]
    fn no_bytes_after_the_magic_end_the_process(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check_outcome(&[&b"\x0d\xc0\x01\x00\x00"[..], &bytes].concat())?;
        check_outcome(&bytes)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_change_of_an_onnx_model_ends_the_process(
        network in 0..MUTATED.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        length in any::<prop::sample::Index>(),
    ) {
        static MODELS: OnceLock<Vec<MutableModel>> = OnceLock::new();
        let models = MODELS.get_or_init(|| {
            let models = MUTATED.into_iter().map(onnx_model);
            models.map(|model| (model.clone(), places_in_model(&model))).collect()
        });
        let (mut bytes, places) = models[network].clone();
        for (place, value) in changes {
            bytes[*place.get(&places)] = value;
        }
        fuzzing::onnx_model(&bytes);
        bytes.truncate(length.index(bytes.len()));
        fuzzing::onnx_model(&bytes);
    }
}
