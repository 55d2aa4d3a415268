//! Chooses among the devices that a driver finds.

use super::facts::Facts;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt;

/// The user's choice of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum GpuChoice {
    /// The best device that can be used.
    #[default]
    Best,
    /// The device with this number in the driver's list, from 0.
    Number(usize),
    /// The best device whose name or architecture contains this text, in any case.
    Name(String),
}

impl GpuChoice {
    /// The largest text that is a number and not part of a name such as `7900`.
    const LARGEST_NUMBER: usize = 255;

    /// Reads the value of the option `gpu`. No text means the best device.
    pub(crate) fn from_text(text: &str) -> GpuChoice {
        match text.parse() {
            _ if text.is_empty() => GpuChoice::Best,
            Ok(number) if number <= Self::LARGEST_NUMBER => GpuChoice::Number(number),
            _ => GpuChoice::Name(text.to_owned()),
        }
    }
}

impl fmt::Display for GpuChoice {
    /// Writes the text that [`GpuChoice::from_text`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GpuChoice::Best => Ok(()),
            GpuChoice::Number(number) => write!(f, "{number}"),
            GpuChoice::Name(name) => f.write_str(&name.replace(['\n', '\r'], " ")),
        }
    }
}

/// What the driver says about a device before the device is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// The number in the driver's list.
    pub(crate) number: i32,
    /// The product name.
    pub(crate) name: String,
    /// The compiler's name of the architecture, e.g. `gfx1100`.
    pub(crate) architecture: String,
    pub(crate) multiprocessors: usize,
    /// Whether the device is part of a processor and shares its memory.
    pub(crate) is_integrated: bool,
}

impl Found {
    /// The number of multiprocessors, and what they are called: `48 work-group processors`.
    fn size(&self) -> String {
        format!("{} {}", self.multiprocessors, Facts::of(&self.architecture).multiprocessors)
    }

    /// The operations on fp16 in a clock, by the data sheet.
    pub(crate) fn operations_per_clock(&self) -> usize {
        self.multiprocessors * Facts::of(&self.architecture).operations_per_clock
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gpu {} ({}, {})", self.number, self.name, self.architecture)
    }
}

/// A device that is not used, and the reason.
pub(crate) struct LeftOut {
    pub(crate) device: String,
    pub(crate) reason: String,
}

/// The devices that may be used, in the order in which to try them. A device of its own comes before an integrated one,
/// and then the one with more multiprocessors comes first.
///
/// # Errors
/// A message that lists the devices, if none has the requested name.
pub(crate) fn ranked(found: Vec<Found>, wanted: &GpuChoice) -> Result<Vec<Found>, String> {
    let has_name = |device: &Found| match wanted {
        GpuChoice::Name(name) => {
            let name = name.to_lowercase();
            [&device.name, &device.architecture].iter().any(|text| text.to_lowercase().contains(&name))
        }
        GpuChoice::Best | GpuChoice::Number(_) => true,
    };
    let (mut chosen, others): (Vec<Found>, Vec<Found>) = found.into_iter().partition(has_name);
    if let (GpuChoice::Name(name), [], [_, ..]) = (wanted, chosen.as_slice(), others.as_slice()) {
        let there: Vec<String> = others.iter().map(Found::to_string).collect();
        return Err(format!(
            "gpu={name}, but no device has this in its name: the driver finds {}",
            there.join(", ")
        ));
    }
    chosen.sort_by_key(|device| (device.is_integrated, Reverse(device.multiprocessors), device.number));
    Ok(chosen)
}

/// Says which device is used and why the others are not. `None` if there was nothing to choose from. `left_out` are the
/// devices that cannot be used, and `behind` those that come after `used`.
pub(crate) fn notice(used: &Found, left_out: &[LeftOut], behind: &[Found]) -> Option<String> {
    let behind = behind.iter().map(|device| {
        let reason = if device.is_integrated && !used.is_integrated {
            match device.multiprocessors > used.multiprocessors {
                true => format!(
                    "it is integrated, although it has {} and the other {}; to use it, set gpu={}",
                    device.size(),
                    used.multiprocessors,
                    device.number
                ),
                false => "it is integrated".to_owned(),
            }
        } else if device.multiprocessors == used.multiprocessors {
            "it is as large, and the backend `multiplexing` uses several cards".to_owned()
        } else {
            format!("it has {}, and the other {}", device.size(), used.multiprocessors)
        };
        format!("{device}: {reason}")
    });
    let left_out = left_out.iter().map(|LeftOut { device, reason }| format!("{device}: {reason}"));
    let reasons: Vec<String> = left_out.chain(behind).collect();
    (!reasons.is_empty()).then(|| format!("{used} is used, and others are left out: {}", reasons.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(number: i32, name: &str, architecture: &str, multiprocessors: usize) -> Found {
        let (name, architecture) = (name.to_owned(), architecture.to_owned());
        let is_integrated = architecture == "gfx1036";
        Found { number, name, architecture, multiprocessors, is_integrated }
    }

    fn desktop() -> Vec<Found> {
        vec![
            device(0, "AMD Radeon Graphics", "gfx1036", 200),
            device(1, "AMD Radeon RX 7600", "gfx1102", 16),
            device(2, "AMD Radeon RX 7900 XTX", "gfx1100", 48),
            device(3, "AMD Radeon RX 7900 XTX", "gfx1100", 48),
        ]
    }

    fn numbers(wanted: &str) -> Vec<i32> {
        ranked(desktop(), &GpuChoice::from_text(wanted)).unwrap().iter().map(|device| device.number).collect()
    }

    #[test]
    fn compute_units_decide_and_integrated_devices_come_last() {
        assert_eq!(numbers(""), [2, 3, 1, 0]);
    }

    #[test]
    fn part_of_a_name_or_of_an_architecture_is_enough() {
        assert_eq!(numbers("7600"), [1]);
        assert_eq!(numbers("rx"), [2, 3, 1]);
        assert_eq!(numbers("GFX1036"), [0]);
        let error = ranked(desktop(), &GpuChoice::from_text("Instinct")).unwrap_err();
        assert!(
            error
                .starts_with("gpu=Instinct, but no device has this in its name: the driver finds gpu 0 (AMD"),
            "{error}"
        );
    }

    #[test]
    fn a_choice_is_read_as_it_was_written() {
        for choice in [GpuChoice::Best, GpuChoice::Number(1), GpuChoice::Name("RX, 7900".to_owned())] {
            assert_eq!(GpuChoice::from_text(&choice.to_string()), choice);
        }
    }

    #[test]
    fn small_numbers_are_numbers_and_larger_ones_are_names() {
        assert_eq!(GpuChoice::from_text("0"), GpuChoice::Number(0));
        assert_eq!(GpuChoice::from_text("255"), GpuChoice::Number(255));
        assert_eq!(GpuChoice::from_text("7900"), GpuChoice::Name("7900".to_owned()));
    }

    #[test]
    fn the_notice_names_the_reason_for_every_other_device() {
        let order = ranked(desktop(), &GpuChoice::Best).unwrap();
        let failed = LeftOut { device: order[0].to_string(), reason: "it has no kernels".to_owned() };
        let text = notice(&order[1], &[failed], &order[2..]).unwrap();
        assert_eq!(
            text,
            "gpu 3 (AMD Radeon RX 7900 XTX, gfx1100) is used, and others are left out: gpu 2 (AMD Radeon RX 7900 \
             XTX, gfx1100): it has no kernels; gpu 1 (AMD Radeon RX 7600, gfx1102): it has 16 work-group processors, and the \
             other 48; gpu 0 (AMD Radeon Graphics, gfx1036): it is integrated, although it has 200 work-group processors and \
             the other 48; to use it, set gpu=0"
        );
        assert_eq!(notice(&order[0], &[], &[]), None);
        assert_eq!(
            notice(&order[0], &[], &order[1..2]).unwrap(),
            "gpu 2 (AMD Radeon RX 7900 XTX, gfx1100) is used, and others are left out: gpu 3 (AMD Radeon RX 7900 \
             XTX, gfx1100): it is as large, and the backend `multiplexing` uses several cards"
        );
    }
}
