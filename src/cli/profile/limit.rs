//! Which limit binds an operation: launches, latency, bandwidth or compute.
//!
//! The time of an operation is divided into these four terms by figures alone (`docs/profile.md` has the reasoning). A
//! second batch size shows which part of the time grows with the batch. The growing part belongs to the ceiling that
//! explains at least half of it, and to latency if neither does. The part that does not grow belongs to launches as far
//! as empty kernels take that time, then to bandwidth as far as the weights explain it, and the rest to latency.

use super::group::Group;
use rukh_backend::profile::Ceilings;
use serde::Serialize;

/// A limit on the speed of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Limit {
    Launches,
    Latency,
    Bandwidth,
    Compute,
}

impl Limit {
    /// The name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Limit::Launches => "launches",
            Limit::Latency => "latency",
            Limit::Bandwidth => "bandwidth",
            Limit::Compute => "compute",
        }
    }
}

/// The four terms of an operation's time, in microseconds. They add up to the time.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(super) struct Terms {
    pub(super) launches: f64,
    pub(super) latency: f64,
    pub(super) bandwidth: f64,
    pub(super) compute: f64,
}

impl Terms {
    /// The largest term, and its share of the time.
    pub(super) fn binding(&self) -> (Limit, f64) {
        let all = [
            (Limit::Launches, self.launches),
            (Limit::Latency, self.latency),
            (Limit::Bandwidth, self.bandwidth),
            (Limit::Compute, self.compute),
        ];
        let sum: f64 = all.iter().map(|(_, time)| time).sum();
        let (limit, time) = all.into_iter().fold((Limit::Latency, 0.0), |a, b| if b.1 > a.1 { b } else { a });
        (limit, if sum > 0.0 { time / sum } else { 0.0 })
    }
}

/// The shortest times that the ceilings allow, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(super) struct Floors {
    /// The operations at the highest measured speed.
    pub(super) compute: f64,
    /// The bytes at the speed of a copy of the size of a call.
    pub(super) copy: f64,
}

impl Floors {
    /// The floors of a group.
    pub(super) fn of(group: &Group, ceilings: &Ceilings) -> Floors {
        let operations = [group.operations, group.byte_operations];
        Floors::of_work(operations, group.bytes, group.bytes_of_a_call, ceilings)
    }

    /// The floors of so many operations, of which the second number have factors of 8 bits, and so many bytes.
    fn of_work(
        [operations, byte_operations]: [f64; 2],
        bytes: f64,
        bytes_of_a_call: f64,
        ceilings: &Ceilings,
    ) -> Floors {
        let time = |amount: f64, speed: f64| if speed > 0.0 { amount.max(0.0) / speed * 1e6 } else { 0.0 };
        let speed = ceilings.operations_per_second;
        let on_bytes = Some(ceilings.byte_operations_per_second).filter(|&known| known > 0.0);
        Floors {
            compute: time(operations - byte_operations, speed)
                + time(byte_operations, on_bytes.unwrap_or(speed)),
            copy: time(bytes, ceilings.bytes_per_second(bytes_of_a_call)),
        }
    }
}

/// The part of a figure that grows with the batch, if it has the value `here` for `positions` and `there` for another
/// number of positions.
fn growing((positions, here): (usize, f64), (others, there): (usize, f64)) -> f64 {
    (there - here) / (others as f64 - positions as f64) * positions as f64
}

/// Divides the time of an operation for `positions` into its terms. `other` is the same operation in a batch of another
/// size. Without it, the whole time is taken to grow with the batch.
pub(super) fn terms(
    (positions, group): (usize, &Group),
    other: Option<(usize, &Group)>,
    ceilings: &Ceilings,
) -> Terms {
    let time = group.microseconds();
    let other = other.filter(|(others, _)| *others != positions);
    let part = |figure: &dyn Fn(&Group) -> f64| {
        let here = figure(group);
        other.map_or(here, |(others, other)| {
            growing((positions, here), (others, figure(other))).clamp(0.0, here)
        })
    };
    let growing_time = part(&Group::microseconds);
    let operations = [part(&|group| group.operations), part(&|group| group.byte_operations)];
    let bytes = part(&|group| group.bytes);
    let size = group.bytes_of_a_call;
    let growing_floors = Floors::of_work(operations, bytes, size, ceilings);
    let fixed_floors = Floors::of_work([0.0; 2], group.bytes - bytes, size, ceilings);

    let fixed_time = time - growing_time;
    let launches = (group.launches as f64 * ceilings.launch_microseconds).min(fixed_time);
    let weights = fixed_floors.copy.min(fixed_time - launches);
    let mut terms =
        Terms { launches, latency: fixed_time - launches - weights, bandwidth: weights, compute: 0.0 };
    let Floors { compute, copy } = growing_floors;
    if compute.max(copy) < growing_time / 2.0 {
        terms.latency += growing_time;
    } else if compute >= copy {
        terms.compute += growing_time;
    } else {
        terms.bandwidth += growing_time;
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_backend::profile::CopySpeed;

    /// 1 TFLOP/s, 100 GB/s, and a microsecond for each launch.
    fn ceilings() -> Ceilings {
        Ceilings {
            operations_per_second: 1e12,
            byte_operations_per_second: 4e12,
            copies: vec![CopySpeed { bytes: 1e9, bytes_per_second: 1e11 }],
            launch_microseconds: 1.0,
        }
    }

    fn group(microseconds: f64, operations: f64, bytes: f64) -> Group {
        Group {
            name: String::new(),
            calls: 10,
            launches: 10,
            passes: vec![microseconds],
            operations,
            byte_operations: 0.0,
            bytes,
            bytes_of_a_call: bytes,
        }
    }

    fn verdict(here: &Group, there: &Group) -> (Limit, f64) {
        let terms = terms((8, here), Some((16, there)), &ceilings());
        let sum = terms.launches + terms.latency + terms.bandwidth + terms.compute;
        assert!((sum - here.microseconds()).abs() < 1e-9, "{terms:?}");
        terms.binding()
    }

    #[test]
    fn the_term_that_explains_the_time_binds() {
        // 10 launches of a microsecond each, and the time does not grow.
        let (limit, share) = verdict(&group(12.0, 0.0, 1e3), &group(12.0, 0.0, 2e3));
        assert_eq!((limit, (share * 100.0).round()), (Limit::Launches, 83.0));
        // The time does not grow, and launches explain a tenth of it.
        assert_eq!(verdict(&group(100.0, 0.0, 1e3), &group(100.0, 0.0, 2e3)).0, Limit::Latency);
        // The weights, 9 MB, take 90 of 110 us.
        assert_eq!(verdict(&group(110.0, 1e6, 9e6), &group(112.0, 2e6, 9e6)).0, Limit::Bandwidth);
        // 80 of 100 us are the operations at the ceiling, and the time grows with them.
        assert_eq!(verdict(&group(110.0, 8e7, 1e3), &group(210.0, 16e7, 2e3)).0, Limit::Compute);
        // 80 of 100 us are the bytes.
        assert_eq!(verdict(&group(110.0, 1e6, 8e6), &group(210.0, 2e6, 16e6)).0, Limit::Bandwidth);
        // The time grows, but no ceiling explains half of it.
        assert_eq!(verdict(&group(110.0, 1e7, 1e6), &group(210.0, 2e7, 2e6)).0, Limit::Latency);
    }

    /// GEMMs of 8-bit numbers are four times as fast at most, so that they take 20 of 100 us.
    #[test]
    fn gemms_of_bytes_have_a_ceiling_of_their_own() {
        let bytes = |group: Group| Group { byte_operations: group.operations, ..group };
        let one = bytes(group(110.0, 8e7, 1e3));
        assert_eq!(Floors::of(&one, &ceilings()).compute, 20.0);
        assert_eq!(verdict(&one, &bytes(group(210.0, 16e7, 2e3))).0, Limit::Latency);
        let fast = bytes(group(30.0, 8e7, 1e3));
        assert_eq!(verdict(&fast, &bytes(group(52.0, 16e7, 2e3))).0, Limit::Compute);
        let half = Group { byte_operations: 4e7, ..group(110.0, 8e7, 1e3) };
        assert_eq!(Floors::of(&half, &ceilings()).compute, 50.0);
        // A backend without such a ceiling has none of these GEMMs, but a file may say so.
        let unknown = Ceilings { byte_operations_per_second: 0.0, ..ceilings() };
        assert_eq!(Floors::of(&one, &unknown).compute, 80.0);
    }

    #[test]
    fn without_another_batch_size_everything_grows() {
        let terms = terms((8, &group(100.0, 8e7, 1e3)), None, &ceilings());
        assert_eq!(terms, Terms { compute: 100.0, ..Terms::default() });
        assert_eq!(Terms::default().binding(), (Limit::Latency, 0.0));
    }
}
