//! Which maker's cards `auto` tries first.

use super::choice::{Found, GpuChoice, ranked};
use super::device::describe;
use super::ffi::hip::{self, Device};
use super::libraries::{GemmLibrary, Libraries, Sources};
use super::linux::has_card;
use super::maker::Maker;
use hip_runtime_sys::search::{ThisMachine, names_nvidia_driver};
use std::cmp::Ordering;
use std::path::Path;

/// The makers whose cards `auto` tries, in order, and a message that names the cards of both makers if both have some.
///
/// A maker is left out if neither its driver nor one of its cards is there. The drivers are asked for their cards only if
/// both are present. A discrete card comes before one that is part of a processor; otherwise the one that multiplies
/// faster comes first.
pub fn makers() -> (Vec<Maker>, Option<String>) {
    let libraries = Maker::ALL.map(driver);
    if let [Some(_), Some(_)] = libraries {
        return both(libraries.map(|libraries| libraries.and_then(|libraries| best(&libraries))));
    }
    // Where the user has named the driver's folder, a card without it is no news.
    let is_expected = |maker: Maker| {
        let is_named = maker == Maker::Nvidia && names_nvidia_driver(&ThisMachine);
        !is_named && has_card(Path::new("/"), maker.pci_vendor())
    };
    let is_there =
        |(maker, libraries): &(Maker, Option<Libraries>)| libraries.is_some() || is_expected(*maker);
    let makers: Vec<Maker> =
        Maker::ALL.into_iter().zip(libraries).filter(is_there).map(|(maker, _)| maker).collect();
    (makers, None)
}

/// Whether the maker's driver is there and finds a card.
pub fn has_usable_card(maker: Maker) -> bool {
    driver(maker).is_some_and(|libraries| hip::count(libraries.hip).is_ok_and(|count| count > 0))
}

/// The maker's driver, without libraries for GEMMs, if it can be loaded.
fn driver(maker: Maker) -> Option<Libraries> {
    Libraries::load(&Sources { maker, gemm: GemmLibrary::Own, folder: None, target: None }).ok()
}

/// A card, and the operations on fp16 that it does in a millisecond by its data sheet.
#[derive(Clone)]
struct Rated {
    card: Found,
    rate: f64,
}

/// The best card that a driver finds.
fn best(libraries: &Libraries) -> Option<Rated> {
    let count = hip::count(libraries.hip).ok()?;
    let found = (0..count).filter_map(|number| describe(libraries, number).ok()).collect();
    let card = ranked(found, &GpuChoice::Best).ok()?.into_iter().next()?;
    let kilohertz = Device::new(libraries.hip, card.number).ok()?.kilohertz().unwrap_or(0);
    let rate = card.operations_per_clock() as f64 * kilohertz as f64;
    Some(Rated { card, rate })
}

/// The order of both makers by their best cards.
fn both([amd, nvidia]: [Option<Rated>; 2]) -> (Vec<Maker>, Option<String>) {
    let (Some(amd), Some(nvidia)) = (&amd, &nvidia) else {
        let has_nvidia = nvidia.is_some();
        let [first, second] = if has_nvidia { [Maker::Nvidia, Maker::Amd] } else { Maker::ALL };
        return (vec![first, second], None);
    };
    let amd_is_first = compare(amd, nvidia) != Ordering::Greater;
    let (makers, [first, second]) = match amd_is_first {
        true => ([Maker::Amd, Maker::Nvidia], [amd, nvidia]),
        false => ([Maker::Nvidia, Maker::Amd], [nvidia, amd]),
    };
    let reason = if second.card.is_integrated && !first.card.is_integrated {
        "is integrated".to_owned()
    } else {
        format!("should reach {:.0} % of its rate", 100.0 * second.rate / first.rate.max(1.0))
    };
    let notice = format!(
        "{} is preferred to {}, which {reason}; Backend={} takes the other, and multiplexing both",
        first.card,
        second.card,
        makers[1].usual_backend()
    );
    (makers.to_vec(), Some(notice))
}

fn compare(a: &Rated, b: &Rated) -> Ordering {
    a.card.is_integrated.cmp(&b.card.is_integrated).then(b.rate.total_cmp(&a.rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str, architecture: &str, multiprocessors: usize, is_integrated: bool) -> Rated {
        let (name, architecture) = (name.to_owned(), architecture.to_owned());
        let card = Found { number: 0, name, architecture, multiprocessors, is_integrated };
        Rated { rate: card.operations_per_clock() as f64 * 2e6, card }
    }

    #[test]
    fn a_card_of_its_own_comes_before_a_processors_and_then_the_faster_one() {
        let laptop = card("AMD Radeon Graphics", "gfx1103", 6, true);
        let geforce = card("NVIDIA GeForce RTX 4060 Laptop GPU", "sm_89", 24, false);
        let radeon = card("AMD Radeon RX 7900 XTX", "gfx1100", 48, false);
        let old = card("NVIDIA GeForce GTX 1060", "sm_61", 10, false);
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
