//! `info` and `bestmove` lines, with the fields in lc0's order.

use rukh_chess::{Move, uci_move};
use rukh_options::Options;
use rukh_search::info::{BestMove, Score, ThinkingInfo};
use std::fmt::{Display, Write};

/// The settings for the fields that are shown and for the notation of moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shown {
    /// Whether castling is written as king takes rook (`UCI_Chess960`).
    pub chess960: bool,
    /// Whether win, draw and loss are shown (`UCI_ShowWDL`).
    pub wdl: bool,
    /// Whether evaluations per second are shown (`UCI_ShowEPS`).
    pub eps: bool,
    /// Whether the moves left are shown (`UCI_ShowMovesLeft`).
    pub moves_left: bool,
}

impl Shown {
    /// The settings in `options`.
    pub(crate) fn of(options: &Options) -> Shown {
        Shown {
            chess960: options.chess960,
            wdl: options.show_wdl,
            eps: options.show_eps,
            moves_left: options.show_movesleft,
        }
    }
}

pub(crate) fn info_line(info: &ThinkingInfo, shown: Shown) -> String {
    let mut line = "info".to_owned();
    // Some GUIs take depth 0 to mean that there was no search.
    push(&mut line, "depth", info.depth.map(|depth| depth.max(1)));
    push(&mut line, "seldepth", info.seldepth);
    push(&mut line, "time", info.time_ms);
    push(&mut line, "nodes", info.nodes);
    match info.score {
        Some(Score::Cp(score)) => push(&mut line, "score cp", Some(score)),
        Some(Score::Mate(moves)) => push(&mut line, "score mate", Some(moves)),
        None => {}
    }
    let wdl = info.wdl.map(|[win, draw, loss]| format!("{win} {draw} {loss}"));
    push(&mut line, "wdl", wdl.filter(|_| shown.wdl));
    push(&mut line, "movesleft", info.moves_left.filter(|_| shown.moves_left));
    push(&mut line, "hashfull", info.hashfull);
    push(&mut line, "nps", info.nps);
    push(&mut line, "eps", info.eps.filter(|_| shown.eps));
    push(&mut line, "tbhits", info.tb_hits);
    push(&mut line, "multipv", info.multipv);
    if !info.pv.is_empty() {
        line.push_str(" pv");
        for &m in &info.pv {
            line.push(' ');
            line.push_str(&uci_move::text(m, shown.chess960));
        }
    }
    if !info.comment.is_empty() {
        line.push_str(" string ");
        line.push_str(&info.comment);
    }
    line
}

/// The `bestmove` line. Without a legal move it is `bestmove 0000`, the protocol's null move: every `go` needs an
/// answer, and lc0's answer (`a1a1`) looks like a move.
pub(crate) fn best_move_line(best: &BestMove, shown: Shown) -> String {
    let text = |m: Move| uci_move::text(m, shown.chess960);
    let mut line = format!("bestmove {}", best.best.map_or_else(|| "0000".to_owned(), text));
    push(&mut line, "ponder", best.ponder.map(text));
    line
}

fn push(line: &mut String, name: &str, value: Option<impl Display>) {
    if let Some(value) = value {
        // Writing to a string cannot fail.
        let _ = write!(line, " {name} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_chess::{Position, PositionHistory};

    fn moves(texts: &[&str]) -> Vec<Move> {
        let mut history = PositionHistory::new(Position::startpos());
        let mut moves = Vec::new();
        for text in texts {
            let m = uci_move::parse(history.last(), text).unwrap();
            history.push(m);
            moves.push(m);
        }
        moves
    }

    /// The first expected line is one that lc0 printed.
    #[test]
    fn info_is_as_lc0_prints_it() {
        let info = ThinkingInfo {
            depth: Some(2),
            seldepth: Some(4),
            time_ms: Some(32),
            nodes: Some(11),
            score: Some(Score::Cp(57)),
            nps: Some(407),
            tb_hits: Some(0),
            pv: moves(&["e2e4", "c7c5", "g1f3", "d7d6"]),
            wdl: Some([300, 500, 200]),
            eps: Some(390),
            moves_left: Some(61),
            ..ThinkingInfo::default()
        };
        assert_eq!(
            info_line(&info, Shown::default()),
            "info depth 2 seldepth 4 time 32 nodes 11 score cp 57 nps 407 tbhits 0 pv e2e4 c7c5 g1f3 d7d6"
        );
        let all = Shown { wdl: true, eps: true, moves_left: true, chess960: true };
        let rest =
            ThinkingInfo { hashfull: Some(12), multipv: Some(1), score: Some(Score::Mate(-3)), ..info };
        assert_eq!(
            info_line(&rest, all),
            "info depth 2 seldepth 4 time 32 nodes 11 score mate -3 wdl 300 500 200 movesleft 61 hashfull 12 \
             nps 407 eps 390 tbhits 0 multipv 1 pv e2e4 c7c5 g1f3 d7d6"
        );
    }

    #[test]
    fn depth_is_never_zero() {
        let info = ThinkingInfo { depth: Some(0), comment: "hello".to_owned(), ..ThinkingInfo::default() };
        assert_eq!(info_line(&info, Shown::default()), "info depth 1 string hello");
    }

    #[test]
    fn castling_is_written_both_ways() {
        let line = moves(&["e2e4", "e7e5", "g1f3", "b8c6", "f1c4", "g8f6", "e1g1", "f8e7"]);
        let best = BestMove { best: Some(line[6]), ponder: Some(line[7]) };
        assert_eq!(best_move_line(&best, Shown::default()), "bestmove e1g1 ponder f8e7");
        let chess960 = Shown { chess960: true, ..Shown::default() };
        assert_eq!(best_move_line(&best, chess960), "bestmove e1h1 ponder f8e7");
    }

    #[test]
    fn no_move_is_the_null_move() {
        assert_eq!(best_move_line(&BestMove { best: None, ponder: None }, Shown::default()), "bestmove 0000");
    }
}
