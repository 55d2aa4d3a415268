//! `merge`: puts the parts together that processes with `--shard` have written.
//!
//! Rows of CSV and answers in JSON carry the number of their game, by which they are sorted. Games and lines of EPD are
//! taken from the parts in turn, as `--shard` has dealt them out.
//!
//! A part that `rukh analyze --shard --output` has completed has a record beside it ([`PartRecord`]), with its length
//! and its number among the parts, so that a part that is cut or missing is noticed. What `rukh selfplay --json` prints
//! says its number itself. Parts without records, which went to stdout, are checked as far as their content allows.

use super::args::MergeArgs;
use super::collect::totals::Totals;
use super::error::{FleetError, file_error, print_error_line};
use super::job::{MOST_GAMES, PieceResult};
use rukh::analysis::cut::{CutDocument, Cutter};
use rukh::analysis::input::InputFormat;
use rukh::analysis::output::CSV_HEADER;
use rukh::analysis::part::PartRecord;
use same_file::Handle;
use serde_json::Value;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// What parts contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Scores,
    Rows { is_csv: bool },
    Documents { is_pgn: bool },
}

impl Kind {
    fn of(path: &Path) -> Result<Kind, FleetError> {
        match path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase().as_str() {
            "json" => Ok(Kind::Scores),
            "jsonl" | "ndjson" => Ok(Kind::Rows { is_csv: false }),
            "csv" => Ok(Kind::Rows { is_csv: true }),
            "pgn" => Ok(Kind::Documents { is_pgn: true }),
            "epd" | "fen" => Ok(Kind::Documents { is_pgn: false }),
            _ => Err(wrong(path, "its name ends with none of .pgn, .epd, .jsonl, .csv and .json")),
        }
    }
}

fn wrong(path: &Path, reason: impl std::fmt::Display) -> FleetError {
    FleetError::Refused(format!("{}: {reason}", path.display()))
}

/// Merges the parts.
///
/// # Errors
/// A part is missing, repeated, cut or of another kind, or it is the output, or a file cannot be read or written. Then
/// the output is as it was.
pub(crate) fn run(arguments: &MergeArgs) -> Result<(), FleetError> {
    let MergeArgs { parts, output } = arguments;
    check_files(parts, output.as_deref())?;
    let kind = parts.first().map_or(Ok(Kind::Scores), |path| Kind::of(path))?;
    for path in parts {
        if Kind::of(path)? != kind {
            return Err(wrong(path, format!("it is of another kind than {}", parts[0].display())));
        }
    }
    let mut parts = parts.clone();
    parts.sort_by_key(|path| numbers_in(&path.to_string_lossy()));
    let mut output = Output::open(output.as_deref())?;
    if kind == Kind::Scores {
        merge_scores(&parts, &mut output)?;
    } else {
        let records = read_records(&mut parts)?;
        match kind {
            Kind::Rows { is_csv } => merge_rows(&parts, &records, is_csv, &mut output)?,
            _ => merge_documents(&parts, &records, &mut output)?,
        }
    }
    output.finish()
}

/// Checks that no file is named twice, by whatever names, and that none of them is the output.
fn check_files(parts: &[PathBuf], output: Option<&Path>) -> Result<(), FleetError> {
    let output = match output {
        // It is usually not there.
        Some(path) => Handle::from_path(path).ok(),
        None => Handle::stdout().ok(),
    };
    let mut seen = HashSet::new();
    for path in parts {
        let handle = Handle::from_path(path).map_err(|error| file_error("read", path, error))?;
        let is_file = handle.as_file().metadata().is_ok_and(|metadata| metadata.is_file());
        if !is_file {
            return Err(wrong(path, "a part is a regular file"));
        }
        if output.as_ref() == Some(&handle) {
            return Err(wrong(path, "it is a part and the output; choose another name for the output"));
        }
        if !seen.insert(handle) {
            return Err(wrong(path, "it is given twice"));
        }
    }
    Ok(())
}

/// Where the whole goes: to stdout, or to a temporary file that takes its name at the end, or, if the name is that of a
/// device or a pipe, there.
struct Output {
    path: PathBuf,
    writer: BufWriter<Box<dyn Write>>,
    /// The temporary file.
    temporary: Option<NamedTempFile>,
}

impl Output {
    fn open(path: Option<&Path>) -> Result<Output, FleetError> {
        let Some(path) = path else {
            let writer = BufWriter::new(Box::new(io::stdout()) as Box<dyn Write>);
            return Ok(Output { path: PathBuf::from("stdout"), writer, temporary: None });
        };
        let failed = |error| file_error("write", path, error);
        let metadata = fs::metadata(path);
        if metadata.as_ref().is_ok_and(|metadata| !metadata.is_file()) {
            let file = File::options().write(true).open(path).map_err(failed)?;
            return Ok(Output {
                path: path.to_owned(),
                writer: BufWriter::new(Box::new(file)),
                temporary: None,
            });
        }
        // The file that a link leads to is replaced, not the link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".rukh-fleet-merge-");
        #[cfg(unix)]
        builder.permissions(match &metadata {
            Ok(metadata) => metadata.permissions(),
            // What the user's mask leaves of it.
            Err(_) => std::os::unix::fs::PermissionsExt::from_mode(0o666),
        });
        let temporary = builder.tempfile_in(folder).map_err(failed)?;
        let file = temporary.reopen().map_err(failed)?;
        Ok(Output { path, writer: BufWriter::new(Box::new(file)), temporary: Some(temporary) })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), FleetError> {
        self.writer.write_all(bytes).map_err(|error| file_error("write", &self.path, error))
    }

    fn finish(self) -> Result<(), FleetError> {
        let Output { path, mut writer, temporary } = self;
        writer.flush().map_err(|error| file_error("write", &path, error))?;
        drop(writer);
        match temporary {
            None => Ok(()),
            Some(file) => {
                file.persist(&path).map(drop).map_err(|error| file_error("write", path, error.error))
            }
        }
    }
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

/// Checks that the numbers of parts are those from 1 to `of`, each once. `parts` have their paths and numbers.
fn check_numbers<'a>(parts: impl Iterator<Item = (&'a PathBuf, u64)>, of: u64) -> Result<(), FleetError> {
    let mut seen = HashSet::new();
    for (path, number) in parts {
        if !seen.insert(number) {
            return Err(wrong(path, format!("part {number} of {of} is given twice")));
        }
    }
    let missing: Vec<String> =
        (1..=of).filter(|number| !seen.contains(number)).take(20).map(|number| number.to_string()).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(FleetError::Refused(format!("of {of} parts these are missing: {}", missing.join(", ")))),
    }
}

/// Reads the records of the parts and puts the parts into their order. Without records, it says that not everything can
/// be checked.
fn read_records(parts: &mut Vec<PathBuf>) -> Result<Vec<PartRecord>, FleetError> {
    let mut records = Vec::new();
    let mut without = None;
    for path in &*parts {
        let journal = path.with_added_extension("journal");
        if journal.exists() {
            return Err(wrong(path, "it is not complete; repeat the command that has begun it"));
        }
        let record = PartRecord::path_of(path);
        match fs::read(&record) {
            Ok(text) => {
                let record: PartRecord = serde_json::from_slice(&text)
                    .map_err(|error| wrong(&record, format!("not a record: {error}")))?;
                let length = fs::metadata(path).map_err(|error| file_error("read", path, error))?.len();
                if length != record.bytes {
                    return Err(wrong(
                        path,
                        format!("it has {length} bytes, and had {} when it was complete", record.bytes),
                    ));
                }
                records.push((path.clone(), record));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => without = Some(path),
            Err(error) => return Err(file_error("read", record, error)),
        }
    }
    let Some((_, first)) = records.first() else {
        print_error_line(
            "the parts have no records (FILE.shard), so it is not known whether games are missing at their ends",
        );
        return Ok(Vec::new());
    };
    if let Some(path) = without {
        let record = PartRecord::path_of(path);
        return Err(wrong(path, format!("it has no record {}, and others have", record.display())));
    }
    let (of, analysis) = (first.of, first.analysis.clone());
    if let Some((path, _)) = records.iter().find(|(_, record)| record.of != of || record.analysis != analysis)
    {
        return Err(wrong(path, format!("it is a part of another analysis than {}", records[0].0.display())));
    }
    check_numbers(records.iter().map(|(path, record)| (path, record.shard)), of)?;
    records.sort_by_key(|(_, record)| record.shard);
    // The documents are dealt out in turn.
    let is_dealt = records.is_sorted_by(|(_, a), (_, b)| a.documents >= b.documents)
        && records.first().zip(records.last()).is_some_and(|((_, a), (_, b))| a.documents <= b.documents + 1);
    if !is_dealt {
        return Err(FleetError::Refused("the parts are not of the same input".to_owned()));
    }
    let records: (Vec<PathBuf>, Vec<PartRecord>) = records.into_iter().unzip();
    *parts = records.0;
    Ok(records.1)
}

/// Adds up what `rukh selfplay --json` has printed.
fn merge_scores(parts: &[PathBuf], output: &mut Output) -> Result<(), FleetError> {
    let mut totals = Totals::default();
    let (mut numbers, mut networks): (Vec<(&PathBuf, u64, u64)>, Option<Value>) = (Vec::new(), None);
    let mut games = 0_u64;
    for (number, path) in (0..).zip(parts) {
        let text = fs::read(path).map_err(|error| file_error("read", path, error))?;
        let figures: Value = serde_json::from_slice(text.trim_ascii())
            .ok()
            .filter(|value: &Value| value["with_white"].is_object())
            .ok_or_else(|| wrong(path, "it is not what `rukh selfplay --json` prints, or not all of it"))?;
        if figures["finish"] == "interrupted" {
            return Err(wrong(path, "its tournament was interrupted"));
        }
        if *networks.get_or_insert_with(|| figures["networks"].clone()) != figures["networks"] {
            return Err(wrong(path, format!("it has other networks than {}", parts[0].display())));
        }
        let shard = |name: &str| figures["shard"][name].as_u64();
        numbers.extend(shard("number").zip(shard("of")).map(|(number, of)| (path, number, of)));
        for side in ["with_white", "with_black"] {
            for name in ["wins", "draws", "losses"] {
                games = games.saturating_add(figures[side][name].as_u64().unwrap_or_default());
            }
        }
        if games > MOST_GAMES {
            return Err(wrong(path, format!("there are more than {MOST_GAMES} games")));
        }
        let mut result = PieceResult::new("", number);
        result.games = Some(figures);
        totals.add(&result);
    }
    match numbers.first() {
        None => print_error_line(
            "the parts do not say which parts they are, so it is not known whether some are missing",
        ),
        Some(&(_, _, of)) => {
            let other =
                |path: &&PathBuf| numbers.iter().all(|(known, _, found)| known != path || *found != of);
            if let Some(path) = parts.iter().find(other) {
                return Err(wrong(
                    path,
                    format!("it is not one of {of} parts, as {} is", numbers[0].0.display()),
                ));
            }
            check_numbers(numbers.iter().map(|&(path, number, _)| (path, number)), of)?;
        }
    }
    totals.score_lines(None).iter().for_each(|line| print_error_line(line));
    output.write(format!("{}\n", totals.score_json()).as_bytes())
}

/// The documents of a part, with their numbers in the input if they are known.
struct Documents<'a> {
    path: &'a Path,
    cutter: Cutter,
    /// The number of the next document among those of this part, from 0.
    next: u64,
    record: Option<&'a PartRecord>,
    /// The last document that was read.
    last_text: String,
    count: u64,
}

impl Documents<'_> {
    fn read(&mut self) -> Result<Option<CutDocument>, FleetError> {
        let document = self.cutter.next_document().map_err(|error| file_error("read", self.path, error))?;
        if let Some(document) = &document {
            if let Some(fault) = &document.fault {
                return Err(wrong(self.path, fault.clone()));
            }
            self.last_text.clone_from(&document.text);
            self.count += 1;
        }
        Ok(document)
    }

    /// Whether the next document of the input that this part has was refused, so that the part does not have it.
    fn skips(&mut self) -> bool {
        let Some(PartRecord { shard, of, rejected: Some(rejected), .. }) = self.record else { return false };
        let number = self.next * of + shard;
        self.next += 1;
        rejected.binary_search(&number).is_ok()
    }
}

/// Takes documents from the parts in turn.
fn merge_documents(parts: &[PathBuf], records: &[PartRecord], output: &mut Output) -> Result<(), FleetError> {
    if let Some(record) = records.iter().find(|record| record.rejected.is_none()) {
        return Err(FleetError::Refused(format!(
            "part {} does not say which of its games were refused, so that the order is not known; make it again with \
             --overwrite",
            record.shard
        )));
    }
    let mut opened = Vec::new();
    for (index, path) in parts.iter().enumerate() {
        let cutter = Cutter::open(path, None).map_err(|error| file_error("read", path, error))?;
        let record = records.get(index);
        opened.push(Documents { path, cutter, next: 0, record, last_text: String::new(), count: 0 });
    }
    // With records, the number of rounds is known; without them the parts end.
    let rounds = records.first().map(|record| record.documents);
    let mut round = 0;
    loop {
        let mut has_more = false;
        for part in &mut opened {
            if part.skips() {
                continue;
            }
            let Some(document) = part.read()? else { continue };
            has_more = true;
            output.write(document.text.as_bytes())?;
            // Games are separated by an empty line.
            if document.format == InputFormat::Pgn && !document.text.ends_with("\n\n") {
                output.write(b"\n")?;
            }
        }
        round += 1;
        if rounds.map_or(!has_more, |rounds| round >= rounds && !has_more) {
            break;
        }
    }
    match records.is_empty() {
        true => check_ends(&opened),
        false => Ok(()),
    }
}

/// Checks parts without records: whether the last document of each has an end, and whether the parts have equally many.
fn check_ends(parts: &[Documents<'_>]) -> Result<(), FleetError> {
    for part in parts.iter().filter(|part| part.count > 0) {
        let text = part.last_text.trim_end();
        let is_game = text.contains('[') || text.contains("1.");
        let has_end = match Kind::of(part.path)? {
            Kind::Documents { is_pgn: true } => {
                !is_game || ["1-0", "0-1", "1/2-1/2", "*"].iter().any(|result| text.ends_with(result))
            }
            _ => part.last_text.ends_with('\n'),
        };
        if !has_end {
            return Err(wrong(part.path, "its last game or line has no end, so that the part is cut"));
        }
    }
    let has_rejected = parts.iter().any(|part| part.path.with_added_extension("rejected").exists());
    let most = parts.iter().max_by_key(|part| part.count);
    let least = parts.iter().min_by_key(|part| part.count);
    match most.zip(least).filter(|_| !has_rejected) {
        Some((most, least)) if most.count > least.count + 1 => Err(wrong(
            least.path,
            format!(
                "it has {} games or lines, and {} has {}, so that a part is cut or missing, or is one of others",
                least.count,
                most.path.display(),
                most.count
            ),
        )),
        _ => Ok(()),
    }
}

/// Where a row lies: its game and its place within the game, its part, its first byte and its length.
type Row = (u64, u64, u32, u64, u32);

/// Sorts rows by the numbers of their games. Only their places are kept in memory.
fn merge_rows(
    parts: &[PathBuf],
    records: &[PartRecord],
    is_csv: bool,
    output: &mut Output,
) -> Result<(), FleetError> {
    let mut rows: Vec<Row> = Vec::new();
    let mut files = Vec::new();
    let mut remainders: Vec<(u64, usize)> = Vec::new();
    for (part, path) in parts.iter().enumerate() {
        let read = |error| file_error("read", path, error);
        let mut file = BufReader::new(File::open(path).map_err(read)?);
        let (mut offset, mut line) = (0, Vec::new());
        let mut remainder = records.get(part).map(|record| record.shard % record.of);
        loop {
            line.clear();
            let length = file.read_until(b'\n', &mut line).map_err(read)?;
            if length == 0 {
                break;
            }
            if !line.ends_with(b"\n") {
                return Err(wrong(path, "its last row has no end, so that the part is cut"));
            }
            let is_header = is_csv && line == CSV_HEADER.as_bytes();
            if !is_header && !line.trim_ascii().is_empty() {
                let (id, turn) = key(&line, is_csv)
                    .ok_or_else(|| wrong(path, "a row does not begin with the number of its game"))?;
                let found = id % parts.len() as u64;
                if *remainder.get_or_insert(found) != found {
                    return Err(wrong(
                        path,
                        format!(
                            "it has the game {id}, and is none of {} parts that have all games together",
                            parts.len()
                        ),
                    ));
                }
                rows.push((id, turn, part as u32, offset, length as u32));
            }
            offset += length as u64;
        }
        if let Some(remainder) = remainder {
            if let Some((_, other)) = remainders.iter().find(|(known, _)| *known == remainder) {
                return Err(wrong(path, format!("it has the same games as {}", parts[*other].display())));
            }
            remainders.push((remainder, part));
        }
        files.push(file);
    }
    rows.sort_unstable();
    if let Some([first, second]) =
        rows.windows(2).find(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1))
    {
        return Err(wrong(
            &parts[second.2 as usize],
            format!("it has the position after {} moves of the game {} twice", first.1, first.0),
        ));
    }
    if is_csv {
        output.write(CSV_HEADER.as_bytes())?;
    }
    let mut line = Vec::new();
    for (_, _, part, offset, length) in rows {
        let (file, path) = (&mut files[part as usize], &parts[part as usize]);
        line.resize(length as usize, 0);
        let here = file.stream_position().map_err(|error| file_error("read", path, error))?;
        // Rows of one part mostly follow each other, so the buffer is kept.
        file.seek_relative(offset as i64 - here as i64).map_err(|error| file_error("read", path, error))?;
        file.read_exact(&mut line).map_err(|error| file_error("read", path, error))?;
        output.write(&line)?;
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

    fn merge(parts: &[(&str, &str)]) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = |(name, text): &(&str, &str)| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let (parts, output) = (parts.iter().map(path).collect(), folder.path().join("merged"));
        fs::write(&output, "as it was").unwrap();
        match run(&MergeArgs { parts, output: Some(output.clone()) }) {
            Ok(()) => Ok(fs::read_to_string(output).unwrap()),
            Err(error) => {
                assert_eq!(fs::read_to_string(output).unwrap(), "as it was");
                Err(error.to_string())
            }
        }
    }

    fn merged(parts: &[(&str, &str)]) -> String {
        merge(parts).unwrap()
    }

    #[test]
    fn parts_without_records_are_checked_as_far_as_their_content_allows() {
        let rows = |ids: &[u64]| -> String {
            ids.iter().map(|id| format!("{{\"id\":{id},\"turnNumber\":0}}\n")).collect()
        };
        let game = |count: usize| "[Event \"x\"]\n\n1. e4 *\n\n".repeat(count);
        let cut_game = game(2).trim_end().trim_end_matches('*').to_owned();
        let epd = "4k3/8/8/8/8/8/8/4K3 w - - ce 1;\n";
        let score =
            r#"{"with_white":{"wins":1},"with_black":{},"pairs":[],"networks":["a"],"finish":"all games"}"#;
        let interrupted = score.replace("all games", "interrupted");
        let many = score.replace("\"wins\":1", "\"wins\":4000000000");
        for (first, second, reason) in [
            // One of three parts is missing.
            (("1.jsonl", rows(&[1, 4, 7])), ("2.jsonl", rows(&[2, 5, 8])), "none of 2 parts"),
            (("1.jsonl", rows(&[1, 3])), ("2.jsonl", rows(&[1, 3])), "the same games as"),
            (("1.jsonl", rows(&[1, 1])), ("2.jsonl", rows(&[2])), "twice"),
            (("1.jsonl", rows(&[1, 3])), ("2.jsonl", rows(&[2]).trim_end().to_owned()), "is cut"),
            (("1.jsonl", rows(&[1, 3])), ("2.jsonl", "{\"id\":2,\n".to_owned()), "does not begin with"),
            (("1.jsonl", rows(&[1, 3])), ("2.csv", CSV_HEADER.to_owned()), "of another kind"),
            (("1.jsonl", rows(&[1, 3])), ("2.txt", String::new()), "ends with none of"),
            (("1.pgn", game(2)), ("2.pgn", cut_game), "is cut"),
            (("1.pgn", game(4)), ("2.pgn", game(2)), "cut or missing"),
            (("1.epd", epd.repeat(2)), ("2.epd", epd.trim_end().to_owned()), "is cut"),
            (("1.json", score.to_owned()), ("2.json", interrupted), "interrupted"),
            (("1.json", score.to_owned()), ("2.json", score.replace("[\"a\"]", "[\"b\"]")), "other networks"),
            (("1.json", score.to_owned()), ("2.json", score[..40].to_owned()), "not all of it"),
            (("1.json", score.to_owned()), ("2.json", many), "more than"),
        ] {
            let found = merge(&[(first.0, &first.1), (second.0, &second.1)]);
            assert!(found.as_ref().is_err_and(|error| error.contains(reason)), "{reason}: {found:?}");
        }
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
