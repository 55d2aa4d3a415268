//! `merge`: puts the parts together that processes with `--shard` have written.
//!
//! Rows of CSV and answers in JSON carry the number of their game, by which they are sorted. Games and lines of EPD are
//! taken from the parts in turn, as `--shard` has dealt them out; the parts must be in the order of their numbers.

use super::args::MergeArgs;
use super::collect::totals::Totals;
use super::error::{FleetError, file_error, print_error_line};
use super::job::PieceResult;
use rukh::analysis::cut::Cutter;
use rukh::analysis::input::InputFormat;
use rukh::analysis::output::CSV_HEADER;
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Merges the parts.
///
/// # Errors
/// A file cannot be read or written, or the parts are not what `rukh` writes.
pub(crate) fn run(arguments: &MergeArgs) -> Result<(), FleetError> {
    let mut parts = arguments.parts.clone();
    parts.sort_by_key(|path| numbers_in(&path.to_string_lossy()));
    let first =
        parts.first().map(|path| path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase());
    let output: Box<dyn Write> = match &arguments.output {
        None => Box::new(io::stdout()),
        Some(path) => Box::new(File::create(path).map_err(|error| file_error("write", path, error))?),
    };
    let mut output = BufWriter::new(output);
    let name = arguments.output.clone().unwrap_or_else(|| PathBuf::from("stdout"));
    match first.as_deref() {
        Some("json") => merge_scores(&parts, &mut output)?,
        Some("jsonl" | "ndjson") => merge_rows(&parts, false, &mut output, &name)?,
        Some("csv") => merge_rows(&parts, true, &mut output, &name)?,
        Some("pgn" | "epd" | "fen") => merge_documents(&parts, &mut output, &name)?,
        _ => {
            return Err(FleetError::Refused(
                "the parts are none of .pgn, .epd, .jsonl, .csv and .json".to_owned(),
            ));
        }
    }
    output.flush().map_err(|error| file_error("write", name, error))
}

/// A name cut at its numbers, so that `part-10` comes after `part-9`.
fn numbers_in(name: &str) -> Vec<(String, u64)> {
    let (mut pieces, mut text, mut digits) = (Vec::new(), String::new(), String::new());
    for c in name.chars().chain([' ']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            pieces.push((std::mem::take(&mut text), digits.parse().unwrap_or(u64::MAX)));
            digits.clear();
        }
        text.push(c);
    }
    pieces.push((text, 0));
    pieces
}

/// Adds up what `rukh selfplay --json` has printed.
fn merge_scores(parts: &[PathBuf], output: &mut impl Write) -> Result<(), FleetError> {
    let mut totals = Totals::default();
    for (part, path) in (0..).zip(parts) {
        let text = std::fs::read(path).map_err(|error| file_error("read", path, error))?;
        let figures: Value = serde_json::from_slice(text.trim_ascii())
            .ok()
            .filter(|value: &Value| value["with_white"].is_object())
            .ok_or_else(|| {
                let path = path.display();
                FleetError::Refused(format!("{path} is not what `rukh selfplay --json` prints"))
            })?;
        let mut result = PieceResult::new("", part);
        result.games = Some(figures);
        totals.add(&result);
    }
    totals.score_lines(None).iter().for_each(|line| print_error_line(line));
    // Nobody is left to tell if stdout is closed.
    let _ = writeln!(output, "{}", totals.score_json());
    Ok(())
}

/// Takes documents from the parts in turn.
fn merge_documents(parts: &[PathBuf], output: &mut impl Write, name: &Path) -> Result<(), FleetError> {
    let open = |path: &PathBuf| Cutter::open(path, None).map_err(|error| file_error("read", path, error));
    let mut cutters = parts.iter().map(open).collect::<Result<Vec<Cutter>, FleetError>>()?;
    let failed = |error| file_error("write", name, error);
    loop {
        let mut has_more = false;
        for (cutter, path) in cutters.iter_mut().zip(parts) {
            let document = cutter.next_document().map_err(|error| file_error("read", path, error))?;
            let Some(document) = document else { continue };
            has_more = true;
            output.write_all(document.text.as_bytes()).map_err(failed)?;
            // Games are separated by an empty line.
            if document.format == InputFormat::Pgn && !document.text.ends_with("\n\n") {
                output.write_all(b"\n").map_err(failed)?;
            }
        }
        if !has_more {
            return Ok(());
        }
    }
}

/// Where a row lies: its game and its place within the game, its part, its first byte and its length.
type Row = (u64, u64, u32, u64, u32);

/// Sorts rows by the numbers of their games. Only their places are kept in memory.
fn merge_rows(
    parts: &[PathBuf],
    is_csv: bool,
    output: &mut impl Write,
    name: &Path,
) -> Result<(), FleetError> {
    let mut rows: Vec<Row> = Vec::new();
    let mut files = Vec::new();
    for (part, path) in parts.iter().enumerate() {
        let read = |error| file_error("read", path, error);
        let mut file = BufReader::new(File::open(path).map_err(read)?);
        let (mut offset, mut line) = (0, Vec::new());
        loop {
            line.clear();
            let length = file.read_until(b'\n', &mut line).map_err(read)?;
            if length == 0 {
                break;
            }
            let is_header = is_csv && line == CSV_HEADER.as_bytes();
            if !is_header && !line.trim_ascii().is_empty() {
                let (id, turn) = key(&line, is_csv).ok_or_else(|| {
                    FleetError::Refused(format!(
                        "{}: a row does not begin with the number of its game",
                        path.display()
                    ))
                })?;
                rows.push((id, turn, part as u32, offset, length as u32));
            }
            offset += length as u64;
        }
        files.push(file);
    }
    rows.sort_unstable();
    if is_csv {
        output.write_all(CSV_HEADER.as_bytes()).map_err(|error| file_error("write", name, error))?;
    }
    let mut line = Vec::new();
    for (_, _, part, offset, length) in rows {
        let (file, path) = (&mut files[part as usize], &parts[part as usize]);
        line.resize(length as usize, 0);
        let here = file.stream_position().map_err(|error| file_error("read", path, error))?;
        // Rows of one part mostly follow each other, so the buffer is kept.
        file.seek_relative(offset as i64 - here as i64).map_err(|error| file_error("read", path, error))?;
        file.read_exact(&mut line).map_err(|error| file_error("read", path, error))?;
        output.write_all(&line).map_err(|error| file_error("write", name, error))?;
    }
    Ok(())
}

/// The number of the game and of the moves before the position.
fn key(line: &[u8], is_csv: bool) -> Option<(u64, u64)> {
    if is_csv {
        let text = std::str::from_utf8(line).ok()?;
        let mut fields = text.split(',');
        return Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?));
    }
    let answer: Value = serde_json::from_slice(line).ok()?;
    Some((answer["id"].as_u64()?, answer["turnNumber"].as_u64()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(parts: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = |(name, text): &(&str, &str)| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (parts, output) = (parts.iter().map(path).collect(), folder.path().join("merged"));
        run(&MergeArgs { parts, output: Some(output.clone()) }).unwrap();
        std::fs::read_to_string(output).unwrap()
    }

    #[test]
    fn rows_are_sorted_by_their_games() {
        let row = |id: u64, turn: u64| format!("{{\"id\":{id},\"turnNumber\":{turn}}}\n");
        let part = [row(4, 0), row(2, 1), row(2, 0)].concat();
        let found = merged(&[("a-2.jsonl", &part), ("a-1.jsonl", &[row(1, 0), row(3, 5)].concat())]);
        assert_eq!(found, [row(1, 0), row(2, 0), row(2, 1), row(3, 5), row(4, 0)].concat());
        let csv = |rows: &str| format!("{CSV_HEADER}{rows}");
        let found = merged(&[("a.csv", &csv("2,0,x\n")), ("b.csv", &csv("1,0,\"a,b\"\n"))]);
        assert_eq!(found, csv("1,0,\"a,b\"\n2,0,x\n"));
    }

    #[test]
    fn games_are_taken_from_the_parts_in_turn() {
        let game = |name: u32| format!("[Event \"{name}\"]\n\n1. e4 *\n\n");
        let parts = [
            ("part-10.pgn", game(10)),
            ("part-9.pgn", [game(9), game(19)].concat()),
            ("part-1.pgn", game(1)),
        ];
        let parts = parts.each_ref().map(|(name, text)| (*name, text.as_str()));
        assert_eq!(merged(&parts), [game(1), game(9), game(10), game(19)].concat());
    }

    #[test]
    fn scores_are_added_up() {
        let part = r#"{"with_white":{"wins":1,"draws":0,"losses":0},"with_black":{"wins":0,"draws":1,"losses":0},"pairs":[0,0,0,1,0]}"#;
        let found: Value = serde_json::from_str(&merged(&[("1.json", part), ("2.json", part)])).unwrap();
        assert_eq!(
            (&found["games"], &found["pairs"]),
            (&Value::from(4), &serde_json::json!([0, 0, 0, 2, 0]))
        );
    }
}
