//! Reads the CSV files of AMD's `rocprofv3` (*Using rocprofv3*, ROCprofiler-SDK), and prints the command that makes them.
//!
//! Columns are found by their names, in any order and in capitals or not, because versions differ: ROCm 6 writes
//! `Group_Segment_Size` where ROCm 7 writes `LDS_Block_Size`, and `rocpd` writes `Vgpr_Count` where `rocprofv3` writes
//! `VGPR_Count`. Only the columns with names and times are necessary.

use super::report::Measured;
use crate::cli::error::CliError;
use csv::StringRecord;
use rukh_backend::profile::{Ceilings, Profile, StepProfile};
use rukh_base::quote::{printable, quoted};
use rukh_base::regular_file;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folders below the given one that are searched: `rocprofv3` makes one with the machine's name, and may make one
/// for each process.
const DEPTH: usize = 4;

/// A longer pause, in nanoseconds, is no gap between two kernels of a batch.
const LONGEST_GAP: u64 = 1_000_000;

/// What was found in a folder.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Trace {
    kernels: BTreeMap<String, Kernel>,
    /// Bytes are not traced: the number and the nanoseconds of copies by direction.
    copies: BTreeMap<String, (usize, u64)>,
    /// Pauses between the kernels of a queue: their number and nanoseconds.
    gaps: (usize, u64),
}

/// All launches of a kernel.
#[derive(Clone, PartialEq, Debug, Default)]
struct Kernel {
    calls: usize,
    nanoseconds: u64,
    /// The sum of each hardware counter over the launches that were counted.
    counters: BTreeMap<String, f64>,
    /// The launches that were counted.
    counted: usize,
}

/// The kinds of files, by the ends of their names.
pub(super) const FILES: [&str; 4] = [KERNEL_TRACE, KERNEL_STATS, COUNTERS, COPIES];
const KERNEL_TRACE: &str = "kernel_trace.csv";
const KERNEL_STATS: &str = "kernel_stats.csv";
const COUNTERS: &str = "counter_collection.csv";
const COPIES: &str = "memory_copy_trace.csv";

/// Reads all files below `folder`.
///
/// # Errors
/// The folder or a file cannot be read, a file lacks a column or has a wrong number, or there is no file with kernels.
pub(super) fn read(folder: &Path) -> Result<Trace, CliError> {
    let mut files = Vec::new();
    find(folder, DEPTH, &mut files)
        .map_err(|error| format!("cannot read the folder {}: {error}", folder.display()))?;
    files.sort();
    let of_kind = |end: &'static str| files.iter().filter(move |path| has_end(path, end));
    let mut trace = Trace::default();
    let mut launches = Vec::new();
    for path in of_kind(KERNEL_TRACE) {
        launches.extend(read_launches(path)?);
    }
    trace.add_launches(launches);
    if trace.kernels.is_empty() {
        for path in of_kind(KERNEL_STATS) {
            trace.add_statistics(path)?;
        }
    }
    for path in of_kind(COUNTERS) {
        trace.add_counters(path)?;
    }
    for path in of_kind(COPIES) {
        trace.add_copies(path)?;
    }
    if trace.kernels.is_empty() {
        return Err(format!(
            "no kernels in {}: expected files whose names end in {KERNEL_TRACE} or {KERNEL_STATS}, as the command \
             that --rocprof-command prints makes them",
            folder.display()
        )
        .into());
    }
    Ok(trace)
}

fn find(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && depth > 1 {
            find(&path, depth - 1, files)?;
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn has_end(path: &Path, end: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end))
}

/// The most bytes of a file. A trace of some minutes has about a hundred million.
const MOST_BYTES: u64 = 1 << 30;

/// An opened file, whose columns are found by name.
struct Table {
    path: PathBuf,
    header: StringRecord,
    rows: Vec<StringRecord>,
}

impl Table {
    fn open(path: &Path) -> Result<Table, CliError> {
        let failed = |error: csv::Error| CliError::from(format!("cannot read {}: {error}", path.display()));
        let bytes = regular_file::read(path, MOST_BYTES)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(&bytes[..]);
        let header = reader.headers().map_err(failed)?.clone();
        let rows = reader.records().collect::<Result<_, _>>().map_err(failed)?;
        Ok(Table { path: path.to_owned(), header, rows })
    }

    /// The index of a column.
    fn column(&self, name: &str) -> Result<usize, CliError> {
        self.optional(name).ok_or_else(|| {
            let found = quoted(&self.header.iter().collect::<Vec<_>>().join(", "));
            format!("{} has no column {name}; its columns are {found}", self.path.display()).into()
        })
    }

    fn optional(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|column| column.trim().eq_ignore_ascii_case(name))
    }

    fn text<'a>(&self, row: &'a StringRecord, column: usize) -> &'a str {
        row.get(column).unwrap_or_default().trim()
    }

    fn number<N: std::str::FromStr>(&self, row: &StringRecord, column: usize) -> Result<N, CliError> {
        let text = self.text(row, column);
        text.parse().map_err(|_| {
            let line = row.position().map_or(0, csv::Position::line);
            let name = quoted(self.header.get(column).unwrap_or_default());
            let text = quoted(text);
            format!("{}, line {line}: {name} is {text}, which is no number", self.path.display()).into()
        })
    }
}

/// A launch of a kernel: its queue, its name, and its start and end in nanoseconds.
struct Launch {
    queue: String,
    kernel: String,
    start: u64,
    end: u64,
}

fn read_launches(path: &Path) -> Result<Vec<Launch>, CliError> {
    let table = Table::open(path)?;
    let (name, start, end) =
        (table.column("Kernel_Name")?, table.column("Start_Timestamp")?, table.column("End_Timestamp")?);
    let places = [table.optional("Agent_Id"), table.optional("Queue_Id")];
    let launch = |row: &StringRecord| {
        let place = |column: &Option<usize>| column.map_or("", |column| table.text(row, column));
        Ok(Launch {
            queue: places.each_ref().map(place).join("/"),
            kernel: kernel_name(table.text(row, name)),
            start: table.number(row, start)?,
            end: table.number(row, end)?,
        })
    };
    table.rows.iter().map(launch).collect()
}

/// The name without the ending of a kernel's descriptor, as it can be printed.
fn kernel_name(name: &str) -> String {
    printable(name.strip_suffix(".kd").unwrap_or(name))
}

impl Trace {
    fn add_launches(&mut self, mut launches: Vec<Launch>) {
        launches.sort_by(|a, b| (&a.queue, a.start).cmp(&(&b.queue, b.start)));
        let mut last: Option<(String, u64)> = None;
        for Launch { queue, kernel, start, end } in launches {
            let kernel = self.kernels.entry(kernel).or_default();
            kernel.calls += 1;
            kernel.nanoseconds = kernel.nanoseconds.saturating_add(end.saturating_sub(start));
            let mut latest = end;
            if let Some((_, before)) = last.filter(|(known, _)| *known == queue) {
                let gap = start.saturating_sub(before);
                if gap > 0 && gap <= LONGEST_GAP {
                    self.gaps.0 += 1;
                    self.gaps.1 += gap;
                }
                latest = latest.max(before);
            }
            last = Some((queue, latest));
        }
    }

    fn add_statistics(&mut self, path: &Path) -> Result<(), CliError> {
        let table = Table::open(path)?;
        let (name, calls) = (table.column("Name")?, table.column("Calls")?);
        let time = table.column("TotalDurationNs")?;
        for row in &table.rows {
            let kernel = self.kernels.entry(kernel_name(table.text(row, name))).or_default();
            kernel.calls = kernel.calls.saturating_add(table.number(row, calls)?);
            // Some versions write a decimal point.
            kernel.nanoseconds = kernel.nanoseconds.saturating_add(table.number::<f64>(row, time)? as u64);
        }
        Ok(())
    }

    fn add_counters(&mut self, path: &Path) -> Result<(), CliError> {
        let table = Table::open(path)?;
        let (name, counter) = (table.column("Kernel_Name")?, table.column("Counter_Name")?);
        let value = table.column("Counter_Value")?;
        let mut counted: BTreeMap<(String, String), usize> = BTreeMap::new();
        for row in &table.rows {
            let (name, counter) = (kernel_name(table.text(row, name)), printable(table.text(row, counter)));
            let kernel = self.kernels.entry(name.clone()).or_default();
            *kernel.counters.entry(counter.clone()).or_default() += table.number::<f64>(row, value)?;
            let count = counted.entry((name, counter)).or_default();
            *count += 1;
            kernel.counted = kernel.counted.max(*count);
        }
        Ok(())
    }

    fn add_copies(&mut self, path: &Path) -> Result<(), CliError> {
        let table = Table::open(path)?;
        let direction = table.column("Direction")?;
        let (start, end) = (table.column("Start_Timestamp")?, table.column("End_Timestamp")?);
        for row in &table.rows {
            let copies = self.copies.entry(printable(table.text(row, direction))).or_default();
            copies.0 += 1;
            let nanoseconds = table.number::<u64>(row, end)?.saturating_sub(table.number(row, start)?);
            copies.1 = copies.1.saturating_add(nanoseconds);
        }
        Ok(())
    }

    /// The kernels as the steps of a profile, the slowest first. The counters `FETCH_SIZE` and `WRITE_SIZE`, in
    /// kilobytes, are the bytes that the kernels moved.
    pub(super) fn measured(&self, folder: &Path) -> Measured {
        let mut kernels: Vec<(&String, &Kernel)> = self.kernels.iter().collect();
        kernels.sort_by_key(|(_, kernel)| std::cmp::Reverse(kernel.nanoseconds));
        let step = |(name, kernel): (&String, &Kernel)| {
            let kilobytes: f64 =
                ["FETCH_SIZE", "WRITE_SIZE"].iter().filter_map(|name| kernel.counters.get(*name)).sum();
            let per_call = kilobytes * 1024.0 / kernel.counted.max(1) as f64;
            StepProfile {
                stage: String::new(),
                index: None,
                operation: name.clone(),
                kernel: Some(name.clone()),
                calls: kernel.calls,
                launches: kernel.calls,
                microseconds: vec![kernel.nanoseconds as f64 / 1e3],
                operations: 0.0,
                byte_operations: 0.0,
                bytes: per_call * kernel.calls as f64,
                bytes_of_a_call: per_call,
            }
        };
        let steps: Vec<StepProfile> = kernels.into_iter().map(step).collect();
        let whole = steps.iter().map(StepProfile::mean).sum();
        Measured {
            backend: format!("rocprofv3, {}", folder.display()),
            ceilings: Ceilings::default(),
            profile: Profile {
                positions: 0,
                whole_microseconds: vec![whole],
                parallel_microseconds: Vec::new(),
                steps,
            },
            other: None,
            passes: Vec::new(),
        }
    }

    /// What the table of kernels does not have.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let (gaps, nanoseconds) = self.gaps;
        if gaps > 0 {
            let time = nanoseconds as f64 / 1e3;
            notes.push(format!(
                "{gaps} gaps between kernels of a queue: {time:.1} us, {:.2} us each (pauses above 1 ms are left out)",
                time / gaps as f64
            ));
        }
        for (direction, (count, nanoseconds)) in &self.copies {
            notes.push(format!("{count} copies {direction}: {:.1} us", *nanoseconds as f64 / 1e3));
        }
        for (name, kernel) in &self.kernels {
            let counters = kernel.counters.iter();
            let means: Vec<String> = counters
                .map(|(counter, sum)| format!("{counter} {:.1}", sum / kernel.counted.max(1) as f64))
                .collect();
            if !means.is_empty() {
                notes.push(format!("{name}, mean of {} launches: {}", kernel.counted, means.join(", ")));
            }
        }
        notes
    }
}

/// The commands that trace batches of `positions` and that count the bytes of their kernels, for a shell. Both write
/// into the same folder. Counting makes kernels slower, so the times must be those of another run.
pub(super) fn commands(
    program: &Path,
    backend: &str,
    options: &str,
    weights: &str,
    positions: usize,
) -> [String; 2] {
    let traced: &[&str] = &["--kernel-trace", "--memory-copy-trace", "--stats"];
    let counted = &["--pmc", "FETCH_SIZE", "WRITE_SIZE"];
    [traced, counted].map(|what| command(what, (program, backend, options, weights), positions))
}

/// The command that profiles `what`.
fn command(
    what: &[&str],
    (program, backend, options, weights): (&Path, &str, &str, &str),
    positions: usize,
) -> String {
    let size = positions.to_string();
    let mut words: Vec<String> = std::iter::once(&"rocprofv3")
        .chain(what)
        .chain(&["--output-format", "csv", "--output-directory", "rukh-rocprof", "--"])
        .map(|word| (*word).to_owned())
        .collect();
    words.push(program.display().to_string());
    words.extend(["backendbench".to_owned(), format!("--backend={backend}")]);
    for (flag, value) in [("--backend-opts", options), ("--weights", weights)] {
        if !value.is_empty() {
            words.push(format!("{flag}={value}"));
        }
    }
    words.extend([
        format!("--start-batch-size={size}"),
        format!("--max-batch-size={size}"),
        "--batches=100".to_owned(),
    ]);
    words.iter().map(|word| for_shell(word)).collect::<Vec<_>>().join(" ")
}

/// A word in quotes, if a shell would change it.
fn for_shell(word: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "-_./=,:+@%".contains(character);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder with files as `rocprofv3` names them.
    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("host")).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join("host").join(format!("4711_{name}")), text).unwrap();
        }
        folder
    }

    // The columns of ROCm 6.2, of ROCm 7, and of rocpd's conversion of a database.
    const ROCM_6: &str = "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Id\",\"Kernel_Name\",\"Correlation_Id\",\
        \"Start_Timestamp\",\"End_Timestamp\",\"Private_Segment_Size\",\"Group_Segment_Size\",\"Workgroup_Size_X\"\n\
        \"KERNEL_DISPATCH\",1,2,15,\"attention_f16_d32\",0,1000,5000,0,0,128\n\
        \"KERNEL_DISPATCH\",1,2,15,\"attention_f16_d32\",0,5500,8500,0,0,128\n\
        \"KERNEL_DISPATCH\",1,2,16,\"void f<int>(int, int)\",0,9000,10000,0,0,64\n";
    const ROCM_7: &str = "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Stream_Id\",\"Thread_Id\",\"Dispatch_Id\",\"Kernel_Id\",\
        \"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\",\"LDS_Block_Size\",\"Scratch_Size\",\
        \"VGPR_Count\",\"Accum_VGPR_Count\",\"SGPR_Count\",\"Workgroup_Size_X\"\n\
        \"KERNEL_DISPATCH\",\"Agent 2\",1,0,70,1,33,\"attention_f16_d32\",1,1000,5000,0,0,12,4,48,128\n\
        \"KERNEL_DISPATCH\",\"Agent 2\",1,0,70,2,33,\"attention_f16_d32\",1,5500,8500,0,0,12,4,48,128\n\
        \"KERNEL_DISPATCH\",\"Agent 2\",1,0,70,3,34,\"void f<int>(int, int)\",1,9000,10000,0,0,12,4,48,64\n";
    const ROCPD: &str = "\"Guid\",\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\",\"Start_Timestamp\",\
        \"End_Timestamp\",\"Lds_Block_Size\",\"Vgpr_Count\"\n\
        \"0000-1\",\"KERNEL_DISPATCH\",\"Agent 4\",1,\"attention_f16_d32.kd\",1000,5000,0,16\n\
        \"0000-1\",\"KERNEL_DISPATCH\",\"Agent 4\",1,\"attention_f16_d32.kd\",5500,8500,0,16\n\
        \"0000-1\",\"KERNEL_DISPATCH\",\"Agent 4\",1,\"void f<int>(int, int)\",9000,10000,0,16\n";

    #[test]
    fn traces_of_every_version_give_the_same_table() {
        for text in [ROCM_6, ROCM_7, ROCPD] {
            let folder = folder(&[("kernel_trace.csv", text)]);
            let trace = read(folder.path()).unwrap();
            let steps = trace.measured(folder.path()).profile.steps;
            let found: Vec<(&str, usize, f64)> =
                steps.iter().map(|step| (&*step.operation, step.calls, step.mean())).collect();
            assert_eq!(found, [("attention_f16_d32", 2, 7.0), ("void f<int>(int, int)", 1, 1.0)]);
            assert_eq!(trace.gaps, (2, 1000));
        }
    }

    #[test]
    fn statistics_counters_and_copies_are_read() {
        let statistics = "\"Name\",\"Calls\",\"TotalDurationNs\",\"AverageNs\",\"Percentage\",\"MinNs\",\"MaxNs\",\
            \"StdDev\"\n\"attention_f16_d32\",2,7000,3500.000000,87.5,3000,4000,500.0\n";
        let counters = "\"Correlation_Id\",\"Dispatch_Id\",\"Agent_Id\",\"Queue_Id\",\"Process_Id\",\"Thread_Id\",\
            \"Grid_Size\",\"Kernel_Id\",\"Kernel_Name\",\"Workgroup_Size\",\"Counter_Name\",\"Counter_Value\"\n\
            1,1,4,1,10,10,1048576,15,\"attention_f16_d32\",64,\"FETCH_SIZE\",10.000000\n\
            1,1,4,1,10,10,1048576,15,\"attention_f16_d32\",64,\"WRITE_SIZE\",4.000000\n";
        let copies = "\"Kind\",\"Direction\",\"Source_Agent_Id\",\"Destination_Agent_Id\",\"Correlation_Id\",\
            \"Start_Timestamp\",\"End_Timestamp\"\n\"MEMORY_COPY\",\"HOST_TO_DEVICE\",0,1,0,100,2100\n";
        let folder = folder(&[
            ("kernel_stats.csv", statistics),
            ("counter_collection.csv", counters),
            ("memory_copy_trace.csv", copies),
        ]);
        let trace = read(folder.path()).unwrap();
        let steps = trace.measured(folder.path()).profile.steps;
        assert_eq!((steps[0].calls, steps[0].mean(), steps[0].bytes_of_a_call), (2, 7.0, 14.0 * 1024.0));
        let notes = trace.notes().join("\n");
        assert!(notes.contains("1 copies HOST_TO_DEVICE: 2.0 us"), "{notes}");
        assert!(notes.contains("mean of 1 launches: FETCH_SIZE 10.0, WRITE_SIZE 4.0"), "{notes}");
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let error = |files: &[(&str, &str)]| read(folder(files).path()).unwrap_err().to_string();
        assert!(error(&[]).contains("expected files whose names end in kernel_trace.csv"));
        let lacking = error(&[("kernel_trace.csv", "\"Kind\",\"Kernel_Name\"\n\"KERNEL_DISPATCH\",\"a\"\n")]);
        assert!(
            lacking.contains("has no column Start_Timestamp; its columns are `Kind, Kernel_Name`"),
            "{lacking}"
        );
        let wrong = error(&[("kernel_stats.csv", "Name,Calls,TotalDurationNs\na,many,1\n")]);
        assert!(wrong.contains("line 2: `Calls` is `many`, which is no number"), "{wrong}");
        let wrong = error(&[("kernel_stats.csv", "Name,\"Calls\t\",TotalDurationNs\na,many,1\n")]);
        assert!(wrong.contains("line 2: `Calls\\t` is `many`"), "{wrong}");
        assert!(read(Path::new("/nonexistent")).unwrap_err().to_string().contains("cannot read the folder"));
    }

    #[test]
    fn the_command_survives_a_shell() {
        let [line, counting] = commands(Path::new("/my games/rukh"), "rocm-fp16", "gpu=0", "it's.pb.gz", 64);
        assert!(
            line.starts_with("rocprofv3 --kernel-trace --memory-copy-trace --stats --output-format csv "),
            "{line}"
        );
        assert!(
            counting.starts_with("rocprofv3 --pmc FETCH_SIZE WRITE_SIZE --output-format csv "),
            "{counting}"
        );
        assert_eq!(
            line.split_once(" --output-format"),
            counting
                .split_once(" --output-format")
                .map(|(_, rest)| { ("rocprofv3 --kernel-trace --memory-copy-trace --stats", rest) })
        );
        assert!(
            line.contains(" -- '/my games/rukh' backendbench --backend=rocm-fp16 --backend-opts=gpu=0 "),
            "{line}"
        );
        assert!(
            line.contains("'--weights=it'\\''s.pb.gz' --start-batch-size=64 --max-batch-size=64"),
            "{line}"
        );
    }
}
