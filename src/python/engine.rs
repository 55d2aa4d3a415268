//! `Engine`: searches.

use crate::errors::exception;
use crate::network::Network;
use crate::process::{OfProcess, SIGNAL_INTERVAL};
use librukh::shakmaty_0_30::Move;
use librukh::{Clock, EngineOptions, Limits, Position, Score, Stopper};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rukh_chess::uci_move;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Searches one position at a time with a network.
#[pyclass(module = "rukh._native")]
pub(crate) struct Engine {
    inner: OfProcess<librukh::Engine>,
}

/// A limit of a search: nodes, seconds, depth, mate; the clocks of White and Black, their increments, and the moves to the
/// next time control.
type Limit = (Option<u64>, Option<f64>, Option<u32>, Option<u32>, Option<(f64, f64, f64, f64, Option<u32>)>);

/// What a search has found: rank, depth, deepest, nodes, nodes per second, seconds; centipawns or else moves to a mate;
/// win, draw and loss; moves left, tablebase hits, and the line.
type Found = (
    (u32, u32, u32, u64, u64, f64),
    (Option<i32>, Option<i32>),
    Option<[f32; 3]>,
    (Option<u32>, u64),
    Vec<String>,
);

#[pymethods]
impl Engine {
    #[new]
    fn new(
        py: Python<'_>,
        network: &Network,
        backend: &str,
        options: Vec<(String, String)>,
    ) -> PyResult<Engine> {
        let mut all = EngineOptions::on(backend);
        all.uci = options;
        let engine = py.detach(|| librukh::Engine::new(&network.library, &all)).map_err(exception)?;
        Ok(Engine { inner: OfProcess::new("Engine", engine) })
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(self.inner.cannot_be_pickled())
    }

    fn set_option(&mut self, py: Python<'_>, name: &str, value: &str) -> PyResult<()> {
        let engine = self.inner.get_mut()?;
        py.detach(|| engine.set_option(name, value)).map_err(exception)
    }

    fn new_game(&mut self) -> PyResult<()> {
        self.inner.get_mut()?.new_game();
        Ok(())
    }

    /// Begins a search after moves in UCI's notation.
    fn analyse(
        &mut self,
        fen: &str,
        moves: Vec<String>,
        limit: Limit,
        root_moves: Vec<String>,
        is_chess960: bool,
    ) -> PyResult<Analysis> {
        let engine = self.inner.get_mut()?;
        let mut position = Position::from_fen(fen).map_err(exception)?;
        for m in &moves {
            position.play(m).map_err(exception)?;
        }
        let current = rukh_chess::Position::from_fen(&position.fen());
        let current = current.map_err(|error| exception(librukh::Error::Fen(error.to_string())))?;
        let parse = |m: &String| {
            uci_move::parse(&current, m).map_err(|error| exception(librukh::Error::Move(error.to_string())))
        };
        let mut limits = limits(limit);
        limits.moves = root_moves.iter().map(parse).collect::<PyResult<Vec<Move>>>()?;
        let analysis = engine.analyse(&position, &limits);
        let stopper = analysis.stopper();
        let inner = OfProcess::new("search", Mutex::new(Some(analysis)));
        Ok(Analysis { inner, stopper, is_chess960 })
    }
}

fn limits((nodes, time, depth, mate, clock): Limit) -> Limits {
    // More than a century is as good as no limit.
    let seconds = |seconds: f64| Duration::from_secs_f64(if seconds > 0.0 { seconds.min(4e9) } else { 0.0 });
    let mut limits = Limits::default();
    (limits.nodes, limits.time, limits.depth, limits.mate) = (nodes, time.map(seconds), depth, mate);
    limits.clock = clock.map(|(white, black, white_increment, black_increment, moves)| Clock {
        left: [white, black].map(seconds),
        increments: [white_increment, black_increment].map(seconds),
        moves,
    });
    limits
}

/// A search that is under way or has ended.
#[pyclass(frozen, module = "rukh._native")]
pub(crate) struct Analysis {
    /// `None` after the best move.
    inner: OfProcess<Mutex<Option<librukh::Analysis>>>,
    stopper: Stopper,
    is_chess960: bool,
}

#[pymethods]
impl Analysis {
    fn stop(&self) {
        self.stopper.stop();
    }

    /// The next information; `None` after the end. Ctrl+C stops the search.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Found>> {
        let inner = self.inner.get()?;
        // Outside is `None` as long as there is no answer, inside after the end.
        let ask = || {
            let mut analysis = inner.lock().unwrap_or_else(PoisonError::into_inner);
            let ask =
                |analysis: &mut librukh::Analysis| analysis.wait(SIGNAL_INTERVAL).then(|| analysis.next());
            analysis.as_mut().map_or(Some(None), ask)
        };
        let info = loop {
            match py.detach(ask) {
                Some(info) => break info,
                None => py.check_signals().inspect_err(|_| self.stopper.stop())?,
            }
        };
        Ok(info.map(|info| {
            let (centipawns, mate) = match info.score {
                Some(Score::Centipawns(centipawns)) => (Some(centipawns), None),
                Some(Score::Mate(moves)) => (None, Some(moves)),
                None => (None, None),
            };
            let line = info.line.iter().map(|&m| uci_move::text(m, self.is_chess960)).collect();
            let time = info.time.as_secs_f64();
            (
                (info.rank, info.depth, info.deepest, info.nodes, info.nodes_per_second, time),
                (centipawns, mate),
                info.wdl,
                (info.moves_left, info.tablebase_hits),
                line,
            )
        }))
    }

    /// Waits for the end, and returns the best move.
    fn best_move(&self, py: Python<'_>) -> PyResult<Option<String>> {
        while self.next(py)?.is_some() {}
        let inner = self.inner.get()?;
        let analysis = inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        let analysis =
            analysis.ok_or_else(|| PyRuntimeError::new_err("the best move was already returned"))?;
        let best = analysis.best_move().map_err(exception)?;
        Ok(best.map(|m| uci_move::text(m, self.is_chess960)))
    }
}
