//! The file format of the table of tuned products: a line with the device and library versions, a line with the column
//! names, and one line for each shape, with comma-separated values.
//!
//! A choice is the number of an algorithm: for rocBLAS its solution index, or -1 if rocBLAS chooses, and for hipBLASLt
//! its rank in the list that the library proposes. For our own kernels it is 100 times the number of the tile, plus the
//! number of parts of the summed axis. Another version of a library may number the algorithms in another
//! way, so a table for another device or version is not used.
//!
//! A time of `inf` belongs to a product that was asked for but not timed yet, and a time of -1 to one that no library
//! could run alone.

use super::avoided::BlasLibrary;
use super::ffi::gemm::GemmShape;
use super::gemm::{GemmChoice, GemmTable, Measured};
use super::own::OwnChoice;
use super::shape_text;
use std::fmt::Write;

/// The beginning of the first line: the format and its version.
const TITLE: &str = "# rukh's products, 1";

/// The names of the columns after those of the shape.
const COLUMNS: &str = "library,choice,microseconds";

/// Formats a table; `key` names the device and the library versions.
pub(super) fn text(key: &str, table: &GemmTable) -> String {
    let mut text = format!("{TITLE},{key}\n{},{COLUMNS}\n", shape_text::COLUMNS);
    for (shape, measured) in table {
        let _ = writeln!(text, "{}", row_text(shape, measured));
    }
    text
}

/// Formats one line of a table.
pub(super) fn row_text(shape: &GemmShape, measured: &Measured) -> String {
    let (library, choice) = match measured.choice {
        GemmChoice::Rocblas { solution } => (BlasLibrary::Rocblas, solution.map_or(-1, i64::from)),
        GemmChoice::HipblasLt { rank } => (BlasLibrary::HipblasLt, rank as i64),
        GemmChoice::Own(choice) => (BlasLibrary::Own, choice.number() as i64),
    };
    format!("{},{},{choice},{:.2}", shape_text::text(shape), library.key(), measured.microseconds)
}

/// Parses a table.
///
/// # Errors
/// A message that says why the text is not a table for the device and library versions in `key`.
pub(super) fn parse(key: &str, text: &str) -> Result<GemmTable, String> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let found = first.strip_prefix(TITLE).and_then(|rest| rest.strip_prefix(','));
    match found {
        None => return Err("it is not a table of tuned products".to_owned()),
        Some(found) if found != key => return Err(format!("it is for {found}, but this is {key}")),
        Some(_) => {}
    }
    if lines.next() != Some(&format!("{},{COLUMNS}", shape_text::COLUMNS)) {
        return Err("it has unknown columns".to_owned());
    }
    let rows = lines.enumerate().filter(|(_, line)| !line.is_empty());
    rows.map(|(index, line)| row(line).ok_or_else(|| format!("line {} is damaged: {line}", index + 3)))
        .collect()
}

/// Parses one line of a table.
pub(super) fn row(line: &str) -> Option<(GemmShape, Measured)> {
    let cells: Vec<&str> = line.split(',').collect();
    let &[ref shape @ .., library, choice, microseconds] = cells.as_slice() else {
        return None;
    };
    let choice = match BlasLibrary::from_key(library)? {
        BlasLibrary::Rocblas => {
            GemmChoice::Rocblas { solution: choice.parse().ok().filter(|&index: &i32| index >= 0) }
        }
        BlasLibrary::HipblasLt => GemmChoice::HipblasLt { rank: choice.parse().ok()? },
        BlasLibrary::Own => GemmChoice::Own(OwnChoice::from_number(choice.parse().ok()?)?),
    };
    Some((shape_text::parse(shape)?, Measured { choice, microseconds: microseconds.parse().ok()? }))
}

#[cfg(test)]
mod tests {
    use super::super::ffi::gemm::{ElementType, Epilogue};
    use super::*;

    fn table() -> GemmTable {
        let plain = GemmShape::plain(1024, 768, 256, ElementType::Fp16);
        let batched = GemmShape {
            batch: 36,
            batch_strides: [1, 2, 3],
            output_type: ElementType::Fp32,
            accumulate: true,
            ..plain
        };
        let rocblas = |solution| GemmChoice::Rocblas { solution };
        GemmTable::from([
            (plain, Measured { choice: rocblas(None), microseconds: 12.25 }),
            (batched, Measured { choice: rocblas(Some(7)), microseconds: 1.5 }),
            (
                GemmShape { epilogue: Epilogue::BiasSwish, ..plain },
                Measured { choice: GemmChoice::HipblasLt { rank: 3 }, microseconds: 9.0 },
            ),
            (
                GemmShape { epilogue: Epilogue::Bias, ..plain },
                Measured { choice: rocblas(None), microseconds: Measured::NOT_YET },
            ),
        ])
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        assert_eq!(parse("card,1", &text("card,1", &table())), Ok(table()));
    }

    #[test]
    fn an_unusable_table_is_refused_with_the_reason() {
        let good = text("card,1", &table());
        let error = |text: &str| parse("card,1", text).unwrap_err();
        assert_eq!(error(""), "it is not a table of tuned products");
        assert_eq!(error(&text("card,2", &table())), "it is for card,2, but this is card,1");
        assert_eq!(error(&good.replace("outputs", "columns")), "it has unknown columns");
        assert!(error(&good.replace("hipblaslt", "cublas")).starts_with("line "));
        assert!(error(&good[..good.len() - 8]).contains("is damaged"));
    }
}
