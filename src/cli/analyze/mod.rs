//! `analyze`: annotates games and positions, many at once.
//!
//! | module | what it does |
//! |---|---|
//! | [`picture`] | draws a game |
//! | [`progress`] | shows how far the analysis is |

mod picture;
mod progress;

use super::analyze_args::AnalyzeArgs;
use super::end_with_stdin::EndingInput;
use super::error::{CliError, WrongArguments, print_error_line};
use super::interrupt::catch_interrupt;
use super::output_file::{check_outputs, open_log};
use crate::analysis::accuracy::Accuracy;
use crate::analysis::batch::{self, BatchError, Finished, Notice};
use crate::analysis::pool::Pool;
use crate::analysis::protocol;
use crate::analysis::sink::SinkError;
use crate::uci::output::Output;
use progress::ProgressBar;
use rukh_base::os_error::in_words;
use rukh_options::Options;
use serde_json::json;
use std::fs::{self, File};
use std::io::{ErrorKind, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Analyses the files.
///
/// # Errors
/// The settings are wrong, a search fails, a file cannot be read to its end or cannot be written, or the user has
/// interrupted it.
pub(super) fn run(arguments: &AnalyzeArgs, options: &Options, output: &Output) -> Result<(), CliError> {
    if arguments.is_server() {
        return serve(arguments, options, output);
    }
    let config = arguments.config(options).map_err(WrongArguments)?;
    // A wrong name is an error before the analysis, not in the middle of it.
    config.check_files()?;
    let written = [
        ("the output", config.output.as_deref()),
        ("--rejected", config.rejected.as_deref()),
        ("--svg", arguments.svg.as_deref()),
    ];
    check_outputs(&written, &[], options)?;
    open_log(options, output)?;
    for path in config.inputs.iter().filter(|path| path.as_os_str() != "-") {
        let readable = fs::metadata(path).and_then(|metadata| {
            // Who writes into a pipe would lose his reader if it were opened twice.
            match metadata.is_dir() {
                true => Err(ErrorKind::IsADirectory.into()),
                false if metadata.is_file() => File::open(path).map(drop),
                false => Ok(()),
            }
        });
        readable.map_err(|error| format!("cannot read {}: {}", path.display(), in_words(&error)))?;
    }
    let pool = Pool::new(options, arguments.parallelism(), arguments.limits())?;
    pool.notices().iter().for_each(|notice| print_error_line(notice));
    if std::io::stdin().is_terminal() && config.inputs.iter().any(|path| path.as_os_str() == "-") {
        print_error_line("reading games in PGN or positions as FEN from standard input, to its end (ctrl-D)");
    }
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_interrupted);
    catch_interrupt(move || flag.store(true, Ordering::Relaxed))?;
    let mut bar = ProgressBar::new(pool.parallelism());
    let mut has_lost_pictures = false;
    // A database would bury the figures of its games.
    let (mut games, mut of_game) = (0, None);
    let finished = batch::run(&config, &pool, &is_interrupted, &mut |notice| match notice {
        Notice::Progress(progress) => bar.show(progress),
        Notice::Trouble(text) => bar.message(text),
        Notice::Document { number, title, facts, players, points } => {
            games += 1;
            of_game = Some((title.to_owned(), players));
            let Some(path) = &arguments.svg else { return };
            let path = picture::path_of(path, number);
            let drawn = config
                .check_files_with(Some(&path))
                .map_err(CliError::from)
                .and_then(|()| picture::chart(title, facts.to_vec(), points).write(&path));
            if let Err(error) = drawn {
                bar.message(&error.to_string());
                has_lost_pictures = true;
            }
        }
    });
    bar.end();
    let finished = match finished {
        // The reader, such as `head`, has read enough.
        Err(BatchError::Sink(SinkError::Stdout(error))) if error.kind() == ErrorKind::BrokenPipe => {
            return Ok(());
        }
        finished => finished?,
    };
    let of_game = of_game.filter(|_| games == 1);
    if arguments.json {
        let text = summary_json(&finished, of_game.map(|(_, players)| players));
        match arguments.output() {
            Some(_) => output.line(&text),
            None => print_error_line(&text),
        }
    } else {
        let line = of_game.and_then(|(title, players)| progress::players_in_words(&title, players));
        line.iter().for_each(|line| print_error_line(line));
        print_error_line(&progress::summary(&finished.progress));
    }
    if finished.is_interrupted {
        let advice = if arguments.output().is_some() { "; the same command goes on from here" } else { "" };
        return Err(
            format!("interrupted after {} games and lines{advice}", finished.progress.documents).into()
        );
    }
    if has_lost_pictures {
        return Err("a picture could not be written; the results are complete".into());
    }
    if finished.has_unread_files {
        return Err("a file could not be read to its end; all that could be read is analysed".into());
    }
    Ok(())
}

/// Answers requests on stdin.
fn serve(arguments: &AnalyzeArgs, options: &Options, output: &Output) -> Result<(), CliError> {
    let pool = Pool::new(options, arguments.parallelism(), arguments.limits())?;
    pool.notices().iter().for_each(|notice| print_error_line(notice));
    print_error_line(&format!("ready, {} searches at once", pool.parallelism()));
    let (defaults, write) = (arguments.defaults(options), |line: &str| output.line(line));
    let served = match arguments.end_with_stdin {
        true => protocol::serve(EndingInput(std::io::stdin()), &pool, defaults, &write),
        false => protocol::serve(std::io::stdin(), &pool, defaults, &write),
    };
    served.map_err(|error| format!("cannot start a thread: {error}").into())
}

/// `of_game` is how well White and Black have played if there was one game.
fn summary_json(finished: &Finished, of_game: Option<[Option<Accuracy>; 2]>) -> String {
    let player = |found: &Option<Accuracy>| {
        found.map(|Accuracy { accuracy, loss }| json!({"accuracy_percent": accuracy, "loss_percent": loss}))
    };
    let progress = &finished.progress;
    let seconds = progress.elapsed.as_secs_f64();
    json!({
        "white": of_game.as_ref().and_then(|[white, _]| player(white)),
        "black": of_game.as_ref().and_then(|[_, black]| player(black)),
        "documents": progress.documents,
        "rejected": progress.rejected,
        "positions": progress.positions,
        "seconds": seconds,
        "positions_per_second": progress.positions as f64 / seconds.max(1e-3),
        "evaluations": progress.evaluated.map(|evaluated| evaluated.positions),
        "batches": progress.evaluated.map(|evaluated| evaluated.batches),
        "is_interrupted": finished.is_interrupted,
        "has_unread_files": finished.has_unread_files,
    })
    .to_string()
}
