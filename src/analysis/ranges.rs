//! A set of numbers that are mostly consecutive.

use std::collections::BTreeMap;

/// A set of numbers, kept as ranges.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ranges {
    /// The first and the last number of each range. There is a gap between two ranges.
    ranges: BTreeMap<u64, u64>,
    count: u64,
}

impl Ranges {
    pub(super) fn from_vec(ranges: Vec<(u64, u64)>) -> Ranges {
        let count = ranges.iter().map(|(first, last)| last - first.min(last) + 1).sum();
        Ranges { ranges: ranges.into_iter().collect(), count }
    }

    pub(super) fn to_vec(&self) -> Vec<(u64, u64)> {
        self.ranges.iter().map(|(&first, &last)| (first, last)).collect()
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, &last)| number <= last)
    }

    /// The largest number.
    pub(super) fn last(&self) -> Option<u64> {
        self.ranges.last_key_value().map(|(_, &last)| last)
    }

    /// How many numbers are in the set.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn insert(&mut self, number: u64) {
        if self.contains(number) {
            return;
        }
        self.count += 1;
        let last = number.checked_add(1).and_then(|next| self.ranges.remove(&next)).unwrap_or(number);
        match self.ranges.range_mut(..number).next_back() {
            Some((_, end)) if *end + 1 == number => *end = last,
            _ => {
                self.ranges.insert(number, last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined() {
        let mut ranges = Ranges::default();
        for number in [4, 0, 2, 1, 9, 3, 3] {
            ranges.insert(number);
        }
        assert_eq!((ranges.to_vec(), ranges.count()), (vec![(0, 4), (9, 9)], 6));
        assert_eq!(Ranges::from_vec(ranges.to_vec()), ranges);
        assert_eq!((ranges.last(), Ranges::default().last()), (Some(9), None));
        assert!(ranges.contains(9) && ranges.contains(0) && !ranges.contains(5));
    }
}
