//! A node: statistics of one position, shared by all search threads and by all moves that lead to it.
//!
//! Values are in the view of **the side to move in the node's own position**, so a parent negates the values of
//! its children.
//!
//! # Protocol
//! During a search, the state moves forward: `Unevaluated -> Evaluating -> Expanded -> Terminal`. A leaf may become
//! `Terminal` at once. One compare-and-swap claims a node, and threads that lose the race count a collision. One Release
//! update publishes the node. There are three steps back. The claimant, or the thread that ends the search, cancels an
//! evaluation. Recycling *condemns* an evaluated node: the node becomes `Evaluating`, so that no thread enters it. And
//! recycling collapses a condemned node to `Unevaluated`, or pardons it ([`super::recycle`]).
//!
//! | field | written by | ordering | pairs with |
//! |---|---|---|---|
//! | `status` | claimant: CAS to `Evaluating` (Relaxed), then one update (Release); backup: bounds, proofs (Release); a search for a mate: a flag (AcqRel) | readers load Acquire | the Release update |
//! | `priors` | claimant, before it publishes | Relaxed | `status` |
//! | `links` | any thread, CAS from 0 | AcqRel / Acquire | itself: publishes the segment's links |
//! | `key` | the thread that makes the node, before the table publishes it | Relaxed | the table's entry |
//! | `counts`: visits, plies, the lock | backup: CAS that locks (Acquire), store that unlocks (Release) | readers load Acquire: the sums contain at least these visits | itself |
//! | `wl_sum`, `d_sum` | backup, load and store by the thread that holds the lock | Relaxed | `counts` |
//! | the flag `RECOMPUTING` in `status` | backup, `fetch_or` that sets it (AcqRel), `fetch_and` that clears it (Release) | waiting threads load Acquire | itself |
//!
//! # Values
//! While a search runs, every change of the sums and of the counts is made under the node's lock, which a thread holds
//! only for this change. So no change overwrites another one, and the sums are those of all visits that are counted.
//! Readers take no lock. What they read while other threads write may differ between fields by a few visits; no
//! decision of the protocol depends on it.
//!
//! A search that computes a node's value from its children's *replaces* the sums. The computation takes long, so it is
//! not made under the lock. Instead, one thread at a time may compute ([`Node::begin_recomputation`]), so that a slow
//! thread never replaces the value by an older one. A thread that changes children and then recomputes the node, or
//! waits for another thread that has begun to do so after the changes, can rely on this:
//!
//! > The node's value was computed from children with these changes, and no value without them replaces it.
//!
//! So once all threads have backed up their visits, all visits are counted, and each node has the value that one thread
//! computes from its children. Only what other parents have changed below a shared child arrives later: see [`super`].
//!
//! `loom_tests.rs` checks the orderings: a test fails if any ordering is made weaker. For the release half of setting
//! `RECOMPUTING` it fails only with `LOOM_MAX_PREEMPTIONS=2`.

use super::status::{Bounds, Outcome, State, Status};
use rukh_base::cache_line::load_ahead;
use rukh_base::sync::Spin;
use rukh_base::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

/// Fixed-point units per 1.0 of wl and d: 2^30 leaves room for 2^32 visits in 63 bits.
pub(super) const VALUE_SCALE: f64 = (1_u64 << 30) as f64;

/// The bit of `counts` that locks the values: the sign of the mean of plies, which is never negative.
const LOCK: u64 = 1 << 31;

/// A value on its way up the tree, or the mean of such values.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sample {
    /// Win minus loss probability.
    pub wl: f32,
    /// Draw probability.
    pub d: f32,
    /// Plies left in the game.
    pub m: f32,
}

impl Sample {
    /// The same value in the parent's view, which is the other side's view one ply earlier.
    #[must_use]
    #[inline]
    pub fn for_parent(self) -> Sample {
        Sample { wl: -self.wl, d: self.d, m: self.m + 1.0 }
    }
}

impl Outcome {
    /// The value of a visit of a node with this outcome.
    pub fn sample(self) -> Sample {
        Sample {
            wl: f32::from(self.result),
            d: if self.result == 0 { 1.0 } else { 0.0 },
            m: f32::from(self.plies),
        }
    }
}

/// Sums over visits. Values are in fixed point, so that the order of additions makes no difference.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Totals {
    /// The number of visits.
    pub visits: u32,
    /// The sum of wl in fixed point.
    pub wl: i64,
    /// The sum of d in fixed point.
    pub d: i64,
    /// The sum of plies left.
    pub m: f64,
}

/// The statistics and the state of one position, 40 bytes. The module describes the protocol.
#[derive(Debug, Default)]
#[cfg_attr(not(any(feature = "loom", feature = "shuttle")), derive(zerocopy::FromZeros))]
pub struct Node {
    wl_sum: AtomicI64,
    d_sum: AtomicI64,
    /// The visits in the upper half, and the mean of plies left in the lower half, as the bits of an f32.
    counts: AtomicU64,
    status: AtomicU32,
    /// The index of the first word of the [priors](super::priors). Undefined before `Expanded`.
    priors: AtomicU32,
    /// The first segment of [links](super::links), or 0.
    pub(super) links: AtomicU32,
    /// Half of the node's key in the transposition table.
    pub(super) key: AtomicU32,
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = assert!(size_of::<Node>() == 40, "the documentation promises 40 bytes for each node");

impl Node {
    /// Acquire: a thread that sees `Expanded` or `Terminal` sees all that was stored before.
    #[inline]
    pub(super) fn status(&self) -> Status {
        Status(self.status.load(Ordering::Acquire))
    }

    fn update_status(&self, ordering: Ordering, mut change: impl FnMut(Status) -> Option<Status>) -> bool {
        let change = |bits| change(Status(bits)).map(|status| status.0);
        self.status.fetch_update(ordering, Ordering::Relaxed, change).is_ok()
    }

    /// Turns a free entry of the arena into an unevaluated node. No other thread may know the entry.
    pub(super) fn begin(&self, flags: u32, key: u32) {
        self.wl_sum.store(0, Ordering::Relaxed);
        self.d_sum.store(0, Ordering::Relaxed);
        self.counts.store(0, Ordering::Relaxed);
        self.links.store(0, Ordering::Relaxed);
        self.key.store(key, Ordering::Relaxed);
        self.status.store(Status::IN_USE | flags, Ordering::Relaxed);
    }

    /// Turns the node into a free entry. No other thread may use the node.
    pub(super) fn end(&self) {
        self.status.store(0, Ordering::Relaxed);
    }

    /// The state of the node.
    #[inline]
    pub fn state(&self) -> State {
        self.status().state()
    }

    /// Claims an unevaluated node. Returns `true` for exactly one thread.
    pub fn try_claim(&self) -> bool {
        self.update_status(Ordering::Relaxed, |status| {
            (status.state() == State::Unevaluated).then(|| status.with_state(State::Evaluating))
        })
    }

    /// Cancels a claim: the node is unevaluated again.
    pub fn cancel_claim(&self) {
        self.set_status(|status| status.with_state(State::Unevaluated));
    }

    /// Publishes a claimed node with its priors.
    pub(super) fn publish_expanded(&self, priors: u32, edge_count: usize) {
        self.priors.store(priors, Ordering::Relaxed);
        self.set_status(|status| status.with_edge_count(edge_count).with_state(State::Expanded));
    }

    /// Publishes a claimed node as terminal.
    pub fn publish_terminal(&self, outcome: Outcome) {
        self.set_status(|status| status.with_outcome(outcome).with_state(State::Terminal));
    }

    /// Keeps threads out of a node with edges, so that its edges can be freed once no thread uses them. Returns `false`
    /// if the node has no edges.
    pub(super) fn condemn(&self) -> bool {
        self.update_status(Ordering::AcqRel, |status| {
            (status.edge_count() > 0).then(|| status.with_state(State::Evaluating))
        })
    }

    /// Lets threads enter a condemned node again. `false` if the node has become unreachable; then the caller must free it.
    pub(super) fn pardon(&self) -> bool {
        self.end_condemnation(|status| match status.bounds().is_exact() {
            true => status.with_state(State::Terminal),
            false => status.with_state(State::Expanded),
        })
    }

    /// Ends the condemnation of a node whose edges were freed. A proven result stays valid without the proof. Any other
    /// node keeps its visits and their mean value, and its next visit evaluates it again. `false` if the node has become
    /// unreachable; then the caller must free its entry.
    pub(super) fn collapse(&self) -> bool {
        self.links.store(0, Ordering::Relaxed);
        self.end_condemnation(|status| {
            let status = status.with_edge_count(0);
            match status.bounds().is_exact() {
                true => status.with_state(State::Terminal),
                false => Status(status.0 | Status::COLLAPSED).with_state(State::Unevaluated),
            }
        })
    }

    fn end_condemnation(&self, change: impl Fn(Status) -> Status) -> bool {
        self.update_status(Ordering::AcqRel, |status| (!status.is_doomed()).then(|| change(status)))
    }

    /// Turns an unreachable node into a free entry, and returns its status. `None` if the node is condemned: then the
    /// thread that has condemned it will find it doomed and free it.
    pub(super) fn end_or_doom(&self) -> Option<Status> {
        let mut ended = None;
        self.update_status(Ordering::AcqRel, |status| {
            ended = (!status.is_condemned()).then_some(status);
            Some(if ended.is_some() { Status::default() } else { status.doomed() })
        });
        ended
    }

    /// Starts to load the node into the processor's cache, for a thread that will free or begin it.
    #[inline]
    pub(super) fn load_ahead(&self) {
        // The node may lie in two cache lines.
        load_ahead(&self.wl_sum);
        load_ahead(&self.key);
    }

    /// Ends the result of an outlived repetition. The node keeps its visits and their mean value, and its next visit
    /// evaluates it, as if it had been collapsed. `false` if another thread has done so.
    pub fn reopen_outlived_repetition(&self, depth: usize) -> bool {
        self.update_status(Ordering::AcqRel, |status| {
            let is_outlived = status.outcome().is_some_and(|outcome| outcome.is_outlived_repetition(depth));
            let reopened = Status(status.without_result().0 | Status::COLLAPSED);
            is_outlived.then_some(reopened.with_state(State::Unevaluated))
        })
    }

    /// Whether the node has visits of children that have left the tree.
    #[inline]
    pub fn was_collapsed(&self) -> bool {
        self.status().has(Status::COLLAPSED)
    }

    /// Whether the value is exact.
    #[inline]
    pub fn is_terminal(&self) -> bool {
        self.state() == State::Terminal
    }

    /// The exact result of a terminal node.
    #[inline]
    pub fn outcome(&self) -> Option<Outcome> {
        self.status().outcome()
    }

    /// The proven bounds of the result.
    pub fn bounds(&self) -> Bounds {
        self.status().bounds()
    }

    /// Narrows the bounds to their intersection with `bounds`.
    pub fn narrow_bounds(&self, bounds: Bounds) {
        self.update_status(Ordering::Release, |status| {
            let old = status.bounds();
            let new = Bounds { lower: old.lower.max(bounds.lower), upper: old.upper.min(bounds.upper) };
            // Only `try_prove` may make bounds exact, because it also sets plies and kind.
            (new != old && new.lower < new.upper).then(|| status.with_bounds(new))
        });
    }

    /// The number of edges, which are the legal moves; 0 before `Expanded`, and 0 while the node is condemned.
    #[inline]
    pub fn edge_count(&self) -> usize {
        self.status().edge_count()
    }

    /// The index of the first word of the priors.
    #[inline]
    pub(super) fn priors(&self) -> u32 {
        self.priors.load(Ordering::Relaxed)
    }

    /// Whether the node may have several parents.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.status().has(Status::SHARED)
    }

    /// Marks the node so that a search for a mate does not visit it again.
    pub fn rule_out(&self) {
        self.update_status(Ordering::AcqRel, |status| {
            (!status.has(Status::RULED_OUT)).then_some(Status(status.0 | Status::RULED_OUT))
        });
    }

    /// Whether [`Node::rule_out`] was called.
    #[inline]
    pub fn is_ruled_out(&self) -> bool {
        self.status().has(Status::RULED_OUT)
    }

    /// The number of finished visits.
    #[inline]
    pub fn visits(&self) -> u32 {
        Counts(self.counts.load(Ordering::Acquire)).visits()
    }

    /// Waits until no other thread changes the values, and keeps other threads from changing them.
    #[inline]
    pub(super) fn lock(&self) -> LockedValues<'_> {
        let mut spin = Spin::default();
        loop {
            let counts = self.counts.load(Ordering::Relaxed);
            let locked = counts | LOCK;
            if counts != locked
                && self.counts.compare_exchange(counts, locked, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return LockedValues { node: self, counts: Counts(counts) };
            }
            spin.wait();
        }
    }

    /// Counts finished visits.
    #[inline]
    pub fn finish(&self, finished: Totals) {
        self.lock().add(finished);
    }

    /// Adds a correction to the sums without a visit, because the node or a descendant was proven.
    pub fn adjust(&self, change: Totals) {
        self.lock().add(Totals { visits: 0, ..change });
    }

    /// Makes an expanded node terminal, because its children prove it. All visits that were counted before count with the
    /// exact value from then on. Returns the change of the sums; `None` if the node was not expanded any more.
    pub fn prove(&self, outcome: Outcome) -> Option<Totals> {
        let is_first = self.update_status(Ordering::Release, |status| {
            let proven = status.with_outcome(outcome).with_state(State::Terminal);
            (status.state() == State::Expanded).then_some(proven)
        });
        is_first.then(|| {
            let mut values = self.lock();
            let before = values.totals();
            let change = Totals { visits: 0, ..Totals::of(outcome.sample(), before.visits).minus(before) };
            values.add(change);
            change
        })
    }

    /// The right to replace the means of wl and d. The caller has changed children, and reads them after this call.
    ///
    /// If another thread has the right, it may have read the children before, so this waits. If a third thread gets the
    /// right then, its means contain the caller's changes: this waits until they are stored, and returns `None`.
    #[inline]
    pub fn begin_recomputation(&self) -> Option<Recomputation<'_>> {
        if !self.try_recompute() {
            self.wait_for_recomputation();
            if !self.try_recompute() {
                self.wait_for_recomputation();
                return None;
            }
        }
        Some(Recomputation(self))
    }

    /// Even if this fails, the next thread that succeeds sees what this thread has done before.
    #[inline]
    fn try_recompute(&self) -> bool {
        self.status.fetch_or(Status::RECOMPUTING, Ordering::AcqRel) & Status::RECOMPUTING == 0
    }

    #[cold]
    fn wait_for_recomputation(&self) {
        let mut spin = Spin::default();
        while self.status().has(Status::RECOMPUTING) {
            spin.wait();
        }
    }

    /// The sums over all finished visits.
    pub fn totals(&self) -> Totals {
        self.totals_of(Counts(self.counts.load(Ordering::Acquire)))
    }

    #[inline]
    fn totals_of(&self, counts: Counts) -> Totals {
        Totals {
            visits: counts.visits(),
            wl: self.wl_sum.load(Ordering::Relaxed),
            d: self.d_sum.load(Ordering::Relaxed),
            m: f64::from(counts.m_mean()) * f64::from(counts.visits()),
        }
    }

    /// Sets the sums. No search may be running.
    pub(super) fn set_totals(&self, totals: Totals) {
        self.wl_sum.store(totals.wl, Ordering::Relaxed);
        self.d_sum.store(totals.d, Ordering::Relaxed);
        let mean = totals.m / f64::from(totals.visits.max(1));
        self.counts.store(Counts::new(totals.visits, mean as f32).0, Ordering::Release);
    }

    /// Changes the status. Only the claimant may call this, or a thread while no other thread uses the tree.
    pub(super) fn set_status(&self, change: impl Fn(Status) -> Status) {
        self.update_status(Ordering::Release, |status| Some(change(status)));
    }

    /// The mean value, or the exact value of a terminal node. Zero before the first visit.
    #[inline]
    pub fn sample(&self) -> Sample {
        self.sample_and_outcome().0
    }

    /// The values of [`Node::sample`] and [`Node::outcome`], from one load of the status.
    #[inline]
    pub fn sample_and_outcome(&self) -> (Sample, Option<Outcome>) {
        match self.outcome() {
            Some(outcome) => (outcome.sample(), Some(outcome)),
            None => (self.mean(), None),
        }
    }

    /// The mean value of the visits; zero before the first one.
    #[inline]
    pub fn mean(&self) -> Sample {
        self.mean_of(Counts(self.counts.load(Ordering::Acquire)))
    }

    #[inline]
    fn mean_of(&self, counts: Counts) -> Sample {
        if counts.visits() == 0 {
            return Sample::default();
        }
        let scale = 1.0 / (f64::from(counts.visits()) * VALUE_SCALE);
        Sample {
            wl: (self.wl_sum.load(Ordering::Relaxed) as f64 * scale) as f32,
            d: (self.d_sum.load(Ordering::Relaxed) as f64 * scale) as f32,
            m: counts.m_mean(),
        }
    }

    /// Starts to load the node's value into the processor's cache.
    #[inline]
    pub fn load_value_ahead(&self) {
        // The node may lie in two cache lines.
        load_ahead(&self.wl_sum);
        load_ahead(&self.status);
    }

    /// `wl` of [`Node::mean`].
    #[inline]
    pub fn mean_wl(&self) -> f32 {
        let visits = self.visits();
        if visits == 0 {
            return 0.0;
        }
        let scale = 1.0 / (f64::from(visits) * VALUE_SCALE);
        (self.wl_sum.load(Ordering::Relaxed) as f64 * scale) as f32
    }
}

/// What [`Node::counts`] holds, without [`LOCK`].
#[derive(Clone, Copy)]
struct Counts(u64);

impl Counts {
    fn new(visits: u32, m_mean: f32) -> Counts {
        Counts(u64::from(visits) << 32 | u64::from(m_mean.max(0.0).to_bits()) & !LOCK)
    }

    #[inline]
    fn visits(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    fn m_mean(self) -> f32 {
        f32::from_bits((self.0 & !LOCK) as u32)
    }
}

/// The values of a node whose lock this thread holds. The end of this guard publishes the counts and unlocks the node.
pub struct LockedValues<'node> {
    node: &'node Node,
    counts: Counts,
}

impl LockedValues<'_> {
    /// The number of finished visits.
    pub fn visits(&self) -> u32 {
        self.counts.visits()
    }

    /// The mean value of the visits; zero before the first one.
    pub fn mean(&self) -> Sample {
        self.node.mean_of(self.counts)
    }

    pub(super) fn totals(&self) -> Totals {
        self.node.totals_of(self.counts)
    }

    #[inline]
    pub(super) fn add(&mut self, added: Totals) {
        let Totals { wl, d, .. } = self.totals();
        self.set_sums(wl + added.wl, d + added.d);
        let (visits, mean) = (self.counts.visits(), f64::from(self.counts.m_mean()));
        let all = (f64::from(visits) + f64::from(added.visits)).max(1.0);
        let mean = mean + (added.m - f64::from(added.visits) * mean) / all;
        self.counts = Counts::new(visits.wrapping_add(added.visits), mean as f32);
    }

    #[inline]
    fn set_sums(&self, wl: i64, d: i64) {
        self.node.wl_sum.store(wl, Ordering::Relaxed);
        self.node.d_sum.store(d, Ordering::Relaxed);
    }
}

impl Drop for LockedValues<'_> {
    #[inline]
    fn drop(&mut self) {
        self.node.counts.store(self.counts.0, Ordering::Release);
    }
}

/// The right to replace the means of a node, which one thread at a time has.
pub struct Recomputation<'node>(&'node Node);

impl Recomputation<'_> {
    /// Replaces the means of wl and d, unless the node has become terminal. `means` gets the values of all visits that are
    /// counted by now.
    #[inline]
    pub fn replace_means(self, means: impl FnOnce(&LockedValues<'_>) -> (f32, f32)) {
        let values = self.0.lock();
        if !self.0.is_terminal() {
            let (wl, d) = means(&values);
            let visits = i64::from(values.visits());
            values.set_sums(visits * to_fixed(wl), visits * to_fixed(d));
        }
    }
}

impl Drop for Recomputation<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.status.fetch_and(!Status::RECOMPUTING, Ordering::Release);
    }
}

impl Totals {
    /// The sums over `visits` visits of value `sample`.
    #[inline]
    pub fn of(sample: Sample, visits: u32) -> Totals {
        let times = i64::from(visits);
        Totals {
            visits,
            wl: times * to_fixed(sample.wl),
            d: times * to_fixed(sample.d),
            m: f64::from(visits) * f64::from(sample.m),
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
    #[inline]
    pub fn plus(self, other: Totals) -> Totals {
        Totals {
            visits: self.visits + other.visits,
            wl: self.wl + other.wl,
            d: self.d + other.d,
            m: self.m + other.m,
        }
    }

    /// A child's sums in the parent's view, which is the other side's view with each visit one ply longer.
    #[must_use]
    #[inline]
    pub fn for_parent(self) -> Totals {
        Totals { visits: self.visits, wl: -self.wl, d: self.d, m: self.m + f64::from(self.visits) }
    }

    /// The share `part / whole` of the value sums, with 0 visits. If the two are equal, the sums are unchanged.
    #[must_use]
    pub fn share(self, part: u32, whole: u32) -> Totals {
        if part == whole {
            return Totals { visits: 0, ..self };
        }
        let factor = f64::from(part) / f64::from(whole.max(1));
        let scaled = |value: i64| (value as f64 * factor) as i64;
        Totals { visits: 0, wl: scaled(self.wl), d: scaled(self.d), m: self.m * factor }
    }
}

#[inline]
fn to_fixed(value: f32) -> i64 {
    (f64::from(value) * VALUE_SCALE) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TerminalKind;

    #[test]
    fn exactly_one_of_several_threads_claims_a_node() {
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
    fn visits_that_two_threads_finish_are_all_in_the_sums() {
        const VISITS: u16 = 20_000;
        let node = Node::default();
        let sample = |m: u16| Sample { wl: 0.5, d: 0.25, m: f32::from(m) };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..VISITS).for_each(|m| node.finish(Totals::of(sample(m), 1))));
            }
        });
        let expected = sample(VISITS / 2);
        let Sample { wl, d, m } = node.mean();
        assert_eq!((node.visits(), wl, d), (2 * u32::from(VISITS), expected.wl, expected.d));
        // The mean of plies is rounded after each visit.
        assert!((m - expected.m).abs() < 1e-3 * expected.m, "{m} plies, expected {}", expected.m);
    }

    #[test]
    fn means_are_exact_to_fixed_point() {
        let node = Node::default();
        node.finish(Totals::of(Sample { wl: 0.5, d: 0.25, m: 10.0 }, 1));
        node.finish(Totals::of(Sample { wl: -0.25, d: 0.5, m: 30.0 }, 3));
        assert_eq!(node.visits(), 4);
        assert_eq!(node.sample(), Sample { wl: -0.0625, d: 0.4375, m: 25.0 });
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
        node.finish(Totals::of(Sample { wl: -0.5, d: 0.5, m: 1.0 }, 1));
        let outcome = Outcome { result: 1, plies: 3, kind: TerminalKind::EndOfGame };
        let change = Totals { visits: 0, wl: 3 << 29, d: -(1 << 29), m: 2.0 };
        assert_eq!(node.prove(outcome), Some(change));
        assert_eq!(node.prove(outcome), None);
        assert_eq!(node.mean(), outcome.sample());
    }
}
