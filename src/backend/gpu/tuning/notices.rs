//! What tuning says about libraries that misbehave.

use crate::gemm::avoided::{Asked, Avoided};
use crate::helper::probe::{Killer, WrongGemm};
use crate::runtime::maker::Maker;
use std::collections::BTreeSet;

/// One line for each library that computes something else, and for each that does so with transposed weights.
pub(crate) fn wrong_notices(wrong: &[WrongGemm], maker: Maker) -> Vec<String> {
    let all: BTreeSet<Asked> = wrong.iter().map(|wrong| wrong.asked).collect();
    let lines = all.into_iter().filter_map(|asked| {
        let first = wrong.iter().find(|wrong| wrong.asked == asked)?;
        let shapes = wrong.iter().filter(|wrong| wrong.asked == asked).map(|wrong| wrong.shape);
        let count = shapes.collect::<BTreeSet<_>>().len();
        let others = if count > 1 { format!(" and of {} other GEMMs", count - 1) } else { String::new() };
        let (name, shape, how) = (asked.name(maker), first.shape, &first.how);
        Some(format!(
            "tuning: {name} has wrong algorithms for the GEMM {shape}{others} ({how}): they are not used"
        ))
    });
    lines.collect()
}

/// One line for each library that ended a helper.
pub(crate) fn killer_notice(
    killers: &[Killer],
    avoided: &Avoided,
    is_kept: bool,
    maker: Maker,
) -> Vec<String> {
    let all: BTreeSet<Asked> = killers.iter().map(|killer| killer.asked).collect();
    let lines = all.into_iter().filter_map(|asked| {
        let of_asked = || killers.iter().filter(|killer| killer.asked == asked);
        let first = of_asked().next()?;
        let count = of_asked().count();
        let what = if avoided.contains_all(asked) { "it is not used" } else { "it is not asked for that" };
        let others = if count > 1 { format!(" and {} other GEMMs", count - 1) } else { String::new() };
        let next = if is_kept { "" } else { " (this cannot be kept for the next start)" };
        Some(format!(
            "{} ends a process that asks for the GEMM {}{others} ({}): {what}{next}",
            asked.name(maker),
            first.shape,
            first.how
        ))
    });
    lines.collect()
}
