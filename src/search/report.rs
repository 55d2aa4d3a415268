//! What the search tells: info lines, the statistics of all moves, and the best move.

use super::best::RankedChild;
use super::info::{self, BestMove, Score, ScoreInputs, ThinkingInfo, WdlView};
use super::mate::mating_move;
use super::shared::Control;
use super::{Shared, select};
use crate::backend::EvalRequest;
use crate::chess::{Move, PackedMove, Position, PositionHistory, uci_move};
use crate::net::policy_index;
use crate::sync::atomic::Ordering;
use crate::tree::{Bounds, Node, NodeId, Outcome, TerminalKind};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// A line comes at least this often.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);
/// Longest line of play that is shown.
const LONGEST_PV: usize = 200;

/// What was last told, so that nothing is told twice.
#[derive(Clone, Debug, Default)]
pub(super) struct LastReport {
    best: Option<PackedMove>,
    depth: u32,
    seldepth: u32,
    at: Option<Instant>,
}

impl Shared {
    /// Tells the state of the search if something important has changed.
    pub(super) fn report_if_changed(&self, control: &mut Control) {
        if control.has_responded || self.root().visits() == 0 {
            return;
        }
        let last = &control.last_report;
        let is_news = self.counters.average_depth() != last.depth
            || self.counters.seldepth.load(Ordering::Relaxed) != last.seldepth
            || last.at.is_none_or(|at| at.elapsed() >= LONGEST_SILENCE)
            || self.best_root_move() != last.best;
        if is_news {
            self.report(control, &self.ranked_root_moves());
            if self.params.log_live_stats {
                self.report_move_statistics();
            }
        }
    }

    /// Tells the best lines.
    fn report(&self, control: &mut Control, ranked: &[RankedChild]) {
        let now = Instant::now();
        let playouts = self.counters.playouts.load(Ordering::Relaxed);
        let searching = control.first_batch.map_or(0, |first| now.duration_since(first).as_millis() as u64);
        let rate = |count: u64| (searching > 0).then(|| count * 1000 / searching);
        let common = ThinkingInfo {
            depth: Some(self.counters.average_depth()),
            seldepth: Some(self.counters.seldepth.load(Ordering::Relaxed)),
            time_ms: Some(now.duration_since(control.start).as_millis() as u64),
            nodes: Some(playouts + self.initial_visits),
            nps: rate(playouts),
            eps: rate(self.counters.network_evaluations.load(Ordering::Relaxed)),
            tb_hits: Some(self.counters.tablebase_hits.load(Ordering::Relaxed)),
            ..ThinkingInfo::default()
        };
        let lines: Vec<ThinkingInfo> = (ranked.iter().take(self.params.multi_pv).enumerate())
            .map(|(rank, child)| self.line(common.clone(), rank, child))
            .collect();
        control.last_report = LastReport {
            best: ranked.first().map(RankedChild::packed_move),
            depth: common.depth.unwrap_or_default(),
            seldepth: common.seldepth.unwrap_or_default(),
            at: Some(now),
        };
        self.responder.thinking(&lines);
    }

    /// One line: the root move `child` and what is expected after it.
    fn line(&self, common: ThinkingInfo, rank: usize, child: &RankedChild) -> ThinkingInfo {
        let root = self.root().sample();
        let draw_score = self.params.draw_score_for(self.history.last().side_to_move());
        // An untried move shows the root's own value.
        let (wl, d, m) = if child.visits > 0 {
            (child.sample.wl, child.sample.d, child.sample.m)
        } else {
            (root.wl, root.d, root.m + 1.0)
        };
        let (shown_wl, shown_d, mu) = self.wdl_view().convert(wl, d);
        let score = match child.proven {
            Some((result, from_tablebase)) if result != 0 => {
                Score::Mate(info::mate_in(f32::from(result), m, from_tablebase))
            }
            _ => Score::Cp(info::score(
                self.score_type,
                ScoreInputs {
                    wl: shown_wl,
                    d: shown_d,
                    q: wl + draw_score * d,
                    mu,
                    has_wdl: self.params.has_wdl,
                },
            )),
        };
        ThinkingInfo {
            nodes: if self.params.per_pv_counters { Some(u64::from(child.visits)) } else { common.nodes },
            score: Some(score),
            wdl: Some(info::wdl_permille(shown_wl, shown_d)),
            moves_left: self.params.has_moves_left.then_some(((1.0 + m) / 2.0) as u32),
            multipv: (self.params.multi_pv > 1).then_some(rank as u32 + 1),
            pv: self.principal_variation(child),
            ..common
        }
    }

    /// How values at the root are shown: without what contempt and calibration did to them.
    fn wdl_view(&self) -> WdlView {
        let rescale = &self.params.wdl_rescale;
        WdlView {
            ratio: rescale.ratio,
            diff: rescale.diff * self.params.wdl_eval_objectivity,
            for_side_to_move: rescale.side == Some(self.history.last().side_to_move()),
            max_s: rescale.max_s,
        }
    }

    fn principal_variation(&self, child: &RankedChild) -> Vec<Move> {
        let mut position = self.history.last().clone();
        let mut moves = Vec::new();
        let mut next = Some((child.packed_move(), child.node));
        while let Some((packed, node)) = next
            && moves.len() < LONGEST_PV
        {
            let m = packed.unpack(&position);
            position = position.play(m);
            moves.push(m);
            let node = node.filter(|_| !self.is_recycling());
            next = node.and_then(|id| self.best_child(id, &position));
            if next.is_none() && node.is_some_and(|id| self.mates_at_once(id)) {
                moves.extend(mating_move(&position));
            }
        }
        moves
    }

    /// Whether the next move mates, though no child says so.
    fn mates_at_once(&self, id: NodeId) -> bool {
        let mate = Outcome { result: 1, plies: 1, kind: TerminalKind::EndOfGame };
        self.tree.node(id).outcome() == Some(mate)
    }

    fn best_child(&self, id: NodeId, position: &Position) -> Option<(PackedMove, Option<NodeId>)> {
        let node = self.tree.node(id);
        if node.visits() == 0 {
            return None;
        }
        self.ranked_children(node, position).first().map(|best| (best.packed_move(), best.node))
    }

    /// Ends the search for the outside: last info, statistics, best move. The workers may still be busy.
    pub(super) fn respond(&self, control: &mut Control) {
        let ranked = self.ranked_root_moves();
        let best = if ranked.is_empty() {
            // Nothing was evaluated in time: any legal move is better than none.
            BestMove { best: self.any_legal_move(), ponder: None }
        } else {
            self.report(control, &ranked);
            self.report_move_statistics();
            // From the same ranking as the line above: the workers may be changing the tree.
            self.best_move(&ranked)
        };
        let stats = self.iteration_stats(control);
        control.stopper.on_search_done(&stats);
        control.has_responded = true;
        self.responder.best_move(&best);
        self.notify_control();
    }

    fn best_move(&self, ranked: &[RankedChild]) -> BestMove {
        let (best, ponder) = self.best_moves(ranked);
        let position = self.history.last();
        let Some(best) = best.map(|packed| packed.unpack(position)) else {
            return BestMove { best: self.any_legal_move(), ponder: None };
        };
        let next = position.play(best);
        BestMove { best: Some(best), ponder: ponder.map(|packed| packed.unpack(&next)) }
    }

    pub(super) fn any_legal_move(&self) -> Option<Move> {
        let allowed =
            |m: &Move| self.searchmoves.is_empty() || self.searchmoves.contains(&PackedMove::new(*m));
        self.history.last().legal_moves().into_iter().find(allowed)
    }

    /// A line for each root move, the best last, then one for the root: to the GUI with `VerboseMoveStats`, else to the
    /// log if there is one, as lc0 does.
    fn report_move_statistics(&self) {
        if !self.params.verbose_move_stats {
            if self.responder.takes_notes() {
                self.move_statistics().iter().for_each(|line| self.responder.note(line));
            }
            return;
        }
        let lines: Vec<ThinkingInfo> = (self.move_statistics().into_iter())
            .map(|comment| ThinkingInfo { comment, ..ThinkingInfo::default() })
            .collect();
        self.responder.thinking(&lines);
    }

    fn move_statistics(&self) -> Vec<String> {
        let root = self.root();
        let position = self.history.last();
        let side = position.side_to_move();
        let draw_score = self.params.draw_score_for(side);
        let fpu = self.root_first_play_urgency();
        let exploration = self.exploration(self.tree.root(), true);
        let valuation = select::Valuation::new(&self.params, root.sample(), draw_score);
        let mut rows: Vec<(u32, f32, String)> = Vec::new();
        let mut history = self.history.clone();
        for (_, link) in self.tree.links(root) {
            let child = link.child().map(|id| self.tree.node(id));
            let (visits, in_flight) = (link.visits(), link.in_flight());
            let prior = select::prior_of(link.edge(), child.and_then(Node::outcome));
            let u = prior * exploration / (1.0 + (visits + in_flight) as f32);
            let visited = child.filter(|_| visits > 0).map(|child| child.sample());
            let (q, m_bonus) = visited.map_or((fpu, 0.0), |sample| valuation.parts(sample));
            let m = link.edge().packed_move();
            let mut line = format!(
                "{:<5} ({:<4}) ",
                uci_move::text(m.unpack(position), true),
                policy_index::index_of(m, side, 0)
            );
            write_counts(&mut line, visits, in_flight, prior);
            match visited {
                Some(sample) => self.write_value(&mut line, -sample.wl, sample.d, sample.m, draw_score),
                None => {
                    let _ = write!(line, "(WL:  -.-----) (D: -.---) (M:  -.-) (Q: {fpu:>8.5}) ");
                }
            }
            let _ = write!(line, "(U: {u:>6.5}) (S: {:>8.5}) ", q + u + m_bonus);
            let own_value = child.and_then(|child| {
                history.push(m.unpack(position));
                let value = self.own_value(child, &history);
                history.pop();
                value.map(|value| -value)
            });
            write_own_value(&mut line, own_value);
            if let Some(child) = child {
                line.push_str(bounds_mark(child.bounds().flipped()));
            }
            rows.push((visits, q + u, line));
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut lines: Vec<String> = rows.into_iter().map(|(_, _, line)| line).collect();
        lines.push(self.root_statistics(draw_score));
        lines
    }

    /// A value of the root side's, as it is shown.
    fn write_value(&self, line: &mut String, wl: f32, d: f32, m: f32, draw_score: f32) {
        let (wl, d) = match self.params.wdl_rescale.is_active() {
            true => {
                let (wl, d, _) = self.wdl_view().convert(wl, d);
                (wl, d)
            }
            false => (wl, d),
        };
        let q = wl + draw_score * d;
        let _ = write!(line, "(WL: {wl:>8.5}) (D: {d:>5.3}) (M: {m:>4.1}) (Q: {q:>8.5}) ");
    }

    fn root_statistics(&self, draw_score: f32) -> String {
        let root = self.root();
        let edge_count = root.edge_count();
        let in_flight = self.root_in_flight.load(Ordering::Relaxed);
        let mut line = format!("node  ({edge_count:>4}) ");
        write_counts(&mut line, root.visits(), in_flight, self.root_visited_policy());
        let sample = root.sample();
        self.write_value(&mut line, sample.wl, sample.d, sample.m, draw_score);
        write_own_value(&mut line, self.own_value(root, &self.history));
        line.push_str(bounds_mark(root.bounds()));
        line
    }

    /// The backend's own value of a node, the last position of `history`, in its view; from the cache only.
    fn own_value(&self, node: &Node, history: &PositionHistory) -> Option<f32> {
        if let Some(outcome) = node.outcome() {
            return Some(f32::from(outcome.result));
        }
        let moves: Vec<PackedMove> = legal_moves(history.last());
        self.backend.cached(EvalRequest { history, moves: &moves }).map(|found| found.value.q)
    }
}

fn legal_moves(position: &Position) -> Vec<PackedMove> {
    position.legal_moves().iter().map(|&m| PackedMove::new(m)).collect()
}

fn write_counts(line: &mut String, visits: u32, in_flight: u32, prior: f32) {
    let decimals = if prior >= 0.999_95 { 1 } else { 2 };
    let percent = prior * 100.0;
    // Writing to a string cannot fail.
    let _ = write!(line, "N: {visits:>7} (+{in_flight:>2}) (P: {percent:>5.decimals$}%) ");
}

fn write_own_value(line: &mut String, value: Option<f32>) {
    let _ = match value {
        Some(value) => write!(line, "(V: {value:>7.4}) "),
        None => write!(line, "(V:  -.----) "),
    };
}

/// What is proven, from the root side's view: T exact, W cannot lose, L cannot win.
fn bounds_mark(bounds: Bounds) -> &'static str {
    match (bounds.lower, bounds.upper) {
        (lower, upper) if lower == upper => "(T) ",
        (0, 1) => "(W) ",
        (-1, 0) => "(L) ",
        _ => "",
    }
}
