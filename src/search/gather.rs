//! 2. Gather: fills a batch with leaves worth evaluating.
//!
//! One descent hands out many visits at once: at each node the budget is shared among the children as if the visits
//! were made one by one (each counts as started at once), then each child gets its share. Positions are made and
//! unmade along the way, so a move is played once for all the visits that go through it.
//!
//! A visit that meets a node under evaluation is a *collision*: there is nothing to do for it. It stays announced
//! along its path until the batch is done, which drives later visits elsewhere, and enough of them end the batch.
//! A visit that ends in a known value (terminal, or in the cache) is backed up at once, *out of order*.

use super::minibatch::{Collision, Leaf, Minibatch};
use super::{Shared, select};
use crate::backend::{Added, EvalRequest, Value};
use crate::chess::{PackedMove, Position, PositionHistory};
use crate::tree::{Allocator, Edge, Node, NodeId, Outcome, Sample, State, TerminalKind};
use rand_distr::Distribution;

/// Deeper than any game that matters; keeps recursion within the thread's stack.
const MAX_DEPTH: usize = 1500;

/// One thread's gathering state, reused from batch to batch.
pub(super) struct Gatherer {
    /// The game and, during a descent, the moves from the root on.
    history: PositionHistory,
    /// Positions before the root's own moves.
    root_length: usize,
    /// Root to the current node.
    path: Vec<NodeId>,
    /// One list of candidates per depth, reused.
    candidates: Vec<Vec<Candidate>>,
    allocator: Allocator,
    /// Scratch for a leaf's moves.
    leaf_moves: Vec<PackedMove>,
    /// Scratch for a leaf's edges.
    edges: Vec<Edge>,
}

/// A child, or an edge without one, while its parent's visits are shared out.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    edge_index: usize,
    child: Option<NodeId>,
    prior: f32,
    /// Value and moves-left bonus; first-play urgency where unvisited.
    utility: f32,
    /// Visits made and under way.
    started: u32,
    score: f32,
    /// Visits to make in this descent.
    share: u32,
    task: Task,
}

/// What a candidate's share is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Task {
    Nothing,
    /// This thread has claimed it and evaluates it.
    Evaluate,
    /// Count its exact value.
    Terminal,
    /// Share the visits among its children.
    Descend,
}

/// What one descent found.
#[derive(Clone, Copy, Default, Debug)]
struct Found {
    leaves: u32,
    out_of_order: u32,
    collisions: u32,
}

impl Gatherer {
    pub(super) fn new(shared: &Shared) -> Gatherer {
        Gatherer {
            history: shared.history.clone(),
            root_length: shared.history.positions().len(),
            path: Vec::new(),
            candidates: Vec::new(),
            allocator: Allocator::default(),
            leaf_moves: Vec::new(),
            edges: Vec::new(),
        }
    }

    /// Fills `batch` up to `params.minibatch_size` leaves, or until collisions, the visit limit or a stop say
    /// that there is no more to find.
    pub(super) fn gather(&mut self, shared: &Shared, batch: &mut Minibatch, remaining_playouts: Option<u64>) {
        let params = &shared.params;
        let target = params.minibatch_size as u32;
        let max_out_of_order = ((params.max_out_of_order_factor * target as f32) as u32).max(1);
        let tree_size = u64::from(shared.root().visits());
        let mut collisions_left = collisions_allowed(
            shared,
            remaining_playouts.map_or(tree_size, |left| left.min(tree_size)),
        );
        let mut events_left = params.collisions.max_events;
        let focus = RootFocus::new(shared, remaining_playouts);

        loop {
            // Without `OutOfOrderEval` known results take a place in the batch like any other.
            let known = if params.out_of_order_eval {
                0
            } else {
                batch.gathered.out_of_order
            };
            let budget = collisions_left
                .min(target.saturating_sub(batch.gathered.leaf_count as u32 + known))
                .min(max_out_of_order.saturating_sub(batch.gathered.out_of_order))
                .min(shared.visits_left());
            if budget == 0 {
                return;
            }
            let first_collision = batch.gathered.collisions.len();
            let found = self.descend_from_root(shared, batch, budget, &focus);
            batch.gathered.out_of_order += found.out_of_order;
            let events = batch.gathered.collisions.len() - first_collision;
            events_left = events_left.saturating_sub(events as u32);
            collisions_left = collisions_left.saturating_sub(found.collisions);
            // A descent of nothing but collisions: more of them would only drive visits to bad moves, and cost as
            // much as the leaves they find (a tenth of the speed on flat evaluations, where they are many).
            if collisions_left == 0 || events_left == 0 || found.leaves + found.out_of_order == 0 {
                return;
            }
            if shared.is_stopping() {
                return;
            }
        }
    }

    /// 4. Prefetch: tops the batch up with positions that the search will probably want soon, for the cache.
    pub(super) fn prefetch(&mut self, shared: &Shared, batch: &mut Minibatch) {
        let target = shared
            .params
            .max_prefetch
            .min(shared.backend.attributes().maximum_batch_size);
        if batch.request.is_empty() || batch.request.len() >= target || shared.is_stopping() {
            return;
        }
        let budget = target - batch.request.len();
        self.prefetch_below(shared, batch, shared.tree.root(), budget, 0);
    }

    fn descend_from_root(
        &mut self,
        shared: &Shared,
        batch: &mut Minibatch,
        budget: u32,
        focus: &RootFocus,
    ) -> Found {
        self.path.clear();
        self.path.push(shared.tree.root());
        let root = shared.root();
        let mut found = Found::default();
        root.add_in_flight(budget);
        match root.state() {
            State::Expanded => self.share_out(shared, batch, budget, Some(focus), &mut found),
            State::Unevaluated if root.try_claim() => {
                root.cancel_in_flight(budget - 1);
                self.evaluate(shared, batch, &mut found);
            }
            _ => self.collide(batch, budget, &mut found),
        }
        debug_assert_eq!(self.history.positions().len(), self.root_length);
        found
    }

    /// Shares `budget` announced visits of the last node on the path among its children and makes them.
    fn share_out(
        &mut self,
        shared: &Shared,
        batch: &mut Minibatch,
        budget: u32,
        focus: Option<&RootFocus>,
        found: &mut Found,
    ) {
        let depth = self.path.len() - 1;
        let Some(&id) = self.path.last() else { return };
        if depth >= MAX_DEPTH {
            return self.collide(batch, budget, found);
        }
        let node = shared.tree.node(id);
        let mut candidates = self.candidates.pop().unwrap_or_default();
        let collided = self.plan(shared, node, budget, focus, &mut candidates);
        if collided > 0 {
            self.collide(batch, collided, found);
        }
        for candidate in &candidates {
            let (Some(child), true) = (candidate.child, candidate.task != Task::Nothing) else {
                continue;
            };
            self.path.push(child);
            match candidate.task {
                Task::Terminal => self.revisit_terminal(shared, candidate.share, found),
                Task::Evaluate | Task::Descend => {
                    let m = shared.tree.edge(node, candidate.edge_index).packed_move();
                    self.history.push(m.unpack(self.history.last()));
                    if candidate.task == Task::Evaluate {
                        self.evaluate(shared, batch, found);
                    } else {
                        self.share_out(shared, batch, candidate.share, None, found);
                    }
                    self.history.pop();
                }
                Task::Nothing => {}
            }
            self.path.pop();
        }
        candidates.clear();
        self.candidates.push(candidates);
    }

    /// Decides which child gets how many of `budget` visits, and announces them there. Returns how many visits
    /// found their child busy.
    fn plan(
        &mut self,
        shared: &Shared,
        node: &Node,
        budget: u32,
        focus: Option<&RootFocus>,
        candidates: &mut Vec<Candidate>,
    ) -> u32 {
        let is_root = focus.is_some();
        let exploration = select::exploration(&shared.params, node.visits(), is_root);
        self.list_candidates(shared, node, budget, focus, exploration, candidates);
        let mut left = budget;
        let mut collided = 0;
        while left > 0 {
            let Some((best, rival_score)) = best_two(candidates) else {
                // No move may be tried (all were pruned): nothing to do here.
                return collided + left;
            };
            let candidate = &mut candidates[best];
            let visits = select::visits_until_overtaken(
                candidate.prior,
                exploration,
                candidate.started,
                candidate.utility,
                rival_score,
            )
            .min(left);
            left -= visits;
            if candidate.child.is_none() {
                candidate.child = shared
                    .tree
                    .child_or_new(node, candidate.edge_index, &mut self.allocator);
            }
            let Some(child) = candidate.child.map(|id| shared.tree.node(id)) else {
                // No room for a node.
                shared.report_full_tree();
                return collided + left + visits;
            };
            let made = match candidate.task {
                Task::Nothing => match child.state() {
                    State::Unevaluated if child.try_claim() => {
                        candidate.task = Task::Evaluate;
                        1
                    }
                    State::Unevaluated | State::Evaluating => 0,
                    State::Expanded => {
                        candidate.task = Task::Descend;
                        visits
                    }
                    State::Terminal => {
                        candidate.task = Task::Terminal;
                        visits
                    }
                },
                Task::Evaluate => 0,
                Task::Descend | Task::Terminal => visits,
            };
            child.add_in_flight(made);
            candidate.share += made;
            candidate.started += made;
            candidate.score = score(candidate, exploration);
            collided += visits - made;
        }
        collided
    }

    /// The children of `node` and as many untried edges as `budget` visits can reach.
    fn list_candidates(
        &mut self,
        shared: &Shared,
        node: &Node,
        budget: u32,
        focus: Option<&RootFocus>,
        exploration: f32,
        candidates: &mut Vec<Candidate>,
    ) {
        let params = &shared.params;
        let parent = node.sample();
        let draw_score = params.draw_score_for(self.history.last().side_to_move());
        let moves_left_bonus = select::MovesLeftBonus::new(params, parent);
        let mut children = shared.tree.children(node);
        let mut visited_policy = 0.0;
        let mut untried = 0_u64;
        for (edge_index, edge) in shared.tree.edges(node).enumerate() {
            let child = children.next().flatten();
            let prior = edge.prior();
            let mut candidate = Candidate {
                edge_index,
                child,
                prior,
                utility: f32::NAN,
                started: 0,
                score: 0.0,
                share: 0,
                task: Task::Nothing,
            };
            let mut visits = 0;
            if let Some(child) = child.map(|id| shared.tree.node(id)) {
                candidate.started = child.started();
                visits = child.visits();
                if visits > 0 {
                    visited_policy += prior;
                    let sample = child.sample().for_parent();
                    let q = select::utility(sample, draw_score);
                    // The bonus compares the child's own plies left with the parent's.
                    candidate.utility = q + moves_left_bonus.of(sample.m - 1.0, q);
                }
            }
            if focus.is_some_and(|focus| !focus.allows(edge.packed_move(), edge_index, visits)) {
                continue;
            }
            untried += u64::from(candidate.started == 0);
            candidates.push(candidate);
            // Edges are sorted by prior, so later untried edges come after this one: each visit can take up at
            // most one of them, and one more is needed as the rival.
            if untried > u64::from(budget) {
                break;
            }
        }
        let parent_q = select::utility(parent, draw_score);
        let fpu = select::first_play_urgency(params, parent_q, visited_policy, focus.is_some());
        for candidate in candidates {
            if candidate.utility.is_nan() {
                candidate.utility = fpu;
            }
            candidate.score = score(candidate, exploration);
        }
    }

    /// Counts the exact value of the last node on the path again, now.
    fn revisit_terminal(&mut self, shared: &Shared, visits: u32, found: &mut Found) {
        let Some(outcome) = self.path.last().and_then(|&id| shared.tree.node(id).outcome()) else {
            return;
        };
        shared.back_up(&self.path, outcome.sample(), visits, false);
        shared.counters.count_visits(self.path.len(), visits);
        found.out_of_order += visits;
    }

    /// Evaluates the last node on the path, which this thread has claimed and announced one visit of: by the
    /// rules, from the cache, or by putting it into the batch.
    fn evaluate(&mut self, shared: &Shared, batch: &mut Minibatch, found: &mut Found) {
        let Some(&id) = self.path.last() else { return };
        let node = shared.tree.node(id);
        let depth = self.path.len() - 1;
        let position = self.history.last();
        self.leaf_moves.clear();
        self.leaf_moves
            .extend(position.legal_moves().iter().map(|&m| PackedMove::new(m)));
        if let Some(outcome) = outcome_by_rule(shared, position, self.leaf_moves.is_empty(), depth) {
            node.publish_terminal(outcome);
            shared.back_up(&self.path, outcome.sample(), 1, true);
            shared.counters.count_visits(depth + 1, 1);
            found.out_of_order += 1;
            return;
        }
        let request = EvalRequest {
            history: &self.history,
            moves: &self.leaf_moves,
        };
        match batch.request.add(request) {
            Added::Ready(evaluation) => {
                let path = std::mem::take(&mut self.path);
                let moves = std::mem::take(&mut self.leaf_moves);
                self.finish_leaf(shared, &path, &moves, evaluation.value, &evaluation.priors);
                self.path = path;
                self.leaf_moves = moves;
                shared.counters.count_visits(depth + 1, 1);
                found.out_of_order += 1;
            }
            Added::Queued => {
                let first_move = batch.gathered.moves.len();
                batch.gathered.moves.extend_from_slice(&self.leaf_moves);
                let path = batch.gathered.keep_path(&self.path);
                batch.gathered.waiting.push(Some(Leaf {
                    path,
                    moves: first_move..batch.gathered.moves.len(),
                }));
                batch.gathered.leaf_count += 1;
                found.leaves += 1;
            }
        }
    }

    /// 6. Fetch: turns an evaluation into edges, publishes the leaf and backs its value up.
    pub(super) fn finish_leaf(
        &mut self,
        shared: &Shared,
        path: &[NodeId],
        moves: &[PackedMove],
        value: Value,
        priors: &[f32],
    ) {
        let Some(&id) = path.last() else { return };
        let node = shared.tree.node(id);
        self.edges.clear();
        self.edges
            .extend(moves.iter().zip(priors).map(|(&m, &prior)| Edge::new(m, prior)));
        if path.len() == 1 && shared.params.noise_epsilon > 0.0 {
            add_noise(
                &mut self.edges,
                shared.params.noise_epsilon,
                shared.params.noise_alpha,
            );
        }
        // Bits compare like priors; the move breaks ties, so that the order is the same everywhere.
        self.edges
            .sort_unstable_by(|a, b| b.prior().total_cmp(&a.prior()).then(a.bits().cmp(&b.bits())));
        if !shared.tree.expand(node, &self.edges, &mut self.allocator) {
            shared.report_full_tree();
            node.cancel_claim();
            shared.cancel_visits(path, 1);
            return;
        }
        let sample = Sample {
            wl: value.q,
            d: value.d,
            m: value.m,
        };
        shared.back_up(path, sample, 1, false);
    }

    fn collide(&mut self, batch: &mut Minibatch, visits: u32, found: &mut Found) {
        let path = batch.gathered.keep_path(&self.path);
        batch.gathered.collisions.push(Collision { path, visits });
        found.collisions += visits;
    }

    /// Sends likely leaves below `id` to the cache; returns how many of `budget` were used.
    fn prefetch_below(
        &mut self,
        shared: &Shared,
        batch: &mut Minibatch,
        id: NodeId,
        budget: usize,
        depth: usize,
    ) -> usize {
        let node = shared.tree.node(id);
        if node.state() != State::Expanded || depth >= MAX_DEPTH {
            return 0;
        }
        let exploration = select::exploration(&shared.params, node.visits(), depth == 0);
        let mut candidates = self.candidates.pop().unwrap_or_default();
        self.list_candidates(
            shared,
            node,
            budget.min(64) as u32,
            None,
            exploration,
            &mut candidates,
        );
        candidates.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.edge_index.cmp(&b.edge_index)));
        let mut used = 0;
        for (rank, candidate) in candidates.iter().enumerate() {
            if used >= budget || candidate.prior == 0.0 {
                break;
            }
            let rival = candidates
                .get(rank + 1)
                .map_or(f32::NEG_INFINITY, |next| next.score);
            let share = select::visits_until_overtaken(
                candidate.prior,
                exploration,
                candidate.started,
                candidate.utility,
                rival,
            );
            let share = (share as usize).min(budget - used);
            let m = shared.tree.edge(node, candidate.edge_index).packed_move();
            self.history.push(m.unpack(self.history.last()));
            used += match candidate
                .child
                .filter(|&child| shared.tree.node(child).started() > 0)
            {
                Some(child) => self.prefetch_below(shared, batch, child, share, depth + 1),
                None => self.prefetch_leaf(shared, batch),
            };
            self.history.pop();
        }
        candidates.clear();
        self.candidates.push(candidates);
        used
    }

    fn prefetch_leaf(&mut self, shared: &Shared, batch: &mut Minibatch) -> usize {
        self.leaf_moves.clear();
        self.leaf_moves.extend(
            self.history
                .last()
                .legal_moves()
                .iter()
                .map(|&m| PackedMove::new(m)),
        );
        let request = EvalRequest {
            history: &self.history,
            moves: &self.leaf_moves,
        };
        // A cached position takes its share of the budget too: hunting for one that is not cached costs more.
        if !self.leaf_moves.is_empty()
            && shared.backend.cached(request).is_none()
            && matches!(batch.request.add(request), Added::Queued)
        {
            batch.gathered.waiting.push(None);
        }
        1
    }
}

/// Which root moves may be tried.
struct RootFocus<'a> {
    /// Empty: all.
    searchmoves: &'a [PackedMove],
    /// The edge with the most visits, and its visits.
    best: Option<(usize, u32)>,
    /// How many more visits there will be: a move further behind cannot become the best.
    remaining_playouts: Option<u64>,
}

impl<'a> RootFocus<'a> {
    fn new(shared: &'a Shared, remaining_playouts: Option<u64>) -> RootFocus<'a> {
        let best = remaining_playouts.and_then(|_| shared.most_visited_root_edge());
        RootFocus {
            searchmoves: &shared.searchmoves,
            best,
            remaining_playouts,
        }
    }

    fn allows(&self, m: PackedMove, edge_index: usize, visits: u32) -> bool {
        if !self.searchmoves.is_empty() && !self.searchmoves.contains(&m) {
            return false;
        }
        match (self.best, self.remaining_playouts) {
            (Some((best_index, best_visits)), Some(remaining)) => {
                edge_index == best_index || u64::from(best_visits.saturating_sub(visits)) <= remaining
            }
            _ => true,
        }
    }
}

fn score(candidate: &Candidate, exploration: f32) -> f32 {
    candidate.prior * exploration / (1.0 + candidate.started as f32) + candidate.utility
}

/// The index of the best score and the second best score.
fn best_two(candidates: &[Candidate]) -> Option<(usize, f32)> {
    let mut best = None;
    let mut best_score = f32::NEG_INFINITY;
    let mut rival_score = f32::NEG_INFINITY;
    let mut seen_untried = 0;
    for (index, candidate) in candidates.iter().enumerate() {
        if candidate.score > best_score {
            rival_score = best_score;
            best_score = candidate.score;
            best = Some(index);
        } else if candidate.score > rival_score {
            rival_score = candidate.score;
        }
        // Untried edges have equal utility and falling priors: the first two are the best of them. Candidates with
        // visits may still follow only where moves were skipped at the root, which lists few.
        seen_untried += u32::from(candidate.started == 0 && candidate.child.is_none());
        if seen_untried == 2 {
            break;
        }
    }
    // All scores NaN or -inf: a broken evaluation must not stop the search.
    best.or((!candidates.is_empty()).then_some(0))
        .map(|index| (index, rival_score))
}

/// How many collisions a batch may meet in a tree of this size: few while it is small, when they would only
/// drive visits to bad moves.
fn collisions_allowed(shared: &Shared, tree_size: u64) -> u32 {
    let params = &shared.params.collisions;
    if tree_size >= params.scaling_end {
        return params.max_visits;
    }
    if tree_size <= params.scaling_start {
        return 1;
    }
    let share =
        (tree_size - params.scaling_start) as f32 / (params.scaling_end - params.scaling_start) as f32;
    // The default power without the platform's pow, so that search is the same on every machine.
    let grown = if params.scaling_power == 1.25 {
        share * share.sqrt().sqrt()
    } else {
        share.powf(params.scaling_power)
    };
    1 + ((params.max_visits - 1) as f32 * grown).round_ties_even() as u32
}

/// The result of a position by the rules of the game, from the side to move's view.
fn outcome_by_rule(shared: &Shared, position: &Position, no_moves: bool, depth: usize) -> Option<Outcome> {
    let draw = |plies, kind| {
        Some(Outcome {
            result: 0,
            plies,
            kind,
        })
    };
    if no_moves {
        let result = if position.is_check() { -1 } else { 0 };
        return Some(Outcome {
            result,
            plies: 0,
            kind: TerminalKind::EndOfGame,
        });
    }
    // At the root, thinking about a drawn position is what was asked for.
    if depth == 0 {
        return None;
    }
    if position.has_insufficient_material() || position.rule50_ply() >= 100 || position.repetitions() >= 2 {
        return draw(0, TerminalKind::EndOfGame);
    }
    let cycle = position.plies_since_repetition();
    if position.repetitions() == 1
        && shared.params.two_fold_draws
        && depth >= 4
        && depth >= usize::from(cycle)
    {
        return draw(cycle, TerminalKind::TwoFold);
    }
    None
}

/// Mixes Dirichlet noise into the priors.
fn add_noise(edges: &mut [Edge], epsilon: f32, alpha: f32) {
    let Ok(gamma) = rand_distr::Gamma::new(alpha, 1.0) else {
        return;
    };
    let mut rng = rand::rng();
    let noise: Vec<f32> = edges.iter().map(|_| gamma.sample(&mut rng)).collect();
    let total: f32 = noise.iter().sum();
    if total < f32::MIN_POSITIVE {
        return;
    }
    for (edge, noise) in edges.iter_mut().zip(noise) {
        let prior = edge.prior() * (1.0 - epsilon) + epsilon * noise / total;
        *edge = Edge::new(edge.packed_move(), prior);
    }
}
