//! Shows on stderr how far an analysis is.

use crate::analysis::accuracy::Accuracy;
use crate::analysis::batch::Progress;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The number of characters of the bar.
const BAR_WIDTH: usize = 20;

/// If stderr is not a terminal, there is a line for each of these intervals.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// The line at the bottom of the terminal.
pub(super) struct ProgressBar {
    is_terminal: bool,
    last_line: Instant,
    searches: usize,
}

impl ProgressBar {
    /// `searches` run at once.
    pub(super) fn new(searches: usize) -> ProgressBar {
        let is_terminal = std::io::stderr().is_terminal();
        ProgressBar { is_terminal, last_line: Instant::now(), searches }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        let text = line(progress, self.searches);
        if self.is_terminal {
            write(&format!("\r\x1b[K{text}"));
        } else if self.last_line.elapsed() >= LINE_INTERVAL {
            self.last_line = Instant::now();
            write(&format!("{text}\n"));
        }
    }

    /// Shows a message above the bar.
    pub(super) fn message(&mut self, text: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        write(&format!("{clear}{text}\n"));
    }

    /// Removes the bar.
    pub(super) fn end(&mut self) {
        if self.is_terminal {
            write("\r\x1b[K");
        }
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr();
    // A closed stderr is no reason to stop.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// The bar with its figures.
fn line(progress: &Progress, searches: usize) -> String {
    let mut text = String::new();
    if let Some(left) = progress.positions_left {
        let share = progress.positions as f64 / (progress.positions + left).max(1) as f64;
        let full = (share * BAR_WIDTH as f64) as usize;
        // Writing to a string cannot fail.
        let _ = write!(text, "[{:-<BAR_WIDTH$}] {:3.0} %  ", "#".repeat(full), 100.0 * share);
    }
    text.push_str(&figures(progress));
    if let Some(left) = progress.positions_left.filter(|_| progress.positions > 0) {
        let seconds = left as f64 * progress.elapsed.as_secs_f64() / progress.positions as f64;
        let _ = write!(text, ", {} left", duration(seconds));
    }
    let _ = write!(text, "  ({searches} searches)");
    text
}

fn figures(progress: &Progress) -> String {
    let seconds = progress.elapsed.as_secs_f64().max(1e-3);
    let mut text =
        format!("{} positions, {:.1} positions/s", progress.positions, progress.positions as f64 / seconds);
    if let Some(evaluated) = progress.evaluated {
        let _ = write!(text, ", {:.0} evaluations/s", evaluated.positions as f64 / seconds);
    }
    text
}

/// The figures at the end.
pub(super) fn summary(progress: &Progress) -> String {
    let mut text = format!(
        "{} games and lines in {}: {}",
        progress.documents,
        duration(progress.elapsed.as_secs_f64()),
        figures(progress)
    );
    if let Some(evaluated) = progress.evaluated {
        let mean = evaluated.positions as f64 / evaluated.batches.max(1) as f64;
        let _ = write!(text, " in batches of {mean:.1}");
    }
    if progress.rejected > 0 {
        let _ = write!(text, "; {} could not be read", progress.rejected);
    }
    text
}

/// How well the players of the game `title` have played; `None` if no move was judged.
pub(super) fn players_in_words(title: &str, players: [Option<Accuracy>; 2]) -> Option<String> {
    let words = ["White", "Black"].iter().zip(players).filter_map(|(color, player)| {
        let Accuracy { accuracy, loss } = player?;
        Some(format!("{color} {accuracy:.1} % (loses {loss:.1} % of a point with each move)"))
    });
    let words = words.collect::<Vec<_>>().join(", ");
    (!words.is_empty()).then(|| format!("{title}: accuracy of {words}"))
}

/// A time in words: `12 s`, `3 min 20 s`, `5 h 7 min`, `2 d 3 h`.
fn duration(seconds: f64) -> String {
    let seconds = seconds.clamp(0.0, 1e12) as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_backend::multi::BatchCounts;

    #[test]
    fn the_line_has_the_rates_and_the_time_that_is_left() {
        let progress = Progress {
            documents: 1,
            rejected: 0,
            positions: 50,
            positions_left: Some(150),
            elapsed: Duration::from_secs(100),
            evaluated: Some(BatchCounts { batches: 10, positions: 4000 }),
        };
        assert_eq!(
            line(&progress, 8),
            "[#####---------------]  25 %  50 positions, 0.5 positions/s, 40 evaluations/s, 5 min 0 s left  \
             (8 searches)"
        );
        let unknown = Progress { positions_left: None, evaluated: None, ..progress };
        assert_eq!(line(&unknown, 8), "50 positions, 0.5 positions/s  (8 searches)");
        assert_eq!([59.0, 3600.0, 200_000.0].map(duration), ["59 s", "1 h 0 min", "2 d 7 h"]);
    }
}
