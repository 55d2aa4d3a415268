//! Which maker's cards `auto` tries first.

use super::choice::{Found, GpuChoice, ranked};
use super::device::describe;
use super::ffi::hip;
use super::libraries::{GemmLibrary, Libraries, Sources};
use super::linux::has_card;
use super::maker::Maker;
use std::cmp::Ordering;
use std::path::Path;

/// The makers whose cards `auto` tries, in order, and a message that names the cards of both makers if both have some.
///
/// A maker is left out if neither its driver nor one of its cards is there. Only where both drivers are there are they
/// asked for their cards. A card of its own comes before one that is part of a processor, and then the one that multiplies
/// faster comes first.
pub fn makers() -> (Vec<Maker>, Option<String>) {
    let libraries = Maker::ALL.map(|maker| {
        Libraries::load(&Sources { maker, gemm: GemmLibrary::Own, folder: None, target: None }).ok()
    });
    if let [Some(_), Some(_)] = libraries {
        return both(libraries.map(|libraries| libraries.and_then(|libraries| best(&libraries))));
    }
    let is_there = |(maker, libraries): &(Maker, Option<Libraries>)| {
        libraries.is_some() || has_card(Path::new("/"), maker.pci_vendor())
    };
    let makers: Vec<Maker> =
        Maker::ALL.into_iter().zip(libraries).filter(is_there).map(|(maker, _)| maker).collect();
    // Without any, the error of the first says what is missing.
    if makers.is_empty() { (vec![Maker::Amd], None) } else { (makers, None) }
}

/// The best card that a driver finds.
fn best(libraries: &Libraries) -> Option<Found> {
    let count = hip::count(libraries.hip).ok()?;
    let found = (0..count).filter_map(|number| describe(libraries, number).ok()).collect();
    ranked(found, &GpuChoice::Best).ok()?.into_iter().next()
}

/// The order of both makers by their best cards.
fn both([amd, nvidia]: [Option<Found>; 2]) -> (Vec<Maker>, Option<String>) {
    let (Some(amd), Some(nvidia)) = (&amd, &nvidia) else {
        let first = if nvidia.is_some() { Maker::Nvidia } else { Maker::Amd };
        let second = if nvidia.is_some() { Maker::Amd } else { Maker::Nvidia };
        return (vec![first, second], None);
    };
    let amd_is_first = compare(amd, nvidia) != Ordering::Greater;
    let [first, second] = if amd_is_first { [amd, nvidia] } else { [nvidia, amd] };
    let makers = if amd_is_first { vec![Maker::Amd, Maker::Nvidia] } else { vec![Maker::Nvidia, Maker::Amd] };
    let reason = if second.is_integrated && !first.is_integrated {
        "is integrated".to_owned()
    } else {
        format!("should reach {:.0} % of its rate", 100.0 * second.peak() / first.peak().max(1.0))
    };
    let other = makers.last().map_or(Maker::Amd, |&maker| maker).usual_backend();
    (
        makers,
        Some(format!(
            "{first} is preferred to {second}, which {reason}; Backend={other} takes the other, and multiplexing both"
        )),
    )
}

fn compare(a: &Found, b: &Found) -> Ordering {
    a.is_integrated.cmp(&b.is_integrated).then(b.peak().total_cmp(&a.peak()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(
        name: &str,
        architecture: &str,
        compute_units: usize,
        kilohertz: usize,
        is_integrated: bool,
    ) -> Found {
        let (name, architecture) = (name.to_owned(), architecture.to_owned());
        Found { number: 0, name, architecture, compute_units, kilohertz, is_integrated }
    }

    #[test]
    fn a_card_of_its_own_comes_before_a_processors_and_then_the_faster_one() {
        let laptop = card("AMD Radeon Graphics", "gfx1103", 6, 2_800_000, true);
        let geforce = card("NVIDIA GeForce RTX 4060 Laptop GPU", "sm_89", 24, 2_300_000, false);
        let radeon = card("AMD Radeon RX 7900 XTX", "gfx1100", 48, 2_500_000, false);
        let old = card("NVIDIA GeForce GTX 1060", "sm_61", 10, 1_700_000, false);
        let (makers, notice) = both([Some(laptop), Some(geforce.clone())]);
        assert_eq!(makers, [Maker::Nvidia, Maker::Amd]);
        let notice = notice.unwrap();
        assert!(
            notice.contains("RTX 4060") && notice.contains("is integrated") && notice.contains("rocm-auto"),
            "{notice}"
        );
        assert_eq!(both([Some(radeon.clone()), Some(geforce)]).0, [Maker::Amd, Maker::Nvidia]);
        assert_eq!(both([Some(radeon), Some(old)]).0, [Maker::Amd, Maker::Nvidia]);
        assert_eq!(both([None, None]).0, [Maker::Amd, Maker::Nvidia]);
    }
}
