//! Axes: which values are written beside them, where a value is, and how numbers are written.

use super::canvas::text_width;

/// The rectangle between the axes of a panel. Coordinates grow to the right and downwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

/// The range of an axis, and the values that are written beside it.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    /// The value at the start of the axis.
    low: f64,
    /// The value at the end of the axis. It is more than `low`.
    high: f64,
    /// The values to write, in ascending order.
    pub ticks: Vec<f64>,
}

/// About this number of values is written beside an axis.
const VERTICAL_TICKS: f64 = 5.0;
const HORIZONTAL_TICKS: f64 = 10.0;

/// If the axis has at most this number of places, each of them is written.
const FEW_PLACES: usize = 16;

impl Scale {
    /// A vertical axis from 0 to a round number that is at least `largest`.
    pub(super) fn from_zero(largest: f64) -> Scale {
        // Far larger values would overflow when they are rounded up.
        let largest = if largest > 0.0 { largest.min(1e300) } else { 1.0 };
        let step = round_step(largest / VERTICAL_TICKS);
        let steps = (largest / step - 1e-9).ceil().max(1.0);
        let ticks: Vec<f64> = (0..=steps as u32).map(|index| f64::from(index) * step).collect();
        Scale { low: 0.0, high: steps * step, ticks }
    }

    /// A horizontal axis for `numbers`, which are in ascending order.
    pub(super) fn of_numbers(numbers: &[f64]) -> Scale {
        let (low, high) = match (numbers.first(), numbers.last()) {
            (Some(&low), Some(&high)) if low < high => (low, high),
            // A single number is in the middle of the axis.
            (Some(&only), _) => (only - 1.0, only + 1.0),
            _ => (0.0, 1.0),
        };
        let nearest = numbers.windows(2).map(|pair| pair[1] - pair[0]).fold(high - low, f64::min);
        // Numbers that are close to each other would be written over each other.
        if (1..=FEW_PLACES).contains(&numbers.len()) && nearest >= (high - low) / 20.0 {
            return Scale { low, high, ticks: numbers.to_vec() };
        }
        let step = round_step((high - low) / HORIZONTAL_TICKS);
        let first = (low / step).ceil();
        let ticks = (0..=40).map(|index| (first + f64::from(index)) * step).filter(|&tick| tick <= high);
        Scale { low, high, ticks: ticks.collect() }
    }

    /// The share of the axis that lies before `value`: 0 at its start, 1 at its end.
    pub(super) fn share(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// The width of the widest of the values that are written.
    pub(super) fn label_width(&self) -> f64 {
        self.ticks.iter().map(|&tick| text_width(&number(tick))).fold(0.0, f64::max)
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    // The product can be a little less than `step` because of rounding.
    [1.0, 2.0, 5.0, 10.0]
        .iter()
        .map(|factor| factor * power)
        .find(|&round| round >= step * (1.0 - 1e-9))
        .unwrap_or(step)
}

/// A number for people: at most four significant digits below 1000, commas between thousands, and the letters M, G and
/// T for millions and their like.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    match size {
        1e15.. => format!("{value:.1e}"),
        1e12.. => format!("{}T", decimal(value / 1e12)),
        1e9.. => format!("{}G", decimal(value / 1e9)),
        1e6.. => format!("{}M", decimal(value / 1e6)),
        999.95.. => with_commas(value),
        _ => decimal(value),
    }
}

/// At most four significant digits, without zeros at the end.
fn decimal(value: f64) -> String {
    let digits_before = if value.abs() < 1.0 { 1 } else { value.abs().log10().floor() as usize + 1 };
    let decimals = 4_usize.saturating_sub(digits_before);
    if value != 0.0 && value.abs() < 0.001 {
        return format!("{value:.1e}");
    }
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn with_commas(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact_enough() {
        for (value, text) in [
            (0.0, "0"),
            (0.05, "0.05"),
            (0.1234567, "0.123"),
            (0.00001, "1.0e-5"),
            (2.5, "2.5"),
            (13.0944, "13.09"),
            (999.9, "999.9"),
            (999.99, "1,000"),
            (1234.4, "1,234"),
            (123_456.0, "123,456"),
            (-1234.0, "-1,234"),
            (1_500_000.0, "1.5M"),
            (1e9, "1G"),
            (2.5e12, "2.5T"),
            (1e300, "1.0e300"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn axes_begin_at_zero_and_end_at_a_round_number() {
        for (largest, end, ticks) in [
            (4321.0, 5000.0, 6),
            (1.0, 1.0, 6),
            (1e9, 1e9, 6),
            (0.0, 1.0, 6),
            (f64::NAN, 1.0, 6),
            (-3.0, 1.0, 6),
            (99.0, 100.0, 6),
            (1e300, 1e300, 6),
        ] {
            let scale = Scale::from_zero(largest);
            assert!((scale.high / end - 1.0).abs() < 1e-6, "{largest}: {scale:?}");
            assert_eq!(scale.ticks.len(), ticks, "{largest}: {scale:?}");
        }
    }

    #[test]
    fn horizontal_axes_write_each_of_few_numbers_and_round_ones_of_many() {
        assert_eq!(Scale::of_numbers(&[8.0, 16.0, 24.0]).ticks, [8.0, 16.0, 24.0]);
        let many: Vec<f64> = (1..=64).map(f64::from).collect();
        assert_eq!(Scale::of_numbers(&many).ticks, [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert!(Scale::of_numbers(&[1.0, 2.0, 256.0]).ticks.len() > 4, "1 and 2 would be over each other");
        let single = Scale::of_numbers(&[7.0]);
        assert_eq!((single.share(7.0), single.ticks), (0.5, vec![7.0]));
        assert!(Scale::of_numbers(&[]).ticks.len() > 1);
    }
}
