//! Records how long each step of a forward pass takes, for [`rukh_backend::profile`].
//!
//! A recorder works like a stopwatch with laps: the time of a step begins where the step before it ended. So the times
//! add up to the time of the whole pass, and none of it is lost between the steps. A recorder that is off costs a test
//! and a branch for each step.

use std::time::{Duration, Instant};

/// A part of the network: a stage, and the number of the encoder or block if the stage has several.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Place {
    pub(super) stage: &'static str,
    pub(super) index: Option<usize>,
}

/// What a step has to do at least.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Work {
    /// Floating-point operations of matrix products: two for each multiplication with its addition.
    pub(super) operations: f64,
    /// The bytes of the weights that are read, and of the numbers that are read and written, each counted once.
    pub(super) bytes: f64,
}

impl Work {
    /// A step without matrix products that reads and writes so many fp32 numbers.
    pub(super) fn moving(numbers: usize) -> Work {
        Work::multiplying(0, 0, numbers)
    }

    /// A step with so many multiplications with an addition, which reads so many bytes of weights, and reads and writes
    /// so many fp32 numbers.
    pub(super) fn multiplying(multiply_adds: usize, weight_bytes: usize, numbers: usize) -> Work {
        let bytes = weight_bytes + numbers * size_of::<f32>();
        Work { operations: 2.0 * multiply_adds as f64, bytes: bytes as f64 }
    }
}

/// One run of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lap {
    pub(super) place: Place,
    pub(super) name: &'static str,
    pub(super) time: Duration,
    pub(super) work: Work,
}

/// Records the steps of a thread's forward passes, or does nothing.
#[derive(Debug, Default)]
pub(super) struct Recorder(Option<Box<Recording>>);

#[derive(Debug)]
struct Recording {
    laps: Vec<Lap>,
    place: Place,
    /// The end of the last step.
    last: Instant,
}

impl Recorder {
    /// Turns the recorder on. The first step begins now.
    pub(super) fn start(&mut self) {
        let place = Place::default();
        self.0 = Some(Box::new(Recording { laps: Vec::new(), place, last: Instant::now() }));
    }

    /// Turns the recorder off, and returns the steps that have ended since its start, in their order.
    pub(super) fn stop(&mut self) -> Vec<Lap> {
        self.0.take().map(|recording| recording.laps).unwrap_or_default()
    }

    /// The following steps belong to this part of the network.
    #[inline]
    pub(super) fn enter(&mut self, stage: &'static str, index: Option<usize>) {
        if let Some(recording) = &mut self.0 {
            recording.place = Place { stage, index };
        }
    }

    /// A step has ended.
    #[inline]
    pub(super) fn lap(&mut self, name: &'static str, work: impl FnOnce() -> Work) {
        if let Some(recording) = &mut self.0 {
            recording.lap(name, work());
        }
    }
}

impl Recording {
    #[cold]
    fn lap(&mut self, name: &'static str, work: Work) {
        let now = Instant::now();
        self.laps.push(Lap { place: self.place, name, time: now - self.last, work });
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_laps_add_up_to_the_time_since_the_start() {
        let mut recorder = Recorder::default();
        recorder.lap("before the start", Work::default);
        let begin = Instant::now();
        recorder.start();
        recorder.enter("encoder", Some(3));
        std::thread::sleep(Duration::from_millis(5));
        recorder.lap("first", || Work::multiplying(10, 8, 3));
        recorder.lap("second", Work::default);
        let laps = recorder.stop();
        let all = begin.elapsed();
        assert_eq!(laps.iter().map(|lap| lap.name).collect::<Vec<_>>(), ["first", "second"]);
        assert_eq!(laps[0].place, Place { stage: "encoder", index: Some(3) });
        assert_eq!(laps[0].work, Work { operations: 20.0, bytes: 20.0 });
        assert!(laps[0].time >= Duration::from_millis(5) && laps[0].time + laps[1].time <= all);
        assert!(recorder.stop().is_empty());
    }
}
