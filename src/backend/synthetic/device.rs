//! A simulated graphics card, to test how busy the search keeps a device.
//!
//! A synthetic backend evaluates, and the device makes its batches take time. It pads a batch to n positions, a power of
//! two or one and a half times a power of two. The batch takes the slot that is free first and occupies it for
//! `delay + n * per_position`. The time of completion is computed when the batch is submitted, and the ticket sleeps
//! until then, so the simulated device uses no CPU time, like a real one.
//!
//! With `times` it is a card that was measured: the time that the [`Times`] give is added to the two others, and the slots
//! share the card, so that their batches take as long together as one after another.

use crate::ticket::{Done, check_batch_size};
use crate::{Added, Attributes, Backend, BackendError, Batch, BatchSizes, EvalRequest, Evaluations, Ticket};
use rukh_base::sync::{Arc, Mutex, PoisonError, thread};
use rukh_net::InputPlanes;
use std::time::{Duration, Instant};

/// The options of a [`SimulatedDevice`].
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// The time that every batch takes, whatever its size.
    pub delay: Duration,
    /// The time that each position adds to its batch.
    pub per_position: Duration,
    /// The measured times of batches, which are added to `delay` and `per_position`; none by default.
    pub times: Times,
    /// The number of batches that the device evaluates at once; at least 1.
    pub slots: usize,
    /// The recommended batch size, in positions.
    pub batch: usize,
}

impl Default for DeviceOptions {
    fn default() -> DeviceOptions {
        DeviceOptions {
            delay: Duration::ZERO,
            per_position: Duration::ZERO,
            times: Times::default(),
            slots: 1,
            batch: 256,
        }
    }
}

/// How long a card takes for batches of some sizes while several batches are in flight.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Times(Vec<(usize, Duration)>);

impl Times {
    /// Reads `SIZE:MICROSECONDS/SIZE:MICROSECONDS/...`, with ascending sizes.
    pub fn parse(text: &str) -> Option<Times> {
        let entry = |entry: &str| {
            let (size, time) = entry.split_once(':')?;
            let microseconds = time.parse().ok().filter(|&time| time < 60_000_000)?;
            Some((size.parse().ok().filter(|&size| size > 0)?, Duration::from_micros(microseconds)))
        };
        let times: Vec<_> = text.split('/').map(entry).collect::<Option<_>>()?;
        times.is_sorted_by(|(size, _), (next, _)| size < next).then_some(Times(times))
    }

    /// The time of a batch of `positions`: linear between the measured sizes, the time of the smallest one for fewer
    /// positions, and in proportion to the positions above the largest one.
    fn of(&self, positions: usize) -> Duration {
        let next = self.0.partition_point(|&(size, _)| size < positions);
        let before = next.checked_sub(1).map(|index| self.0[index]);
        let ratio = |part: usize, whole: usize| part as f64 / whole as f64;
        match (before, self.0.get(next)) {
            (None, None) => Duration::ZERO,
            (None, Some(&(_, time))) => time,
            (Some((size, time)), None) => time.mul_f64(ratio(positions, size)),
            (Some((size, time)), Some(&(next_size, next_time))) => {
                let share = ratio(positions - size, next_size - size);
                time.mul_f64(1.0 - share) + next_time.mul_f64(share)
            }
        }
    }
}

/// A backend whose batches take time.
pub struct SimulatedDevice {
    inner: Arc<dyn Backend>,
    shared: Arc<Shared>,
}

/// The part of the device that its batches use.
struct Shared {
    attributes: Attributes,
    options: DeviceOptions,
    /// The time at which each slot is free again, or the card that all slots share.
    free_at: Mutex<Vec<Instant>>,
}

impl SimulatedDevice {
    /// Makes the device. Without any time in `options`, it reports itself as a processor.
    pub fn new(inner: Arc<dyn Backend>, options: DeviceOptions) -> SimulatedDevice {
        let slots = options.slots.max(1);
        let batch = options.batch.max(1);
        let shares_card = options.times != Times::default();
        let takes_time = shares_card || !(options.delay + options.per_position).is_zero();
        let attributes = Attributes {
            runs_on_cpu: !takes_time,
            suggested_threads: if takes_time { slots } else { 1 },
            recommended_batch_size: batch,
            batch_sizes: if takes_time { BatchSizes::new(SIZES) } else { BatchSizes::default() },
            ..inner.attributes().clone()
        };
        let free_at = Mutex::new(vec![Instant::now(); if shares_card { 1 } else { slots }]);
        SimulatedDevice { inner, shared: Arc::new(Shared { attributes, options, free_at }) }
    }
}

/// The sizes to which the device pads batches, in ascending order.
const SIZES: [usize; 20] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024];

impl Shared {
    /// The time at which a batch of `length` positions, submitted now, will be complete. Occupies a slot until then.
    /// Returns `None` if the batch takes no time.
    fn completion(&self, length: usize) -> Option<Instant> {
        let padded = self.attributes.batch_sizes.padded(length);
        let DeviceOptions { delay, per_position, times, .. } = &self.options;
        let duration = *delay + *per_position * u32::try_from(padded).unwrap_or(u32::MAX) + times.of(padded);
        if duration.is_zero() || length == 0 {
            return None;
        }
        let now = Instant::now();
        // The times are valid even if the lock is poisoned.
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = free_at.iter_mut().min()?;
        *slot = (*slot).max(now) + duration;
        Some(*slot)
    }
}

impl Backend for SimulatedDevice {
    fn attributes(&self) -> &Attributes {
        &self.shared.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(DeviceBatch { shared: Arc::clone(&self.shared), batch: self.inner.new_batch() })
    }
}

struct DeviceBatch {
    shared: Arc<Shared>,
    batch: Box<dyn Batch>,
}

impl Batch for DeviceBatch {
    fn len(&self) -> usize {
        self.batch.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        self.batch.add(request)
    }

    fn add_planes(&mut self, planes: &InputPlanes, indices: &[u16]) -> bool {
        self.batch.add_planes(planes, indices)
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        if let Err(error) = check_batch_size(&self.shared.attributes, self.batch.len()) {
            return Done::boxed(Err(error));
        }
        let ready_at = self.shared.completion(self.batch.len());
        let ticket = self.batch.submit();
        match ready_at {
            None => ticket,
            Some(ready_at) => Box::new(DeviceTicket { ready_at, ticket }),
        }
    }
}

struct DeviceTicket {
    ready_at: Instant,
    ticket: Box<dyn Ticket>,
}

impl Ticket for DeviceTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        thread::sleep(self.ready_at.saturating_duration_since(Instant::now()));
        self.ticket.wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_linear_between_the_measured_sizes() {
        let times = Times::parse("16:1000/64:2200/512:16000").unwrap();
        let microseconds = |positions| times.of(positions).as_micros();
        assert_eq!([1, 16, 40, 64, 512, 1024].map(microseconds), [1000, 1000, 1600, 2200, 16_000, 32_000]);
        assert_eq!(Times::default().of(7), Duration::ZERO);
        for wrong in ["", "16", "16:", "0:1", "16:-1", "16:1/16:2", "64:1/16:2", "16:99999999"] {
            assert_eq!(Times::parse(wrong), None, "{wrong}");
        }
    }
}
