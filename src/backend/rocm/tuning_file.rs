//! The table of measured products as a file: a line that says for which device and libraries it holds, the columns'
//! names, and a line per shape, all separated by commas.
//!
//! Proposals are counted in the order in which a library gives them, which another version may change: a table of
//! another device or version is stale, and is not read.

use super::ffi::gemm::{ElementType, Epilogue, GemmShape};
use super::gemm::{GemmChoice, GemmTable, Measured};
use std::fmt::Write;

/// What the first line begins with.
const TITLE: &str = "# rukh's products, 1";

const COLUMNS: &str = "outputs,rows,inputs,weights stride,x stride,y stride,batch,weights batch stride,\
                       x batch stride,y batch stride,input type,output type,accumulate,epilogue,library,choice,\
                       microseconds";

const TYPES: [ElementType; 3] = [ElementType::Fp32, ElementType::Fp16, ElementType::Bf16];

const EPILOGUES: [(Epilogue, &str); 4] = [
    (Epilogue::None, "none"),
    (Epilogue::Bias, "bias"),
    (Epilogue::BiasRelu, "bias relu"),
    (Epilogue::BiasSwish, "bias swish"),
];

/// A table as the text of its file; `key` is the device and the libraries.
pub(super) fn text(key: &str, table: &GemmTable) -> String {
    let mut text = format!("{TITLE},{key}\n{COLUMNS}\n");
    for (shape, measured) in table {
        let GemmShape { outputs, rows, inputs, weights_stride, x_stride, y_stride, batch, .. } = shape;
        let [w, x, y] = shape.batch_strides;
        let (input, output) = (shape.input_type.name(), shape.output_type.name());
        let accumulate = u8::from(shape.accumulate);
        let epilogue =
            EPILOGUES.iter().find(|(epilogue, _)| *epilogue == shape.epilogue).map_or("", |(_, n)| n);
        let (library, choice) = match measured.choice {
            GemmChoice::Rocblas { solution } => ("rocblas", solution.map_or(-1, i64::from)),
            GemmChoice::HipblasLt { rank } => ("hipblaslt", rank as i64),
        };
        let _ = writeln!(
            text,
            "{outputs},{rows},{inputs},{weights_stride},{x_stride},{y_stride},{batch},{w},{x},{y},{input},\
             {output},{accumulate},{epilogue},{library},{choice},{:.2}",
            measured.microseconds
        );
    }
    text
}

/// The table in a file's text.
///
/// # Errors
/// The text is none, or for another device or other versions: in words.
pub(super) fn parse(key: &str, text: &str) -> Result<GemmTable, String> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let found = first.strip_prefix(TITLE).and_then(|rest| rest.strip_prefix(','));
    match found {
        None => return Err("it is no table of products".to_owned()),
        Some(found) if found != key => return Err(format!("it is for {found}, and this is {key}")),
        Some(_) => {}
    }
    if lines.next() != Some(COLUMNS) {
        return Err("its columns are not known".to_owned());
    }
    let rows = lines.enumerate().filter(|(_, line)| !line.is_empty());
    rows.map(|(index, line)| row(line).ok_or_else(|| format!("line {} is damaged: {line}", index + 3)))
        .collect()
}

fn row(line: &str) -> Option<(GemmShape, Measured)> {
    let cells: Vec<&str> = line.split(',').collect();
    let &[ref numbers @ .., input, output, accumulate, epilogue, library, choice, microseconds] =
        cells.as_slice()
    else {
        return None;
    };
    let numbers: Vec<usize> = numbers.iter().map(|cell| cell.parse().ok()).collect::<Option<_>>()?;
    let &[outputs, rows, inputs, weights_stride, x_stride, y_stride, batch, w, x, y] = numbers.as_slice()
    else {
        return None;
    };
    let element = |name: &str| TYPES.into_iter().find(|element| element.name() == name);
    let shape = GemmShape {
        outputs,
        rows,
        inputs,
        weights_stride,
        x_stride,
        y_stride,
        batch,
        batch_strides: [w, x, y],
        input_type: element(input)?,
        output_type: element(output)?,
        accumulate: match accumulate {
            "0" => false,
            "1" => true,
            _ => return None,
        },
        epilogue: EPILOGUES.iter().find(|(_, name)| *name == epilogue)?.0,
    };
    let choice = match library {
        "rocblas" => GemmChoice::Rocblas { solution: choice.parse().ok().filter(|&index: &i32| index >= 0) },
        "hipblaslt" => GemmChoice::HipblasLt { rank: choice.parse().ok()? },
        _ => return None,
    };
    Some((shape, Measured { choice, microseconds: microseconds.parse().ok()? }))
}

#[cfg(test)]
mod tests {
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
        ])
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        assert_eq!(parse("card,1", &text("card,1", &table())), Ok(table()));
    }

    #[test]
    fn what_does_not_hold_here_is_told() {
        let good = text("card,1", &table());
        let error = |text: &str| parse("card,1", text).unwrap_err();
        assert_eq!(error(""), "it is no table of products");
        assert_eq!(error(&text("card,2", &table())), "it is for card,2, and this is card,1");
        assert_eq!(error(&good.replace("outputs", "columns")), "its columns are not known");
        assert!(error(&good.replace("hipblaslt", "cublas")).starts_with("line "));
        assert!(error(&good[..good.len() - 8]).contains("is damaged"));
    }
}
