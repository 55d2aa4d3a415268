//! 7. Back up: values go up the ways of their descents, and proofs go up with them.

use super::Shared;
use super::minibatch::{Step, StepIndex};
use crate::sync::atomic::{Ordering, fence};
use crate::tree::{Bounds, Node, Outcome, Sample, TerminalKind, Totals};

/// What a changed child means for its parent.
#[derive(Debug)]
enum Proof {
    /// Nothing.
    Nothing,
    /// Its bounds are narrower now.
    Narrowed,
    /// It is terminal now; its sums changed by this much.
    Proven(Totals),
}

impl Shared {
    /// Ends `visits` announced visits of the step `from` with `sample` in its node's view, at once. They weigh `weight`
    /// each, where that counts (see [`super::tally`]). `is_proof`: the node is terminal, and the node above may not know
    /// it yet, so that it may be proven too.
    pub(super) fn back_up(
        &self,
        steps: &mut [Step],
        from: StepIndex,
        mut sample: Sample,
        visits: u32,
        weight: f32,
        is_proof: bool,
    ) {
        let mut may_prove = is_proof && self.params.sticky_endgames;
        // What a proof below changes in the sums of everything above it.
        let mut correction = Totals::default();
        let mut next = Some(from);
        while let Some(index) = next {
            let step = &mut steps[index as usize];
            let node = self.tree.node(step.node);
            let mut own_change = Totals::default();
            // The root stays open: its moves are what the search is for.
            if may_prove && index != from && step.parent.is_some() {
                match self.try_prove(node) {
                    Proof::Nothing => may_prove = false,
                    Proof::Narrowed => {}
                    Proof::Proven(change) => own_change = change,
                }
            }
            if let Some(outcome) = node.outcome() {
                // Proven, now or since the visit began: from here up the exact value counts.
                sample = outcome.sample();
                correction = own_change;
            } else if correction != Totals::default() {
                node.adjust(correction);
            }
            if correction != Totals::default() {
                // The parent has counted those visits that it made itself.
                let counted = step.link.map_or(0, |link| self.tree.link(link).visits());
                correction = correction.share(counted, node.visits()).for_parent();
            }
            self.finish_sample(step, sample, visits, weight);
            self.withdraw(step, visits);
            step.announced -= visits;
            sample = sample.for_parent();
            next = step.parent;
        }
    }

    /// Counts finished visits at the node of a step, and at the link that led there.
    #[inline]
    pub(super) fn finish_visits(&self, step: &Step, finished: Totals) {
        self.tree.node(step.node).finish(finished);
        self.finish_at_link(step, finished.visits);
    }

    /// Counts finished visits at the link that led to a step's node, which has counted them: a link never has more than
    /// its child.
    #[inline]
    pub(super) fn finish_at_link(&self, step: &Step, visits: u32) {
        if let Some(link) = step.link {
            self.tree.link(link).finish(visits);
        }
    }

    /// Takes announced visits of a step back.
    #[inline]
    pub(super) fn withdraw(&self, step: &Step, visits: u32) {
        match step.link {
            Some(link) => self.tree.link(link).withdraw(visits),
            None => drop(self.root_in_flight.fetch_sub(visits, Ordering::Relaxed)),
        }
    }

    /// Combines the bounds of all children of an expanded node: its own are the best of theirs, seen by the other
    /// side. Where they are exact the node becomes terminal, with the shortest win or the longest loss.
    fn try_prove(&self, node: &Node) -> Proof {
        if node.is_terminal() {
            return Proof::Nothing;
        }
        let edge_count = node.edge_count();
        let mut bounds = Bounds::exact(-1);
        let mut seen = 0;
        // The shortest mate; the shortest tablebase win; the longest draw; the longest loss.
        let (mut mate_plies, mut win_plies) = (None, u16::MAX);
        let (mut draw_plies, mut loss_plies) = (0, 0);
        let mut uses_tablebase = false;
        // Two threads may end two children at the same time: each must see the other's, or nobody proves this node.
        // Their ends were stored before, and this orders them before the loads below.
        fence(Ordering::SeqCst);
        for child in self.tree.links(node).filter_map(|(_, link)| link.child()) {
            let child = self.tree.node(child);
            seen += 1;
            let outcome = child.outcome();
            let child_bounds = match outcome {
                // A first repetition is a draw on this path only: it proves nothing.
                Some(Outcome { kind: TerminalKind::TwoFold, .. }) => Bounds::UNKNOWN,
                _ => child.bounds(),
            }
            .flipped();
            bounds.lower = bounds.lower.max(child_bounds.lower);
            bounds.upper = bounds.upper.max(child_bounds.upper);
            if let Some(outcome) = outcome {
                let from_tablebase = outcome.kind == TerminalKind::Tablebase;
                uses_tablebase |= from_tablebase;
                match -outcome.result {
                    1 if from_tablebase => win_plies = win_plies.min(outcome.plies),
                    1 => {
                        mate_plies = Some(mate_plies.map_or(outcome.plies, |least| outcome.plies.min(least)))
                    }
                    0 => draw_plies = draw_plies.max(outcome.plies),
                    _ => loss_plies = loss_plies.max(outcome.plies),
                }
            }
        }
        if seen < edge_count {
            bounds.upper = 1;
        }
        if bounds.is_exact() || bounds.lower == 1 {
            let (plies, needs_tablebase) = match (bounds.lower, mate_plies) {
                // A mate needs no tablebase, whatever the other moves do.
                (1, Some(plies)) => (plies, false),
                (1, None) => (win_plies, uses_tablebase),
                (0, _) => (draw_plies, uses_tablebase),
                _ => (loss_plies, uses_tablebase),
            };
            let kind = if needs_tablebase { TerminalKind::Tablebase } else { TerminalKind::EndOfGame };
            return self.prove(node, Outcome { result: bounds.lower, plies: plies.saturating_add(1), kind });
        }
        if bounds == Bounds::UNKNOWN {
            return Proof::Nothing;
        }
        node.narrow_bounds(bounds);
        Proof::Narrowed
    }

    fn prove(&self, node: &Node, outcome: Outcome) -> Proof {
        let before = node.totals();
        if !node.try_prove(outcome) {
            return Proof::Nothing;
        }
        // All visits so far count with the exact value from now on.
        let change = Totals { visits: 0, ..Totals::of(outcome.sample(), before.visits).minus(before) };
        node.adjust(change);
        Proof::Proven(change)
    }
}
