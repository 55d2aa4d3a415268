//! `selfplay`: a tournament of two configurations of the engine.
//!
//! | module | what it does |
//! |---|---|
//! | [`report`] | the lines that are printed |
//! | [`training`] | the folder of the training data |

mod report;
mod training;

use super::end_with_stdin::end_with_stdin;
use super::error::{CliError, WrongArguments, print_error_line};
use super::interrupt::catch_interrupt;
use super::output_file::{check_outputs, open_log};
use super::selfplay_args::SelfplayArgs;
use crate::concurrent::words;
use crate::selfplay::config::PlayerConfig;
use crate::selfplay::pgn::{self, PgnPlayer};
use crate::selfplay::{Ending, FinishedGame, Tournament};
use crate::uci::output::Output;
use rukh_base::os_error::{in_words, why_not_written};
use rukh_options::{Options, TABLE};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Plays the tournament.
///
/// # Errors
/// The settings are wrong, a search fails, or a file cannot be written.
pub(super) fn run(arguments: &SelfplayArgs, options: &Options, output: &Output) -> Result<(), CliError> {
    let config = arguments.config(options)?;
    if arguments.end_with_stdin {
        end_with_stdin().map_err(|error| format!("cannot start a thread: {}", in_words(&error)))?;
    }
    let (sprt, shard, chess960) = (config.sprt, config.shard, options.chess960);
    let settings = config.players.clone();
    let limits = settings.each_ref().map(|player| player.limits.in_words());
    // A wrong name is an error before the games, not after them.
    let written = [
        ("--pgn", arguments.pgn.as_deref()),
        ("--tournament-results-file", arguments.tournament_results_file.as_deref()),
    ];
    let openings = arguments.openings_pgn.iter().map(|path| ("--openings-pgn", path.as_path()));
    let openings: Vec<_> = openings.collect();
    // Each player may have a network of its own.
    for options in [options, &config.players[0].options, &config.players[1].options] {
        check_outputs(&written, &openings, options)?;
    }
    open_log(options, output)?;
    let mut pgn_file = arguments.pgn.as_deref().map(open_to_append).transpose()?;
    let mut results_file = arguments.tournament_results_file.as_deref().map(open_to_append).transpose()?;
    let tournament = Tournament::new(config).map_err(|error| match error.is_wrong_settings() {
        true => CliError::from(WrongArguments::because_of(error)),
        false => error.into(),
    })?;
    // Wrong settings leave no empty folder behind.
    let mut training = arguments.training.then(|| training::open(arguments)).transpose()?;
    tournament.notices().iter().for_each(|notice| print_error_line(notice));
    let tablebases = tournament.tablebases();
    // Whoever has read the next line may interrupt the games.
    let interrupter = tournament.interrupter();
    catch_interrupt(move || interrupter.interrupt())?;
    print_error_line(&format!("playing {} games at once", tournament.parallelism()));
    if let Some(store) = &training {
        print_error_line(&format!("writing training data to {}", store.folder().display()));
    }
    let networks = tournament.networks().map(str::to_owned);
    let networks = [networks[0].as_str(), networks[1].as_str()];
    let mut names = names(networks.map(words::network), &settings);
    let players = [0, 1].map(|player: usize| PgnPlayer {
        name: std::mem::take(&mut names[player]),
        network: words::network(networks[player]),
        limit: limits[player].clone(),
    });
    let mut failed_write: Option<CliError> = None;
    let mut unplayed_games = 0;
    let interrupter = tournament.interrupter();
    let (progress, finish) = tournament.run(|game, progress| {
        unplayed_games +=
            u64::from(game.opening_plies == game.moves.len() && game.ending != Ending::Agreement);
        let chunk = game.training_chunk.as_deref();
        let stored = training.as_mut().zip(chunk).map(|(store, chunk)| store.add(chunk)).transpose();
        let appended = append_game(pgn_file.as_mut(), game, &players);
        let mut training_file = None;
        let written: Result<(), CliError> = match (stored, appended) {
            (Err(error), _) => Err(error.into()),
            (_, Err(error)) => Err(format!("cannot write the games: {}", in_words(&error)).into()),
            (Ok(path), Ok(())) => {
                training_file = path;
                Ok(())
            }
        };
        if let Err(error) = written
            && failed_write.is_none()
        {
            failed_write = Some(error);
            interrupter.interrupt();
        }
        if !arguments.json {
            let mut lines = report::game_lines(game, training_file.as_deref(), chess960);
            lines.push(report::status_line(progress, false));
            output.lines(&lines);
        }
    })?;
    for fault in tablebases.iter().flat_map(|tables| tables.faults(0)) {
        print_error_line(&format!("SyzygyPath: {fault}"));
    }
    if arguments.json {
        output.line(&report::json(&progress, finish, sprt, [networks, [&limits[0], &limits[1]]], shard));
    } else {
        output.line(&report::status_line(&progress, true));
        output.lines(&report::result_lines(&progress, finish, sprt));
    }
    if unplayed_games > 0 {
        print_error_line(&format!(
            "{unplayed_games} of the counted games had no moves: they were over when their opening ended"
        ));
    }
    if let Some(error) = failed_write {
        return Err(error);
    }
    if let Some(file) = &mut results_file {
        let entry =
            report::results_file_entry(&progress.score, players.each_ref().map(|player| &*player.name));
        file.write_all(entry.as_bytes())
            .map_err(|error| format!("cannot write the result: {}", in_words(&error)))?;
    }
    Ok(())
}

/// The names of the players in the PGN: their networks, and the settings in which they differ.
fn names(networks: [String; 2], players: &[PlayerConfig; 2]) -> [String; 2] {
    let [first, second] = players;
    let mut names = networks;
    for spec in TABLE.iter().filter(|spec| spec.field != "weights") {
        let values = [first, second].map(|player| spec.value(&player.options));
        if values[0] != values[1] {
            for (name, value) in names.iter_mut().zip(values) {
                name.push_str(&format!(" {}={value}", spec.uci_name.unwrap_or(spec.field)));
            }
        }
    }
    if first.limits != second.limits {
        for (name, player) in names.iter_mut().zip(players) {
            name.push_str(&format!(" {}", player.limits.in_words()));
        }
    }
    if names[0] == names[1] {
        // Programs that compute ratings know players by their names.
        names.iter_mut().zip(1..).for_each(|(name, number)| name.push_str(&format!(" ({number})")));
    }
    names
}

/// Opens a file to append to it. If its last line has no end, it gets one and an empty line after it.
fn open_to_append(path: &Path) -> Result<File, CliError> {
    let open = || {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        // Another program may have left out the line break, and not every file that can be written can be read.
        let mut last = [b'\n'];
        if file.metadata().is_ok_and(|metadata| metadata.is_file())
            && let Ok(mut written) = File::open(path)
            && written.seek(SeekFrom::End(-1)).is_ok()
            && written.read_exact(&mut last).is_ok()
            && last != [b'\n']
        {
            file.write_all(b"\n\n")?;
        }
        Ok(file)
    };
    let reason = |error| format!("cannot write {}: {}", path.display(), why_not_written(path, &error));
    Ok(open().map_err(reason)?)
}

/// Writes each game at once, so that nothing is lost if the process ends.
fn append_game(file: Option<&mut File>, game: &FinishedGame, players: &[PgnPlayer; 2]) -> io::Result<()> {
    match file {
        Some(file) => file.write_all(&pgn::text(game, players)),
        None => Ok(()),
    }
}
