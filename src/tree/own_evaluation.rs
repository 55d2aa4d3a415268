//! The network's value of each node itself, for the searches that compute a node's value from its children's.
//!
//! The values are in an arena of their own, at the same indices as the nodes. The first search that needs them creates
//! this arena. They take four bytes a node: 16 bits for wl and 16 for d, whose errors of 2e-5 are far below what a network
//! in fp16 differs by.

use rukh_base::sync::atomic::{AtomicU32, Ordering};

/// The units of wl in 1, with a sign.
const WL_SCALE: f32 = 32767.0;
/// The units of d in 1. The stored number is one more, because 0 means that the value is unknown.
const D_SCALE: f32 = 65534.0;

/// wl and d of the node with the same index, uncorrected.
#[derive(Debug, Default)]
#[cfg_attr(not(any(feature = "loom", feature = "shuttle")), derive(zerocopy::FromZeros))]
pub struct OwnEvaluation(AtomicU32);

impl OwnEvaluation {
    /// Stores the network's value.
    pub fn set(&self, wl: f32, d: f32) {
        let wl = (wl.clamp(-1.0, 1.0) * WL_SCALE).round_ties_even() as i16;
        let d = (d.clamp(0.0, 1.0) * D_SCALE).round_ties_even() as u16 + 1;
        self.0.store(u32::from(d) << 16 | u32::from(wl as u16), Ordering::Relaxed);
    }

    /// Makes the value unknown.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// wl and d, or `None` if they are unknown.
    pub fn get(&self) -> Option<(f32, f32)> {
        let bits = self.0.load(Ordering::Relaxed);
        let d = (bits >> 16) as u16;
        (d != 0).then(|| (f32::from(bits as u16 as i16) / WL_SCALE, f32::from(d - 1) / D_SCALE))
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_to_a_few_hundred_thousandths() {
        let own = OwnEvaluation::default();
        assert_eq!(own.get(), None);
        for (wl, d) in [(0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (-0.25, 0.3), (0.123_456, 0.654_321)]
        {
            own.set(wl, d);
            let (kept_wl, kept_d) = own.get().expect("the value is known");
            assert!((kept_wl - wl).abs() < 2e-5 && (kept_d - d).abs() < 1e-5, "{kept_wl} {kept_d}");
        }
        own.clear();
        assert_eq!(own.get(), None);
    }
}
