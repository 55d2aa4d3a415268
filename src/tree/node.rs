//! A node: statistics of one position, shared by all search threads.
//!
//! Values are from **the side to move's view in the node's own position** (a parent negates its child's).
//!
//! # Protocol
//! The state only moves forward: `Unevaluated -> Evaluating -> Expanded -> Terminal` (a leaf may become `Terminal`
//! at once; a cancelled evaluation is the one step back, made by its claimant, or by who ends the search, while nobody
//! else may touch the node).
//! One compare-and-swap claims a node; losers count a collision and go elsewhere. One Release store publishes it.
//!
//! | field | written by | ordering | pairs with |
//! |---|---|---|---|
//! | `state` | claimant: CAS to `Evaluating` (Relaxed), then one store (Release) | readers load Acquire | the Release store |
//! | `edges`, `edge_count` | claimant, before it publishes | Relaxed | `state` |
//! | `children` | any thread, CAS from 0 | AcqRel / Acquire | itself: publishes the segment's zeroed words |
//! | `bounds` | claimant before publishing; backup by `fetch_update` | Relaxed; Release before `Terminal` | `state` |
//! | `wl_sum`, `d_sum`, `m_sum` | backup, `fetch_add` | Relaxed | `visits` |
//! | `visits` | backup, `fetch_add` after the sums | Release / Acquire: sums hold at least these visits | itself |
//! | `in_flight` | gather adds, backup or cancel takes away | Relaxed | nothing: a hint for selection |
//!
//! Statistics read while others write may be torn between fields by a visit or two; no decision of the protocol
//! depends on them.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU16, AtomicU32, Ordering};

/// Fixed-point units per 1.0 of wl and d: 2^30 leaves room for 2^32 visits in 63 bits.
const VALUE_SCALE: f64 = (1_u64 << 30) as f64;
/// Fixed-point units per ply of m.
const MOVES_LEFT_SCALE: f64 = (1_u64 << 16) as f64;

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Nobody has been here.
    Unevaluated = 0,
    /// A thread has claimed it; its evaluation is under way.
    Evaluating = 1,
    /// Evaluated, with edges.
    Expanded = 2,
    /// Its value is exact: end of game, tablebase, repetition, or proven by its children.
    Terminal = 3,
}

/// Why a node is terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum TerminalKind {
    /// By the rules, or proven from positions that are.
    #[default]
    EndOfGame = 0,
    /// By an endgame tablebase.
    Tablebase = 1,
    /// A first repetition within the search, counted as a draw. Depends on the path: undone when the root moves.
    TwoFold = 2,
}

/// What is proven of a position, side to move's view: -1 loss, 0 draw, 1 win.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// At least this.
    pub lower: i8,
    /// At most this.
    pub upper: i8,
}

impl Bounds {
    /// Nothing is known.
    pub const UNKNOWN: Bounds = Bounds { lower: -1, upper: 1 };

    /// Exactly `result`.
    pub const fn exact(result: i8) -> Bounds {
        Bounds { lower: result, upper: result }
    }

    /// The same, seen by the other side.
    pub const fn flipped(self) -> Bounds {
        Bounds { lower: -self.upper, upper: -self.lower }
    }

    /// Whether the result is known.
    pub const fn is_exact(self) -> bool {
        self.lower == self.upper
    }
}

/// The exact result of a terminal node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    /// Side to move's view: -1, 0 or 1.
    pub result: i8,
    /// Plies to the end; for [`TerminalKind::TwoFold`] the cycle's length.
    pub plies: u16,
    /// Why.
    pub kind: TerminalKind,
}

/// A value on its way up the tree, or a sum of such values.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sample {
    /// Win minus loss.
    pub wl: f32,
    /// Draw probability.
    pub d: f32,
    /// Plies left.
    pub m: f32,
}

impl Sample {
    /// The same, one ply earlier and seen by the other side.
    #[must_use]
    pub fn for_parent(self) -> Sample {
        Sample { wl: -self.wl, d: self.d, m: self.m + 1.0 }
    }
}

impl Outcome {
    /// What visits of such a node count.
    pub fn sample(self) -> Sample {
        Sample {
            wl: f32::from(self.result),
            d: if self.result == 0 { 1.0 } else { 0.0 },
            m: f32::from(self.plies),
        }
    }
}

/// Fixed-point totals, for moving statistics between nodes without rounding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Visits.
    pub visits: u32,
    /// Sum of wl in fixed point.
    pub wl: i64,
    /// Sum of d in fixed point.
    pub d: i64,
    /// Sum of m in fixed point.
    pub m: i64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Node {
    wl_sum: AtomicI64,
    d_sum: AtomicI64,
    m_sum: AtomicI64,
    visits: AtomicU32,
    in_flight: AtomicU32,
    /// First edge word; meaningful from `Expanded` on.
    edges: AtomicU32,
    /// First child segment; 0 until a child exists. See [`super::children`].
    pub(super) children: AtomicU32,
    /// Plies (16 bits), kind (2), upper + 1 (2), lower + 1 (2), set (1).
    bounds: AtomicU32,
    edge_count: AtomicU16,
    state: AtomicU8,
}

const _: () = assert!(size_of::<Node>() == 48, "the arena's memory per node is a promise");

impl Node {
    /// The state. Acquire: whoever sees `Expanded` or `Terminal` sees all that was stored before.
    #[inline]
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Unevaluated,
            1 => State::Evaluating,
            2 => State::Expanded,
            _ => State::Terminal,
        }
    }

    /// Claims an unevaluated node; exactly one thread succeeds.
    pub fn try_claim(&self) -> bool {
        self.state
            .compare_exchange(
                State::Unevaluated as u8,
                State::Evaluating as u8,
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Gives a claimed node back, unevaluated.
    pub fn cancel_claim(&self) {
        self.state.store(State::Unevaluated as u8, Ordering::Release);
    }

    /// Publishes a claimed node with its edges.
    pub fn publish_expanded(&self, first_edge: u32, edge_count: u16) {
        self.edges.store(first_edge, Ordering::Relaxed);
        self.edge_count.store(edge_count, Ordering::Relaxed);
        self.state.store(State::Expanded as u8, Ordering::Release);
    }

    /// Publishes a claimed node as terminal.
    pub fn publish_terminal(&self, outcome: Outcome) {
        self.bounds.store(encode_outcome(outcome), Ordering::Relaxed);
        self.state.store(State::Terminal as u8, Ordering::Release);
    }

    /// Makes an expanded node terminal, because its children prove it. Only the first caller succeeds.
    pub fn try_prove(&self, outcome: Outcome) -> bool {
        // The outcome must be there before the state says so; a second prover writes an equally true one.
        self.bounds.store(encode_outcome(outcome), Ordering::Release);
        self.state
            .compare_exchange(
                State::Expanded as u8,
                State::Terminal as u8,
                Ordering::Release,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Whether the value is exact.
    #[inline]
    pub fn is_terminal(&self) -> bool {
        self.state() == State::Terminal
    }

    /// The exact result, where there is one.
    #[inline]
    pub fn outcome(&self) -> Option<Outcome> {
        self.is_terminal().then(|| decode_outcome(self.bounds.load(Ordering::Relaxed)))
    }

    /// What is proven so far.
    pub fn bounds(&self) -> Bounds {
        let bits = self.bounds.load(Ordering::Relaxed);
        if bits & SET_BIT == 0 { Bounds::UNKNOWN } else { decode_bounds(bits) }
    }

    /// Narrows the bounds to their intersection with `bounds`.
    pub fn narrow_bounds(&self, bounds: Bounds) {
        let narrow = |bits: u32| {
            let old = if bits & SET_BIT == 0 { Bounds::UNKNOWN } else { decode_bounds(bits) };
            let new = Bounds { lower: old.lower.max(bounds.lower), upper: old.upper.min(bounds.upper) };
            // Exact bounds belong to `try_prove`, which also sets plies and kind.
            (new != old && new.lower < new.upper).then(|| encode_bounds(new))
        };
        // An error means that there was nothing to narrow.
        let _ = self.bounds.fetch_update(Ordering::Relaxed, Ordering::Relaxed, narrow);
    }

    /// First edge word and number of edges; zero edges before `Expanded`.
    #[inline]
    pub fn edge_range(&self) -> (u32, usize) {
        (self.edges.load(Ordering::Relaxed), usize::from(self.edge_count.load(Ordering::Relaxed)))
    }

    /// Finished visits.
    #[inline]
    pub fn visits(&self) -> u32 {
        self.visits.load(Ordering::Acquire)
    }

    /// Visits under way.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Finished and under way.
    #[inline]
    pub fn started(&self) -> u32 {
        self.visits.load(Ordering::Relaxed).wrapping_add(self.in_flight.load(Ordering::Relaxed))
    }

    /// Announces `count` visits.
    #[inline]
    pub fn add_in_flight(&self, count: u32) {
        self.in_flight.fetch_add(count, Ordering::Relaxed);
    }

    /// Takes announced visits back.
    #[inline]
    pub fn cancel_in_flight(&self, count: u32) {
        self.in_flight.fetch_sub(count, Ordering::Relaxed);
    }

    /// Ends `count` announced visits that all came out as `sample`.
    #[inline]
    pub fn finish_visits(&self, sample: Sample, count: u32) {
        let times = i64::from(count);
        self.wl_sum.fetch_add(times * to_fixed(sample.wl, VALUE_SCALE), Ordering::Relaxed);
        self.d_sum.fetch_add(times * to_fixed(sample.d, VALUE_SCALE), Ordering::Relaxed);
        self.m_sum.fetch_add(times * to_fixed(sample.m, MOVES_LEFT_SCALE), Ordering::Relaxed);
        self.visits.fetch_add(count, Ordering::Release);
        self.in_flight.fetch_sub(count, Ordering::Relaxed);
    }

    /// Adds a correction to the sums without a visit (a descendant was proven).
    pub fn adjust(&self, delta: Totals) {
        self.wl_sum.fetch_add(delta.wl, Ordering::Relaxed);
        self.d_sum.fetch_add(delta.d, Ordering::Relaxed);
        self.m_sum.fetch_add(delta.m, Ordering::Relaxed);
    }

    /// The totals as they stand.
    pub fn totals(&self) -> Totals {
        Totals {
            visits: self.visits(),
            wl: self.wl_sum.load(Ordering::Relaxed),
            d: self.d_sum.load(Ordering::Relaxed),
            m: self.m_sum.load(Ordering::Relaxed),
        }
    }

    /// Sets the totals; only while no search runs.
    pub(super) fn set_totals(&self, totals: Totals) {
        self.wl_sum.store(totals.wl, Ordering::Relaxed);
        self.d_sum.store(totals.d, Ordering::Relaxed);
        self.m_sum.store(totals.m, Ordering::Relaxed);
        self.visits.store(totals.visits, Ordering::Release);
    }

    /// Copies state, outcome and bounds of `other`, with edges at `first_edge`; only while no search runs.
    pub(super) fn copy_state(&self, other: &Node, first_edge: u32) {
        self.edges.store(first_edge, Ordering::Relaxed);
        self.edge_count.store(other.edge_count.load(Ordering::Relaxed), Ordering::Relaxed);
        self.bounds.store(other.bounds.load(Ordering::Relaxed), Ordering::Relaxed);
        self.state.store(other.state.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Takes visits and their sums away; only while no search runs.
    pub(super) fn remove(&self, totals: Totals) {
        self.wl_sum.fetch_sub(totals.wl, Ordering::Relaxed);
        self.d_sum.fetch_sub(totals.d, Ordering::Relaxed);
        self.m_sum.fetch_sub(totals.m, Ordering::Relaxed);
        self.visits.fetch_sub(totals.visits, Ordering::Release);
    }

    /// Makes a proven node an expanded one again, with these totals; only while no search runs.
    pub(super) fn reopen(&self, totals: Totals) {
        self.set_totals(totals);
        self.bounds.store(0, Ordering::Relaxed);
        self.state.store(State::Expanded as u8, Ordering::Release);
    }

    /// The mean value, or the exact one of a terminal node. Meaningless (zero) before the first visit.
    #[inline]
    pub fn sample(&self) -> Sample {
        if let Some(outcome) = self.outcome() {
            return outcome.sample();
        }
        let visits = self.visits();
        if visits == 0 {
            return Sample::default();
        }
        let scale = 1.0 / (f64::from(visits) * VALUE_SCALE);
        Sample {
            wl: (self.wl_sum.load(Ordering::Relaxed) as f64 * scale) as f32,
            d: (self.d_sum.load(Ordering::Relaxed) as f64 * scale) as f32,
            m: (self.m_sum.load(Ordering::Relaxed) as f64 / (f64::from(visits) * MOVES_LEFT_SCALE)) as f32,
        }
    }
}

impl Totals {
    /// What `visits` visits of `sample` add up to.
    pub fn of(sample: Sample, visits: u32) -> Totals {
        let times = i64::from(visits);
        Totals {
            visits,
            wl: times * to_fixed(sample.wl, VALUE_SCALE),
            d: times * to_fixed(sample.d, VALUE_SCALE),
            m: times * to_fixed(sample.m, MOVES_LEFT_SCALE),
        }
    }

    /// `self - other`, visits included.
    #[must_use]
    pub fn minus(self, other: Totals) -> Totals {
        Totals {
            visits: self.visits.saturating_sub(other.visits),
            wl: self.wl - other.wl,
            d: self.d - other.d,
            m: self.m - other.m,
        }
    }

    /// `self + other`, visits included.
    #[must_use]
    pub fn plus(self, other: Totals) -> Totals {
        Totals {
            visits: self.visits + other.visits,
            wl: self.wl + other.wl,
            d: self.d + other.d,
            m: self.m + other.m,
        }
    }

    /// A child's totals as its parent counts them: the other side's view, each visit a ply longer.
    #[must_use]
    pub fn for_parent(self) -> Totals {
        Totals {
            visits: self.visits,
            wl: -self.wl,
            d: self.d,
            m: self.m + i64::from(self.visits) * MOVES_LEFT_SCALE as i64,
        }
    }
}

fn to_fixed(value: f32, scale: f64) -> i64 {
    (f64::from(value) * scale).round_ties_even() as i64
}

const LOWER_SHIFT: u32 = 0;
const UPPER_SHIFT: u32 = 2;
const KIND_SHIFT: u32 = 4;
const SET_BIT: u32 = 1 << 6;
const PLIES_SHIFT: u32 = 16;

fn encode_bounds(bounds: Bounds) -> u32 {
    ((bounds.lower + 1) as u32) << LOWER_SHIFT | ((bounds.upper + 1) as u32) << UPPER_SHIFT | SET_BIT
}

fn decode_bounds(bits: u32) -> Bounds {
    Bounds { lower: ((bits >> LOWER_SHIFT) & 3) as i8 - 1, upper: ((bits >> UPPER_SHIFT) & 3) as i8 - 1 }
}

fn encode_outcome(outcome: Outcome) -> u32 {
    encode_bounds(Bounds::exact(outcome.result))
        | (outcome.kind as u32) << KIND_SHIFT
        | u32::from(outcome.plies) << PLIES_SHIFT
}

fn decode_outcome(bits: u32) -> Outcome {
    let kind = match (bits >> KIND_SHIFT) & 3 {
        1 => TerminalKind::Tablebase,
        2 => TerminalKind::TwoFold,
        _ => TerminalKind::EndOfGame,
    };
    Outcome { result: decode_bounds(bits).lower, plies: (bits >> PLIES_SHIFT) as u16, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_claimant_of_many() {
        for _ in 0..200 {
            let node = Node::default();
            let claims: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| usize::from(node.try_claim()))).collect();
                threads.into_iter().map(|thread| thread.join().expect("the closure cannot panic")).sum()
            });
            assert_eq!(claims, 1);
            assert_eq!(node.state(), State::Evaluating);
        }
    }

    #[test]
    fn means_are_exact_to_fixed_point() {
        let node = Node::default();
        node.add_in_flight(4);
        node.finish_visits(Sample { wl: 0.5, d: 0.25, m: 10.0 }, 1);
        node.finish_visits(Sample { wl: -0.25, d: 0.5, m: 30.0 }, 3);
        assert_eq!((node.visits(), node.in_flight()), (4, 0));
        assert_eq!(node.sample(), Sample { wl: -0.0625, d: 0.4375, m: 25.0 });
    }

    #[test]
    fn outcomes_survive_packing() {
        for result in [-1, 0, 1] {
            for kind in [TerminalKind::EndOfGame, TerminalKind::Tablebase, TerminalKind::TwoFold] {
                let outcome = Outcome { result, plies: 65_535, kind };
                let node = Node::default();
                assert!(node.try_claim());
                node.publish_terminal(outcome);
                assert_eq!(node.outcome(), Some(outcome));
                assert_eq!(node.bounds(), Bounds::exact(result));
            }
        }
    }

    #[test]
    fn bounds_only_narrow() {
        let node = Node::default();
        assert_eq!(node.bounds(), Bounds::UNKNOWN);
        node.narrow_bounds(Bounds { lower: 0, upper: 1 });
        node.narrow_bounds(Bounds { lower: -1, upper: 1 });
        assert_eq!(node.bounds(), Bounds { lower: 0, upper: 1 });
    }

    #[test]
    fn only_the_first_proof_counts() {
        let node = Node::default();
        assert!(node.try_claim());
        node.publish_expanded(1, 3);
        let outcome = Outcome { result: 1, plies: 3, kind: TerminalKind::EndOfGame };
        assert!(node.try_prove(outcome));
        assert!(!node.try_prove(outcome));
    }
}
