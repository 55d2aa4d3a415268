//! The file format of the table of tuned GEMMs: comma-separated values, with the columns of aiter's tuned GEMMs
//! (<https://github.com/ROCm/aiter>, `aiter/configs/bf16_tuned_gemm.csv`) first, and some of our own after them.
//!
//! M is the number of rows, N of outputs and K of inputs. `libtype` and `solidx` name the algorithm: for rocBLAS and
//! hipBLASLt its solution index, or -1 if the library chooses, and for our own kernels (`own`) the number of the tile,
//! with the number of parts of the summed axis in `splitK`, and the kernel's name in `kernelName`. `bpreshuffle` says
//! whether our own kernel reads preshuffled weights. `us` is the time of one GEMM in microseconds. It is `inf` for a
//! GEMM that was asked for but not timed yet, and -1 for one that no library could run alone. `err_ratio` is the
//! largest error that was found, relative to the expected number or absolute if that is smaller than 1. `tflops` and
//! `bw` (GB/s) follow from the time.
//!
//! Our own columns have what aiter's lack: strides, batches, the whole epilogue with its gates, whether a library reads
//! transposed weights (`w_transposed`), whether the weights may be rounded to 8 bits (`w_may_round`) and our own kernel
//! reads them so (`w_8bit`), how thoroughly the GEMM was measured, and with which versions. A file without them
//! describes dense GEMMs with plain weights.
//!
//! Another version of a library may number the algorithms in another way, and another card has other fast algorithms.
//! Rows for these are left out, as damaged rows are, and the reader says so.

use super::cells::Cells;
use super::left_out::{Fault, LeftOut};
use super::row::{AITER_COLUMNS, OWN_COLUMNS, Origin, Row, cells};
use crate::gemm::gemms::GemmTable;
use crate::runtime::ffi::gemm::GemmShape;
use std::collections::BTreeMap;

/// The columns without which a file is no table.
const NEEDED_COLUMNS: [&str; 11] =
    ["gfx", "cu_num", "M", "N", "K", "bias", "dtype", "outdtype", "libtype", "solidx", "us"];

/// The content of a file.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Parsed {
    pub(crate) rows: BTreeMap<GemmShape, Row>,
    pub(crate) left_out: LeftOut,
}

/// Formats a table.
pub(crate) fn text(origin: &Origin, table: &GemmTable) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = AITER_COLUMNS.iter().chain(&OWN_COLUMNS).map(|name| (*name).to_owned()).collect();
    let rows = table.iter().map(|(shape, measured)| cells(origin, shape, measured));
    for record in std::iter::once::<Vec<String>>(header).chain(rows) {
        // Writing to memory does not fail, and all records have the same length.
        let _ = writer.write_record(&record);
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// Parses a table. Of several rows for a GEMM, the last one counts.
///
/// # Errors
/// The text has no header, or one that lacks a column.
pub(crate) fn parse(origin: &Origin, text: &str) -> Result<Parsed, String> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    let place = |name: &&str| header.iter().position(|cell| cell == *name);
    if let Some(missing) = NEEDED_COLUMNS.iter().find(|name| place(name).is_none()) {
        return Err(format!("it is not a table of tuned GEMMs, because it has no column {missing}"));
    }
    let names = AITER_COLUMNS.into_iter().chain(OWN_COLUMNS);
    let columns = names.filter_map(|name| Some((name, place(&name)?))).collect();
    let mut parsed = Parsed::default();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                parsed.left_out.add(Fault::Damaged, line, "");
                continue;
            }
        };
        let cells = Cells { columns: &columns, record: &record };
        match cells.row(origin) {
            Ok((shape, row)) => {
                parsed.rows.insert(shape, row);
            }
            Err((fault, text)) => {
                let line = record.position().map_or(0, csv::Position::line);
                parsed.left_out.add(fault, line, &text);
            }
        }
    }
    Ok(parsed)
}

/// Reads `text` as a table of some device, and writes what could be read. The second part has what was wrong. The fuzz
/// target and the property test of such files use this.
///
/// # Errors
/// As [`parse`].
pub fn rewritten(text: &str) -> Result<(String, Option<String>), String> {
    let versions = "versions".to_owned();
    let origin = Origin { architecture: "gfx1100".to_owned(), multiprocessors: 96, versions };
    let Parsed { rows, left_out } = parse(&origin, text)?;
    let table = rows.into_iter().map(|(shape, row)| (shape, row.measured)).collect();
    Ok((self::text(&origin, &table), (!left_out.is_empty()).then(|| left_out.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::gemms::{Effort, GemmChoice, Measured};
    use crate::gemm::own::OwnChoice;
    use crate::runtime::ffi::gemm::{ElementType, Epilogue, WeightLayout};
    use crate::runtime::fp8::Fp8Format;

    fn origin() -> Origin {
        let versions = "Some card, 96 units, HIP 7".to_owned();
        Origin { architecture: "gfx1100".to_owned(), multiprocessors: 96, versions }
    }

    fn table() -> GemmTable {
        let plain = GemmShape::plain(1024, 768, 256, ElementType::Fp16);
        let batched = GemmShape {
            batch: 36,
            batch_strides: [1, 2, 3],
            output_type: ElementType::Fp32,
            accumulate: true,
            ..plain
        };
        let [unchanged, preshuffled, transposed, bytes] = WeightLayout::ALL;
        let rocblas = |solution| GemmChoice::Rocblas { solution, layout: unchanged };
        let (error, effort) = (2e-3, Effort::Quick);
        let with = |choice, microseconds| Measured { choice, microseconds, error, effort };
        GemmTable::from([
            (plain, with(rocblas(None), 12.25)),
            (batched, Measured { effort: Effort::Full, ..with(rocblas(Some(7)), 1.5) }),
            (
                GemmShape { epilogue: Epilogue::BiasSwish, ..plain },
                with(GemmChoice::HipblasLt { solution: Some(3), layout: unchanged }, 9.0),
            ),
            (
                GemmShape { epilogue: Epilogue::BiasRelu, ..plain },
                with(GemmChoice::HipblasLt { solution: Some(5), layout: transposed }, 8.0),
            ),
            (
                GemmShape { rows: 2048, ..plain },
                with(GemmChoice::Rocblas { solution: None, layout: transposed }, 20.5),
            ),
            (GemmShape { epilogue: Epilogue::Bias, ..plain }, with(rocblas(None), Measured::NOT_YET)),
            (
                GemmShape { epilogue: Epilogue::BiasMish, is_gated: true, ..plain },
                with(GemmChoice::Own(OwnChoice::new(2, 1, unchanged).expect("a tile")), 4.5),
            ),
            (
                GemmShape { epilogue: Epilogue::BiasMish, ..plain },
                with(GemmChoice::Own(OwnChoice::new(2, 4, unchanged).expect("a tile")), 3.5),
            ),
            (
                GemmShape { epilogue: Epilogue::BiasTanh, ..plain },
                with(GemmChoice::Own(OwnChoice::new(1, 1, preshuffled).expect("a tile")), 2.5),
            ),
            (
                GemmShape { rows: 4096, may_round: true, ..plain },
                with(GemmChoice::Own(OwnChoice::new(4, 2, bytes).expect("a tile")), 1.5),
            ),
        ])
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let text = text(&origin(), &table());
        let first = "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,\
                     err_ratio,tflops,bw,";
        assert!(text.starts_with(first), "{text}");
        let Parsed { rows, left_out } = parse(&origin(), &text).unwrap();
        assert!(left_out.is_empty(), "{left_out}");
        assert!(rows.values().all(|row| row.has_same_versions));
        let rows: GemmTable = rows.into_iter().map(|(shape, row)| (shape, row.measured)).collect();
        assert_eq!(rows, table());
    }

    #[test]
    fn gemms_of_8_bits_have_scales_and_kernels_of_their_own() {
        let plain = GemmShape::plain(64, 32, 16, ElementType::Fp16);
        let types = [ElementType::Int8, ElementType::Fp8(Fp8Format::Ocp), ElementType::Fp8(Fp8Format::Fnuz)];
        let choice = GemmChoice::Own(OwnChoice::new(2, 1, WeightLayout::Plain).expect("a tile"));
        let row = Measured { choice, microseconds: 2.0, error: 0.0, effort: Effort::Passes };
        let table = GemmTable::from(types.map(|input_type| (GemmShape { input_type, ..plain }, row)));
        let text = text(&origin(), &table);
        for cells in [
            "torch.int8,torch.float16,True,False,own,2,1,2.0000,gemm_bytes_f16_64x64_128,",
            "torch.float8_e4m3fn,torch.float16,True,False,own,2,1,2.0000,gemm_fp8_f16_64x64_128,",
            "torch.float8_e4m3fnuz,torch.float16,True,False,own,",
        ] {
            assert!(text.contains(cells), "{text}");
        }
        let Parsed { rows, left_out } = parse(&origin(), &text).unwrap();
        assert!(left_out.is_empty(), "{left_out}");
        assert_eq!(rows.into_iter().map(|(shape, row)| (shape, row.measured)).collect::<GemmTable>(), table);
        for (change, left) in [
            (("True,False,own", "True,False,hipblaslt"), 0),
            (("torch.float16,True", "torch.float16,False"), 0),
            (("torch.int8", "torch.float16"), 2),
        ] {
            let parsed = parse(&origin(), &text.replace(change.0, change.1)).unwrap();
            assert_eq!(parsed.rows.len(), left, "{change:?}: {}", parsed.left_out);
        }
    }

    /// M=1024, N=768 and K=256 in 12.25 µs: 402,653,184 operations, and 2,490,368 bytes.
    #[test]
    fn rates_follow_from_the_time() {
        let text = text(&origin(), &table());
        let row = text.lines().find(|line| line.contains(",12.2500,")).unwrap();
        assert!(row.contains(",2.0e-3,32.87,203.30,"), "{row}");
    }

    #[test]
    fn a_file_of_aiter_describes_dense_gemms() {
        let text = "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw\n\
                    gfx1100,96,64,32,16,True,torch.bfloat16,torch.bfloat16,False,False,hipblaslt,813,0,4.5,\"a<1, 2>\",0.0,1,2\n\
                    gfx1100,96,64,32,16,False,torch.bfloat16,torch.bfloat16,False,False,asm,0,2,4.5,name,0.0,1,2\n\
                    gfx1100,96,64,32,16,False,torch.bfloat16,torch.bfloat16,False,True,hipblaslt,1,0,4.5,,0.0,1,2\n\
                    gfx942,304,64,32,16,False,torch.bfloat16,torch.bfloat16,False,False,hipblaslt,1,0,4.5,,0.0,1,2\n";
        let Parsed { rows, left_out } = parse(&origin(), text).unwrap();
        let shape = GemmShape { epilogue: Epilogue::Bias, ..GemmShape::plain(64, 32, 16, ElementType::Bf16) };
        assert_eq!(rows.keys().collect::<Vec<_>>(), [&shape]);
        let layout = WeightLayout::Plain;
        assert_eq!(rows[&shape].measured.choice, GemmChoice::HipblasLt { solution: Some(813), layout });
        assert!(!rows[&shape].has_same_versions);
        assert_eq!(
            left_out.to_string(),
            "1 row is for another device (line 5: `gfx942 with 304 compute units`), \
             2 rows are for GEMMs or kernels that Rukh does not have (line 3: `asm`)"
        );
    }

    /// The kernel for any width had number 6 before there were tiles of 64 x 128, and has number 12 now.
    #[test]
    fn a_row_of_our_own_counts_only_if_its_number_still_means_its_kernel() {
        let shape = GemmShape::plain(64, 30, 15, ElementType::Fp16);
        let row = |tile: usize| {
            let choice = GemmChoice::Own(OwnChoice::new(tile, 1, WeightLayout::Plain).expect("a tile"));
            GemmTable::from([(
                shape,
                Measured { choice, microseconds: 2.0, error: 0.0, effort: Effort::Full },
            )])
        };
        let text = text(&origin(), &row(12));
        assert!(text.contains(",own,12,1,2.0000,gemm_any_f16,"), "{text}");
        let without_versions = text.replace("measured_with", "x");
        for text in [&text, &without_versions] {
            let Parsed { rows, left_out } = parse(&origin(), text).unwrap();
            assert!(left_out.is_empty(), "{left_out}");
            assert_eq!(rows[&shape].measured, row(12)[&shape]);
            let before = text.replace(",own,12,", ",own,6,");
            let Parsed { rows, left_out } = parse(&origin(), &before).unwrap();
            assert!(rows.is_empty());
            let said = "1 row is measured with other versions (line 2: `gemm_any_f16`)";
            assert_eq!(left_out.to_string(), said);
            // What the number means now is the same kernel that the row names.
            let renamed = before.replace("gemm_any_f16", "gemm_f16_64x128_128");
            assert_eq!(parse(&origin(), &renamed).unwrap().rows[&shape].measured, row(6)[&shape]);
            // A number beyond the last one, and a file that names no kernels.
            assert!(parse(&origin(), &text.replace(",own,12,", ",own,13,")).unwrap().rows.is_empty());
            assert!(parse(&origin(), &text.replace("kernelName", "y")).unwrap().rows.is_empty());
        }
    }

    #[test]
    fn what_cannot_be_used_is_left_out_with_the_reason() {
        let good = text(&origin(), &table());
        let said = |text: &str| parse(&origin(), text).unwrap().left_out.to_string();
        let missing = "it is not a table of tuned GEMMs, because it has no column ";
        assert_eq!(parse(&origin(), ""), Err(format!("{missing}gfx")));
        assert_eq!(parse(&origin(), &good.replace("solidx", "x")), Err(format!("{missing}solidx")));
        let other = Origin { versions: "HIP 6".to_owned(), ..origin() };
        assert_eq!(
            said(&text(&other, &table())),
            "10 rows are measured with other versions (line 2: `HIP 6`)"
        );
        let other = Origin { multiprocessors: 48, ..origin() };
        assert_eq!(
            said(&text(&other, &table())),
            "10 rows are for another device (line 2: `gfx1100 with 48 work-group processors`)"
        );
        assert_eq!(said(&good.replace("bias swish", "bias wish")), "1 row is damaged (line 5: `bias wish`)");
        assert_eq!(said(&good.replace("12.2500", "NaN")), "1 row is damaged (line 2: `NaN`)");
        assert_eq!(
            said(&good.replace("False,True,own", "False,Maybe,own")),
            "1 row is damaged (line 6: `Maybe`)"
        );
        assert_eq!(
            said(&good.replace("False,True,own,1", "False,True,hipblaslt,1")),
            "1 row is for GEMMs or kernels that Rukh does not have (line 6: `bpreshuffle`)"
        );
        // The line of the relu, by hipBLASLt with transposed weights.
        let relu = |change: (&str, &str)| said(&good.replacen(change.0, change.1, 1));
        let unknown = "1 row is for GEMMs or kernels that Rukh does not have (line 4: `w_transposed`)";
        assert_eq!(relu(("False,hipblaslt,5", "False,own,1")), unknown);
        assert_eq!(relu(("False,hipblaslt,5", "False,rocblas,5")), unknown);
        assert_eq!(
            relu(("False,hipblaslt,5", "True,hipblaslt,5")),
            "1 row is damaged (line 4: `w_transposed`)"
        );
        // The last line, by our own kernel with weights of 8 bits.
        assert!(good.contains(",gemm_byte_weights_f16_64x32_128,"), "{good}");
        assert_eq!(
            said(&good.replace("False,False,own,4,2", "False,True,own,4,2")),
            "1 row is damaged (line 11: `w_8bit`)"
        );
        assert_eq!(
            said(&good.replace(",True,True\n", ",False,True\n")),
            "1 row is damaged (line 11: `w_8bit`)"
        );
        assert_eq!(
            said(&good.replace("False,False,own,4,2", "False,False,hipblaslt,4,2")),
            "1 row is for GEMMs or kernels that Rukh does not have (line 11: `w_8bit`)"
        );
        assert_eq!(
            relu(("bias relu,False,True,", "bias relu,False,Perhaps,")),
            "1 row is damaged (line 4: `Perhaps`)"
        );
        let versions = format!("\"{}\"", origin().versions);
        assert_eq!(
            relu((&format!("bias relu,False,True,quick,{versions}"), "bias relu,False,True,quick,")),
            "1 row is measured with other versions (line 4: ``)"
        );
        // Without its columns, the row with weights of 8 bits would be one with plain weights, whose kernel it does not
        // name.
        let old = good.replace(",w_transposed,", ",x,").replace("measured_with,w_may_round,w_8bit", "y,v,w");
        assert_eq!(
            parse(&origin(), &old).unwrap().rows.len(),
            9,
            "files without these columns are read, but for that row"
        );
        let without_versions = good.replace("measured_with", "y");
        assert!(
            said(&without_versions).starts_with("2 rows are damaged (line "),
            "{}",
            said(&without_versions)
        );
        // A line that ends early.
        assert!(said(&good[..good.len() - 60]).starts_with("1 row is "));
    }
}
