//! Probes the tablebases at the root. The result decides which root moves are searched, and may give a certain score.

use super::known_root::{KnownRoot, mating_moves};
use rukh_base::sync::Arc;
use rukh_chess::tablebase::{Outlook, Tablebases};
use rukh_chess::{PackedMove, PositionHistory};
use rukh_options::Options;
use rukh_search::Responder;

/// The tables of the option `SyzygyPath`, opened when the first search needs them.
#[derive(Default)]
pub(super) struct RootTablebases {
    /// The value of `SyzygyPath` that `tables` were opened from.
    path: String,
    /// `None` if the path is empty or the tables cannot be opened.
    tables: Option<Arc<Tablebases>>,
    /// The number of faults of tables that the user was told.
    reported_faults: usize,
}

/// The results of the tablebases for a search.
pub struct RootProbe {
    /// The root moves to search; empty means all.
    pub searchmoves: Vec<PackedMove>,
    /// The tables to probe at the leaves; `None` if the leaves are not probed.
    pub tablebases: Option<Arc<Tablebases>>,
    /// The number of probes at the root.
    pub tablebase_hits: u64,
    /// The root's result, if the tables know it.
    pub known: Option<KnownRoot>,
}

impl RootProbe {
    /// The result without tablebases.
    pub(super) fn none(searchmoves: Vec<PackedMove>) -> RootProbe {
        RootProbe { searchmoves, tablebases: None, tablebase_hits: 0, known: None }
    }

    /// Probes `tables`, if there are any, for the last position of `history`. Unless the user chose `searchmoves`, only the
    /// root moves that keep the best result are searched; of the wins, with `fast_play` only the fastest.
    ///
    /// If the moves are ranked by distance to zeroing, the leaves are not probed: every leaf would be a win, and only
    /// the network can tell which way leads to mate.
    pub fn of(
        tables: Option<&Arc<Tablebases>>,
        history: &PositionHistory,
        searchmoves: Vec<PackedMove>,
        fast_play: bool,
    ) -> RootProbe {
        let mut probe = RootProbe { tablebases: tables.cloned(), ..RootProbe::none(searchmoves) };
        if let Some(tables) = tables
            && probe.searchmoves.is_empty()
            && let Some(root) = tables.root_moves(history, fast_play)
        {
            probe.searchmoves = root.best;
            probe.tablebase_hits = 1;
            if root.by_distance {
                probe.tablebases = None;
                probe.known = match root.outlook {
                    Outlook::Win => Some(KnownRoot::Won),
                    Outlook::Draw => Some(KnownRoot::Drawn),
                    // A move that wins by the tables may draw by a third occurrence.
                    Outlook::Open => {
                        KnownRoot::look_up(tables, history).filter(|known| *known != KnownRoot::Won)
                    }
                };
                let mates = mating_moves(history, &probe.searchmoves);
                if !mates.is_empty() {
                    probe.searchmoves = mates;
                    probe.known = Some(KnownRoot::Mate);
                }
            }
        }
        probe
    }
}

impl RootTablebases {
    /// Probes the last position of `history` ([`RootProbe::of`]).
    pub(super) fn probe(
        &mut self,
        options: &Options,
        history: &PositionHistory,
        searchmoves: Vec<PackedMove>,
        responder: &dyn Responder,
    ) -> RootProbe {
        self.open(&options.syzygy_paths, responder);
        let probe = RootProbe::of(self.tables.as_ref(), history, searchmoves, options.syzygy_fast_play);
        self.report_faults(responder);
        probe
    }

    /// Tells the user once of each table that could not be read, at the root or at a leaf of an earlier search.
    fn report_faults(&mut self, responder: &dyn Responder) {
        let Some(tables) = &self.tables else { return };
        for fault in tables.faults(self.reported_faults) {
            responder.message(&format!("error: SyzygyPath: {fault}"));
            self.reported_faults += 1;
        }
    }

    /// Opens the tables of `path`, unless they are open already.
    fn open(&mut self, path: &str, responder: &dyn Responder) {
        if self.path == path {
            return;
        }
        path.clone_into(&mut self.path);
        self.tables = None;
        self.reported_faults = 0;
        if path.is_empty() {
            return;
        }
        match Tablebases::open(path) {
            Ok(tables) => {
                let (files, pieces) = (tables.files(), tables.max_pieces());
                responder.message(&format!("found {files} tablebase files with up to {pieces} pieces"));
                self.tables = Some(Arc::new(tables));
            }
            Err(error) => responder.message(&format!("error: {error}")),
        }
    }
}
