//! The part of a search's state that is constant while the search runs, and queries of its tree and root.

use super::setup::SearchSetup;
use crate::info::Responder;
use crate::policy::{SearchParams, select};
use crate::stop::MOST_VISITS;
use rukh_backend::{Backend, DeviceWork, Fallback};
use rukh_base::sync::Arc;
use rukh_base::sync::atomic::AtomicBool;
use rukh_chess::tablebase::Tablebases;
use rukh_chess::{Move, PackedMove, PositionHistory};
use rukh_options::ScoreType;
use rukh_tree::{Allocator, LinkId, Node, NodeId, Sample, State, Tree};

/// The number of visits from which on the exploration is computed each time.
const KNOWN_EXPLORATIONS: u32 = 512;

/// The constants of one search. The tree changes through its atomics, but it stays the same tree.
pub struct SearchContext {
    pub(crate) tree: Arc<Tree>,
    pub(crate) backend: Arc<dyn Backend>,
    /// Evaluates the root if `backend` does not.
    pub(crate) fallback: Option<Arc<dyn Fallback>>,
    pub(crate) params: SearchParams,
    pub(crate) score_type: ScoreType,
    /// The game up to the root.
    pub(crate) history: PositionHistory,
    /// The root moves to search. If it is empty, all root moves are searched.
    pub(crate) searchmoves: Vec<PackedMove>,
    pub(crate) tablebases: Option<Arc<Tablebases>>,
    pub(crate) counting: Counting,
    /// Whether an earlier search has left own evaluations in the tree, and this search stores none.
    pub(crate) clears_own_evaluations: bool,
    /// Whether the user chose the CPU: it evaluated when the search began, and not in the place of a lost device.
    pub(crate) cpu_is_chosen: bool,
    /// Whether cpuct depends on more than a node's visits.
    scales_cpuct: bool,
    /// [`select::exploration`] for each small number of visits of a node below the root. It takes a logarithm and a root,
    /// and most nodes have few visits.
    explorations: Box<[f32]>,
    /// Bytes that the tree may use.
    pub(crate) memory_limit: u64,
    /// The limit on [`SearchContext::nodes`].
    visit_limit: u64,
    /// [`SearchContext::nodes`] at the start.
    initial_nodes: u64,
    pub(crate) responder: Arc<dyn Responder>,
    /// What each of several devices had done before the search.
    pub(crate) devices_before: Vec<DeviceWork>,
    /// [`SearchSetup::waiting_notice`].
    pub(crate) waiting_notice: Option<Arc<AtomicBool>>,
}

/// How a search counts visits, and what it keeps of each node besides the sums of their values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counting {
    /// All visits count alike, and a node's value is their mean. Nothing else is kept.
    Plain,
    /// All visits count alike, and a node's value is computed from its children's values and its own evaluation.
    Recomputed,
    /// Visits may have weights. Own evaluations and extra statistics are kept, which the options of uncertainty need.
    Weighted,
}

impl Counting {
    fn of(params: &SearchParams) -> Counting {
        if params.uncertainty.is_on() {
            Counting::Weighted
        } else if params.backup.is_on() {
            Counting::Recomputed
        } else {
            Counting::Plain
        }
    }
}

impl SearchContext {
    /// The constants of the search that `setup` describes.
    pub(super) fn new(setup: &SearchSetup, responder: Arc<dyn Responder>) -> SearchContext {
        let root = setup.tree.node(setup.tree.root());
        if root.state() == State::Expanded {
            // A node that was not the root of an earlier search has links only for its best moves. The root needs links
            // for all moves.
            let mut allocator = Allocator::default();
            setup.tree.link_all(root, setup.history.last(), &mut allocator);
            setup.tree.take_back(&mut allocator);
        }
        let counting = Counting::of(&setup.params);
        SearchContext {
            initial_nodes: counted_nodes(&setup.tree, &setup.searchmoves),
            counting,
            clears_own_evaluations: counting == Counting::Plain && setup.tree.has_own_evaluations(),
            cpu_is_chosen: setup.backend.attributes().runs_on_cpu && setup.backend.devices().lost == 0,
            scales_cpuct: setup.params.uncertainty.scales_cpuct(),
            explorations: (0..KNOWN_EXPLORATIONS)
                .map(|visits| select::exploration(&setup.params, visits, false))
                .collect(),
            visit_limit: setup.visit_limit.unwrap_or(MOST_VISITS).min(MOST_VISITS),
            tree: setup.tree.clone(),
            backend: setup.backend.clone(),
            fallback: setup.fallback.clone(),
            params: setup.params.clone(),
            score_type: setup.score_type,
            history: setup.history.clone(),
            searchmoves: setup.searchmoves.clone(),
            tablebases: setup.tablebases.clone(),
            memory_limit: setup.memory_limit,
            responder,
            devices_before: setup.backend.work(),
            waiting_notice: setup.waiting_notice.clone(),
        }
    }

    pub(crate) fn root(&self) -> &Node {
        self.tree.node(self.tree.root())
    }

    /// The number of leaves to gather into a batch. It is lower than `params` say if the CPU has taken the place of a
    /// lost device, because a batch of the size that suits a device would keep the CPU busy for seconds.
    #[inline]
    pub(crate) fn minibatch_size(&self) -> usize {
        let attributes = self.backend.attributes();
        match attributes.runs_on_cpu && !self.cpu_is_chosen {
            true => self.params.minibatch_size.min(attributes.recommended_batch_size.max(1)),
            false => self.params.minibatch_size,
        }
    }

    /// Whether only some of the root's moves are searched.
    pub(crate) fn is_restricted(&self) -> bool {
        !self.searchmoves.is_empty()
    }

    /// The number that limits and reports mean, after this search has made `playouts` visits: the visits of the root or,
    /// if only some of its moves are searched, the visits below those. Visits from earlier searches are included.
    pub(crate) fn nodes(&self, playouts: u64) -> u64 {
        match self.is_restricted() {
            true => visits_below(&self.tree, &self.searchmoves),
            false => self.initial_nodes + playouts,
        }
    }

    /// Those of [`SearchContext::nodes`] that this search has made.
    pub(crate) fn new_nodes(&self, playouts: u64) -> u64 {
        self.nodes(playouts).saturating_sub(self.initial_nodes)
    }

    /// The visits that the root would have if the moves that are not searched had none: its own evaluation, and the visits
    /// below the searched moves.
    pub(crate) fn root_visits(&self) -> u32 {
        let visits = self.root().visits();
        match self.is_restricted() && visits > 0 {
            true => u32::try_from(visits_below(&self.tree, &self.searchmoves) + 1).unwrap_or(u32::MAX),
            false => visits,
        }
    }

    /// The root's value. If only some of its moves are searched, it is the mean of these or, before their first visit, the
    /// root's own evaluation.
    pub(crate) fn root_sample(&self) -> Sample {
        let whole = self.root().sample();
        match self.is_restricted() {
            true => self.searched_mean().unwrap_or_else(|| self.own_evaluation_of_root(whole)),
            false => whole,
        }
    }

    /// The mean of the visits below the searched moves, from the root's point of view. `None` without any.
    fn searched_mean(&self) -> Option<Sample> {
        let (mut wl, mut d, mut m, mut visits) = (0.0, 0.0, 0.0, 0.0);
        for (_, link) in self.tree.links(self.root()) {
            let Some(child) = link.child().filter(|_| self.is_searched(link.edge().packed_move())) else {
                continue;
            };
            let weight = f64::from(link.visits());
            let sample = self.tree.node(child).sample().for_parent();
            wl += weight * f64::from(sample.wl);
            d += weight * f64::from(sample.d);
            m += weight * f64::from(sample.m);
            visits += weight;
        }
        let mean = |sum: f64| (sum / visits) as f32;
        (visits > 0.0).then(|| Sample { wl: mean(wl), d: mean(d), m: mean(m) })
    }

    /// The network's evaluation of the root if it is still known, and otherwise `whole`, the root's mean.
    fn own_evaluation_of_root(&self, whole: Sample) -> Sample {
        let is_kept = self.tree.has_own_evaluations();
        match is_kept.then(|| self.tree.own_evaluation(self.tree.root()).get()).flatten() {
            Some((wl, d)) => Sample { wl, d, ..whole },
            None => whole,
        }
    }

    /// The number of visits that may still be started at the root, if `in_flight` visits are in flight there.
    pub(crate) fn visits_left(&self, in_flight: u32) -> u32 {
        let started = counted_nodes(&self.tree, &self.searchmoves) + u64::from(in_flight);
        let left = self.visit_limit.saturating_sub(started);
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// Whether the user wants this root move searched.
    pub(crate) fn is_searched(&self, m: PackedMove) -> bool {
        self.searchmoves.is_empty() || self.searchmoves.contains(&m)
    }

    /// The first legal root move that the user allows: the best move if the search has failed or has no results.
    pub(crate) fn any_searched_move(&self) -> Option<Move> {
        let moves = self.history.last().legal_moves();
        moves.into_iter().find(|&m| self.is_searched(PackedMove::new(m)))
    }

    /// The value of a draw to the side to move at the root.
    pub(crate) fn root_draw_score(&self) -> f32 {
        self.params.draw_score_for(self.history.last().side_to_move())
    }

    /// The searched root link with the most visits, and its visits.
    pub(crate) fn most_visited_root_link(&self) -> Option<(LinkId, u32)> {
        let mut best: Option<(LinkId, u32)> = None;
        for (id, link) in self.tree.links(self.root()) {
            let visits = link.visits();
            if visits > 0
                && self.is_searched(link.edge().packed_move())
                && best.is_none_or(|(_, most)| visits > most)
            {
                best = Some((id, visits));
            }
        }
        best
    }

    /// The value that selection assumes for an untried root move.
    pub(crate) fn root_first_play_urgency(&self) -> f32 {
        let parent_q = select::utility(self.root_sample(), self.root_draw_score());
        select::first_play_urgency(&self.params, parent_q, self.root_visited_policy(), true)
    }

    /// The sum of the priors of the root's visited moves, among those that are searched.
    pub(crate) fn root_visited_policy(&self) -> f32 {
        (self.tree.links(self.root()))
            .filter(|(_, link)| link.visits() > 0 && self.is_searched(link.edge().packed_move()))
            .map(|(_, link)| {
                select::prior_of(link.edge(), link.child().and_then(|id| self.tree.node(id).outcome()))
            })
            // An empty `sum` is -0, and would be shown with its sign.
            .fold(0.0, |sum, prior| sum + prior)
    }

    /// [`select::exploration`] of a node. If the options ask for it, the result is scaled by the uncertainty of the
    /// node's values.
    #[inline]
    pub(crate) fn exploration(&self, id: NodeId, is_root: bool) -> f32 {
        let visits = if is_root { self.root_visits() } else { self.tree.node(id).visits() };
        let plain = match self.explorations.get(visits as usize) {
            Some(&known) if !is_root => known,
            _ => select::exploration(&self.params, visits, is_root),
        };
        if self.scales_cpuct { plain * self.cpuct_factor(id) } else { plain }
    }

    #[cold]
    #[inline(never)]
    fn cpuct_factor(&self, id: NodeId) -> f32 {
        let visits = self.tree.node(id).visits();
        self.params.uncertainty.cpuct_factor(self.tree.extra_statistics(id), visits)
    }
}

/// The visits in `tree` that count for a search of `searchmoves`, in the sense of its limits: those of the root if all
/// moves are searched (`searchmoves` is empty), and otherwise those below `searchmoves`.
pub fn counted_nodes(tree: &Tree, searchmoves: &[PackedMove]) -> u64 {
    match searchmoves.is_empty() {
        true => u64::from(tree.node(tree.root()).visits()),
        false => visits_below(tree, searchmoves),
    }
}

/// The visits through those links of the root that have one of `moves`.
fn visits_below(tree: &Tree, moves: &[PackedMove]) -> u64 {
    (tree.links(tree.node(tree.root())))
        .filter(|(_, link)| moves.contains(&link.edge().packed_move()))
        .map(|(_, link)| u64::from(link.visits()))
        .sum()
}
