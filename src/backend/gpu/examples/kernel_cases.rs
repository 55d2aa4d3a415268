//! Writes the cases of all kernels, for programs that launch kernels without this package: the kernels' source on the
//! host, and the second emulator.
//!
//! usage: cargo run -p rukh-gpu --example kernel_cases FOLDER [LARGEST_COST]
//!
//! `FOLDER/arrays.bin` has the bytes of all arrays and of all expected values, one after another. `FOLDER/cases.json` is an
//! array of cases, with a line for each:
//!
//! | field | meaning |
//! |---|---|
//! | `kernel`, `family` | the kernel's name, and that name without type and size |
//! | `shape` | the shape in words |
//! | `cost` | the multiply-adds, and for each result as much as for 64 of them. Cases above LARGEST_COST are left out, unless they are the cheapest of their kernel |
//! | `needs_matrix_instructions` | whether the kernel exists only where there are matrix instructions |
//! | `is_optional` | whether some architectures have other kernels instead |
//! | `fp8` | the variant of e4m3 for which the results hold, `"ocp"` or `"fnuz"`, or null |
//! | `grid`, `threads` | the blocks `[x, y]`, and the threads of a block |
//! | `arguments` | the bytes of the structure of arguments, in hexadecimal |
//! | `pointers` | `[offset in the arguments, index of the array, offset in the array]` of each address among them, in bytes |
//! | `arrays` | the memory of the launch |
//!
//! An array has
//!
//! | field | meaning |
//! |---|---|
//! | `start`, `bytes` | where its bytes begin in `arrays.bin`, and their number. In memory it begins at a multiple of 256 |
//! | `element` | the type of its elements: f32, f16, bf16, i8, f8 and f8z (e4m3, `ocp` and `fnuz`), or u8 for anything else |
//! | `expected` | what it must hold after the launch, or null if it must not change |
//!
//! `expected` has `start` and `count`, the place of little-endian doubles in `arrays.bin`, one for each element from
//! the first. Of a NaN the element must stay as it was. Of any other value, |found - value| / max(least, |value|) must be
//! at most `allowed`, and what was found must be a number. All other bytes must stay as they were.
#![allow(clippy::print_stdout, reason = "a program")]

use rukh_gpu::cases::{KernelCase, affordable_cases};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

/// A file of bytes, and how many it has.
struct Bytes {
    file: BufWriter<File>,
    count: usize,
}

impl Bytes {
    /// Appends bytes. Returns where they begin, which is a multiple of 16.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let start = self.count.next_multiple_of(16);
        self.file.write_all(&[0; 16][..start - self.count])?;
        self.file.write_all(bytes)?;
        self.count = start + bytes.len();
        Ok(start)
    }
}

/// The description of a case, whose arrays are appended to `bytes`.
fn described(case: &KernelCase, bytes: &mut Bytes) -> io::Result<Value> {
    let launch = case.launch();
    let mut arrays = Vec::new();
    for array in &launch.arrays {
        let start = bytes.append(&array.bytes)?;
        let expected = match &array.expected {
            Some(expected) => {
                let values: Vec<u8> = expected.values.iter().flat_map(|value| value.to_le_bytes()).collect();
                let (count, start) = (expected.values.len(), bytes.append(&values)?);
                json!({"start": start, "count": count, "allowed": expected.allowed, "least": expected.least})
            }
            None => Value::Null,
        };
        let size = array.bytes.len();
        arrays.push(json!({"start": start, "bytes": size, "element": array.element, "expected": expected}));
    }
    let pointers = launch.pointers.iter().map(|to| json!([to.offset, to.array, to.array_offset]));
    let arguments: String = launch.arguments.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(json!({
        "kernel": case.kernel(),
        "family": case.family(),
        "shape": case.shape(),
        "cost": case.cost(),
        "needs_matrix_instructions": case.needs_matrix_instructions(),
        "is_optional": case.is_optional(),
        "fp8": case.fp8(),
        "grid": [launch.grid.0, launch.grid.1],
        "threads": launch.threads,
        "arguments": arguments,
        "pointers": pointers.collect::<Vec<Value>>(),
        "arrays": arrays,
    }))
}

/// Writes the cases that cost at most `largest`, and the cheapest of each kernel. Returns their number and the number
/// of bytes of their arrays.
fn write(folder: &Path, largest: usize) -> io::Result<(usize, usize)> {
    std::fs::create_dir_all(folder)?;
    let mut bytes = Bytes { file: BufWriter::new(File::create(folder.join("arrays.bin"))?), count: 0 };
    let mut text = BufWriter::new(File::create(folder.join("cases.json"))?);
    let mut count = 0;
    for case in &affordable_cases(largest) {
        write!(text, "{}{}", if count == 0 { "[\n" } else { ",\n" }, described(case, &mut bytes)?)?;
        count += 1;
    }
    writeln!(text, "\n]")?;
    text.flush()?;
    bytes.file.flush()?;
    Ok((count, bytes.count))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let largest = arguments.get(1).map_or(Ok(usize::MAX), |text| text.parse());
    let (Some(folder), Ok(largest)) = (arguments.first(), largest) else {
        eprintln!("usage: kernel_cases FOLDER [LARGEST_COST]");
        return ExitCode::FAILURE;
    };
    match write(Path::new(folder), largest) {
        Ok((count, bytes)) => {
            println!("{count} cases with {} MB in {folder}", bytes / 1_000_000);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{folder}: {error}");
            ExitCode::FAILURE
        }
    }
}
