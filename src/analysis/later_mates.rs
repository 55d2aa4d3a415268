//! Mates that only the search of a later position has found.
//!
//! Each position of a game is searched by itself. The move that was played may lead to a mate which the search of the
//! position before it has missed: then it is the best move there, whatever that search says. Without this, the first
//! move of a famous combination would be a blunder.

use super::document::Document;
use super::report::{Analysis, Line, LineScore, Results};
use std::borrow::Cow;

/// The results, with each mate that the played moves lead to.
pub(super) fn with_later_mates<'a>(document: &Document, results: &'a Results) -> Cow<'a, Results> {
    let mut settled = Cow::Borrowed(results);
    // From the end, so that a mate goes back as far as the winner's moves lead to it.
    for index in (0..document.moves.len()).rev() {
        let Some(played) = document.played(index) else { continue };
        let found = settled.get(&index).zip(settled.get(&(index + 1)));
        if let Some(mate) = found.and_then(|(before, after)| mate_by(played, before, after)) {
            let before = settled.to_mut().entry(index).or_default();
            let count = before.lines.len();
            before.lines.retain(|line| line.pv.first() != mate.pv.first());
            before.lines.insert(0, mate);
            before.lines.truncate(count);
        }
    }
    settled
}

/// Whether the reply that the search of this position thinks best was played and turned out to lose by a mate. What the
/// search says about the position is then worth nothing.
pub(super) fn reply_is_mated(document: &Document, results: &Results, index: usize) -> bool {
    let best = results.get(&index).and_then(|analysis| analysis.lines.first()?.pv.first());
    let after = results.get(&(index + 1)).and_then(Analysis::score);
    best.is_some() && best == document.played(index).as_ref() && matches!(after, Some(LineScore::Mate(1..)))
}

/// The line that begins with `played` and mates, unless the search has found a mate that is as short.
fn mate_by(played: String, before: &Analysis, after: &Analysis) -> Option<Line> {
    let LineScore::Mate(mated @ ..=0) = after.score()? else { return None };
    let moves = 1 - mated;
    if matches!(before.score()?, LineScore::Mate(known) if (1..=moves).contains(&known)) {
        return None;
    }
    let searched = before.lines.iter().find(|line| line.pv.first() == Some(&played));
    let rest = after.lines.first().map_or(&[][..], |line| &line.pv);
    Some(Line {
        score: LineScore::Mate(moves),
        wdl: [1000, 0, 0],
        visits: searched.map_or(0, |line| line.visits),
        moves_left: None,
        prior: searched.and_then(|line| line.prior),
        pv: std::iter::once(played).chain(rest.iter().cloned()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::annotate::loss;
    use super::super::document::Selection;
    use super::super::report::End;
    use super::*;

    fn thinks(score: i32, win: u16, pv: &str) -> Analysis {
        let line = Line {
            score: LineScore::Cp(score),
            wdl: [win, 1000 - win, 0],
            visits: 5,
            moves_left: None,
            pv: vec![pv.to_owned()],
            prior: None,
        };
        Analysis { nodes: 5, depth: 2, lines: vec![line], ..Analysis::default() }
    }

    /// No search sees the mate. Only White's mistake, 2. g4, is also the move that its search prefers.
    #[test]
    fn a_mate_that_was_played_goes_back_to_the_move_that_began_it() {
        let document = Document::of_game(b"1. f3 e5 2. g4 Qh4# 0-1", &Selection::default()).unwrap();
        let mated = Analysis { end: Some(End::Checkmate), ..Analysis::default() };
        let searched = [
            thinks(0, 100, "e2e4"),
            thinks(0, 500, "d7d5"),
            thinks(50, 900, "g2g4"),
            thinks(10, 200, "b8c6"),
        ];
        let results: Results = searched.into_iter().chain([mated]).enumerate().collect();
        let settled = with_later_mates(&document, &results);
        assert_eq!(settled[&3].lines.len(), 1);
        assert_eq!(
            (settled[&3].score(), &*settled[&3].lines[0].pv),
            (Some(LineScore::Mate(1)), &["d8h4".to_owned()][..])
        );
        assert_eq!(settled[&2], results[&2], "another move may not lose");
        // What 1... e5 was thought to cost was wrong, and 2. g4 loses all that White had.
        assert!(loss(&document, &results, 1).unwrap() > 0.3);
        assert_eq!(loss(&document, &settled, 1), Some(0.0));
        assert_eq!(loss(&document, &settled, 3), Some(0.0));
    }

    #[test]
    fn a_mate_that_the_search_knows_stays() {
        let document = Document::of_game(b"1. f3 e5 2. g4 Qh4# 0-1", &Selection::default()).unwrap();
        let mut known = thinks(0, 1000, "d8h4");
        known.lines[0].score = LineScore::Mate(1);
        let mated = Analysis { end: Some(End::Checkmate), ..Analysis::default() };
        let results = Results::from([(3, known), (4, mated)]);
        assert!(matches!(with_later_mates(&document, &results), Cow::Borrowed(_)));
    }
}
