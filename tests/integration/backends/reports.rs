//! `check` compares two backends, and `recordreplay` records evaluations and replays them.

use super::*;
use rukh_backend::synthetic::TrivialBackend;
use rukh_backend::wrap::{CheckBackend, CheckMode, CheckOptions};
use rukh_backend::wrap::{RecordingBackend, ReplayingBackend};
use std::sync::Mutex;

#[test]
fn check_catches_a_backend_that_is_a_little_wrong() {
    let samples = samples(30);
    for mode in [CheckMode::Check, CheckMode::Display, CheckMode::Histogram] {
        for error in [None, Some(1e-3), Some(f32::NAN)] {
            let wrong = error.is_some();
            let lines = Arc::new(Mutex::new(Vec::new()));
            let sink = {
                let lines = Arc::clone(&lines);
                Box::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()))
            };
            let work = error.map_or_else(random, |error| Faulty::with(Fault::WrongValue(error)));
            let options = CheckOptions { mode, frequency: 0.5, ..CheckOptions::default() };
            let check = CheckBackend::with_sink(work, random(), options, sink);
            for _ in 0..10 {
                let found = evaluate(&check, &samples).unwrap();
                assert_eq!(
                    found[0].value.q == evaluate(&*random(), &samples[..1]).unwrap()[0].value.q,
                    !wrong
                );
            }
            assert_eq!(check.totals(), (5, if wrong { 5 } else { 0 }));
            drop(check);
            let lines = lines.lock().unwrap();
            // One line at creation, one per compared batch, and one at the end.
            assert_eq!(lines.len(), 7, "{lines:?}");
            let expected = match (mode, error) {
                (CheckMode::Check, None) => "passed",
                (CheckMode::Check, Some(_)) => "FAILED",
                (CheckMode::Display, None) => "values 0.0e0 absolute",
                (CheckMode::Display, Some(1e-3)) => "values 1.0e-3 absolute",
                (CheckMode::Display, Some(_)) => "values inf absolute",
                (CheckMode::Histogram, None) => "< 1e-12",
                (CheckMode::Histogram, Some(1e-3)) => ">= 1e-",
                (CheckMode::Histogram, Some(_)) => ">= 1e+0",
            };
            assert!(lines[3].contains(expected), "{}", lines[3]);
            assert!(lines[6].contains("5 batches compared"), "{}", lines[6]);
        }
    }
}

#[test]
fn a_recording_can_be_extended_and_replayed() {
    let path = scratch_file("recording.bin");
    let samples = samples(60);
    let expected = evaluate(&TrivialBackend::new(), &samples[..50]).unwrap();
    for part in [&samples[..20], &samples[10..50]] {
        // The second recorder appends to the file of the first.
        let recorder = create("recordreplay", &format!("trivial,record_file='{}'", path.display())).unwrap();
        evaluate(&*recorder, part).unwrap();
    }
    let replay = create("recordreplay", &format!("replay_file='{}'", path.display())).unwrap();
    assert!(replay.attributes().has_wdl && replay.attributes().has_mlh);
    assert_same("replay", &evaluate(&*replay, &samples[..50]).unwrap(), &expected, 0.0);

    let error = evaluate(&*replay, &samples[45..55]).unwrap_err().to_string();
    assert!(error.contains(&samples[50].history.last().to_fen()), "{error}");
}

#[test]
fn a_recording_tells_positions_apart_as_a_network_does() {
    let from_fen = |fen| Sample::new(PositionHistory::new(Position::from_fen(fen).unwrap()));
    let pairs = [
        // The fifty-move counters differ.
        (from_fen("4k3/8/8/8/8/8/8/R3K3 w - - 10 50"), from_fen("4k3/8/8/8/8/8/8/R3K3 w - - 11 50")),
        // The same moves in another order.
        (Sample::after("g1f3 g8f6 b1c3"), Sample::after("b1c3 g8f6 g1f3")),
    ];
    for (index, (recorded, other)) in pairs.into_iter().enumerate() {
        let path = scratch_file(&format!("like-{index}.bin"));
        evaluate(&RecordingBackend::new(random(), &path).unwrap(), std::slice::from_ref(&recorded)).unwrap();
        let replay = ReplayingBackend::new(&path).unwrap();
        assert!(evaluate(&replay, &[recorded]).is_ok(), "pair {index}");
        assert!(evaluate(&replay, &[other]).is_err(), "pair {index}");
    }
}

#[test]
fn damaged_recordings_are_refused() {
    let path = scratch_file("damaged.bin");
    let refusal = || match ReplayingBackend::new(&path) {
        Ok(_) => panic!("a damaged recording was accepted"),
        Err(error) => error.to_string(),
    };
    assert!(refusal().contains("damaged.bin"));
    std::fs::write(&path, b"a text").unwrap();
    assert!(refusal().contains("not a recording"));
    let recorder_refusal = RecordingBackend::new(random(), &path).err().unwrap().to_string();
    assert!(recorder_refusal.contains("not a recording"), "it must not append to other files");
    std::fs::remove_file(&path).unwrap();

    let recorder = RecordingBackend::new(random(), &path).unwrap();
    evaluate(&recorder, &samples(5)).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    assert!(refusal().contains("truncated"));
    // Damage the first record: its number of moves, or the upper two bytes of its q.
    for (damage, message) in [(9 + 24..9 + 26, "65535 moves"), (9 + 10..9 + 12, "not finite")] {
        let mut damaged = bytes.clone();
        damaged[damage].fill(0xff);
        std::fs::write(&path, &damaged).unwrap();
        assert!(refusal().contains(message), "{}", refusal());
    }
}
