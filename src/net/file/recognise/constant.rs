//! The values of constants: as layers of a network file, as numbers, or as sizes.

use half::{bf16, f16};
use prost::bytes::Bytes;

use super::graph::{Graph, tensor_error};
use crate::error::Reason;
use crate::file::proto::Layer;
use crate::file::schema::LayerEncoding;
use crate::onnx::proto::{Tensor, data_location, data_type};

/// Tables and sizes have fewer values than this.
const MAXIMUM_INTEGERS: usize = 1 << 16;

/// The dimensions of a constant. All are positive, so none exceeds the number of the constant's values.
pub(super) fn dimensions(tensor: &Tensor) -> Result<Vec<usize>, Reason> {
    let sizes = tensor.dims.iter().map(|&size| usize::try_from(size).ok().filter(|&size| size > 0));
    sizes
        .collect::<Option<_>>()
        .ok_or_else(|| tensor_error(tensor.name(), "has a dimension that is not positive"))
}

/// The number of values that the dimensions of a constant call for.
fn expected_values(tensor: &Tensor) -> Result<usize, Reason> {
    Ok(dimensions(tensor)?.into_iter().fold(1usize, usize::saturating_mul))
}

/// Floats of one encoding, row-major and little-endian.
struct Floats {
    encoding: LayerEncoding,
    bytes: Bytes,
    /// The bytes of one value.
    width: usize,
}

/// The values of a constant of floats. Doubles become fp32.
fn floats(tensor: &Tensor) -> Result<Floats, Reason> {
    let error = |problem: &str| tensor_error(tensor.name(), problem);
    if tensor.data_location() == data_location::EXTERNAL {
        return Err(error("has its values in another file, which is not supported"));
    }
    let raw = tensor.raw_data.clone().filter(|raw| !raw.is_empty());
    let halves = || tensor.int32_data.iter().flat_map(|&bits| (bits as u16).to_le_bytes()).collect();
    let (encoding, width, bytes) = match (tensor.data_type(), raw) {
        (data_type::FLOAT, Some(raw)) => (LayerEncoding::Float32, 4, raw),
        (data_type::FLOAT, None) => {
            let bytes = tensor.float_data.iter().flat_map(|value| value.to_le_bytes()).collect();
            (LayerEncoding::Float32, 4, bytes)
        }
        (data_type::FLOAT16, raw) => (LayerEncoding::Float16, 2, raw.unwrap_or_else(halves)),
        (data_type::BFLOAT16, raw) => (LayerEncoding::BFloat16, 2, raw.unwrap_or_else(halves)),
        (data_type::DOUBLE, Some(raw)) => {
            let values = raw.as_chunks::<8>().0.iter().map(|&bytes| f64::from_le_bytes(bytes) as f32);
            (LayerEncoding::Float32, 4, values.flat_map(f32::to_le_bytes).collect())
        }
        (data_type::DOUBLE, None) => {
            let bytes = tensor.double_data.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect();
            (LayerEncoding::Float32, 4, bytes)
        }
        (other, _) => {
            return Err(error(&format!("has the data type {other}; known are f32, f16, bf16 and f64")));
        }
    };
    let expected = expected_values(tensor)?;
    if expected.checked_mul(width) != Some(bytes.len()) {
        return Err(error(&format!(
            "has {} values, but its dimensions need {expected}",
            bytes.len() / width
        )));
    }
    Ok(Floats { encoding, bytes, width })
}

/// The constant as a layer with the same values in the same order.
pub(super) fn layer(graph: &Graph<'_>, tensor: &Tensor) -> Result<Layer, Reason> {
    let floats = floats(tensor)?;
    graph.take(tensor, floats.bytes.len())?;
    Ok(encoded(floats.encoding, floats.bytes))
}

/// The constant, a matrix of `rows` and `columns`, as a layer with its transpose.
pub(super) fn transposed_layer(
    graph: &Graph<'_>,
    tensor: &Tensor,
    (rows, columns): (usize, usize),
) -> Result<Layer, Reason> {
    let floats = floats(tensor)?;
    if rows.checked_mul(columns) != Some(floats.bytes.len() / floats.width) {
        return Err(tensor_error(tensor.name(), &format!("is not a matrix of {rows} x {columns}")));
    }
    graph.take(tensor, floats.bytes.len())?;
    let transposed = match floats.width {
        2 => transpose::<2>(&floats.bytes, rows, columns),
        _ => transpose::<4>(&floats.bytes, rows, columns),
    };
    Ok(encoded(floats.encoding, transposed.into()))
}

fn encoded(encoding: LayerEncoding, params: Bytes) -> Layer {
    Layer { params, encoding: Some(encoding as i32), ..Layer::default() }
}

/// Zeros, for a layer without biases.
pub(super) fn zeros(count: usize) -> Layer {
    encoded(LayerEncoding::Float32, vec![0; 4 * count].into())
}

/// The transpose of a row-major matrix whose values have `WIDTH` bytes. It is done in squares that fit the cache.
fn transpose<const WIDTH: usize>(bytes: &[u8], rows: usize, columns: usize) -> Vec<u8> {
    const BLOCK: usize = 32;
    let values = bytes.as_chunks::<WIDTH>().0;
    let mut transposed = vec![[0; WIDTH]; values.len()];
    for row_start in (0..rows).step_by(BLOCK) {
        for column_start in (0..columns).step_by(BLOCK) {
            for row in row_start..rows.min(row_start + BLOCK) {
                for column in column_start..columns.min(column_start + BLOCK) {
                    transposed[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    transposed.into_flattened()
}

/// The values of a constant as fp32.
pub(super) fn values(tensor: &Tensor) -> Result<Vec<f32>, Reason> {
    let Floats { encoding, bytes, .. } = floats(tensor)?;
    let codes = bytes.as_chunks::<2>().0.iter().map(|&code| u16::from_le_bytes(code));
    Ok(match encoding {
        LayerEncoding::Float16 => codes.map(|code| f16::from_bits(code).to_f32()).collect(),
        LayerEncoding::BFloat16 => codes.map(|code| bf16::from_bits(code).to_f32()).collect(),
        _ => bytes.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect(),
    })
}

/// The value of a constant that has one value; `None` if it has another number of values.
pub(super) fn scalar(tensor: &Tensor) -> Option<f64> {
    let is_one = matches!(expected_values(tensor), Ok(1));
    let values = is_one.then(|| values(tensor).ok()).flatten()?;
    values.first().map(|&value| f64::from(value))
}

/// The values of a constant of integers.
pub(super) fn integers(tensor: &Tensor) -> Result<Vec<i64>, Reason> {
    let error = |problem: &str| tensor_error(tensor.name(), problem);
    let expected = expected_values(tensor)?;
    if expected > MAXIMUM_INTEGERS {
        return Err(error("has too many values"));
    }
    let raw = tensor.raw_data.as_deref().unwrap_or_default();
    let values: Vec<i64> = match (tensor.data_type(), raw.is_empty()) {
        (data_type::INT64, false) => raw.as_chunks::<8>().0.iter().map(|&b| i64::from_le_bytes(b)).collect(),
        (data_type::INT64, true) => tensor.int64_data.clone(),
        (data_type::INT32, false) => {
            raw.as_chunks::<4>().0.iter().map(|&b| i64::from(i32::from_le_bytes(b))).collect()
        }
        (data_type::INT32, true) => tensor.int32_data.iter().map(|&value| i64::from(value)).collect(),
        (other, _) => return Err(error(&format!("has the data type {other} instead of integers"))),
    };
    match values.len() == expected {
        true => Ok(values),
        false => Err(error(&format!("has {} values, but its dimensions need {expected}", values.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dims: &[i64], data_type: i32) -> Tensor {
        Tensor {
            dims: dims.to_vec(),
            data_type: Some(data_type),
            name: Some("w".into()),
            ..Tensor::default()
        }
    }

    #[test]
    fn every_way_to_store_values_is_read() {
        let raw = |data_type, bytes: &[u8]| Tensor {
            raw_data: Some(Bytes::copy_from_slice(bytes)),
            ..tensor(&[2], data_type)
        };
        let doubles: Vec<u8> = [1.5f64, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let floats: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let same = [
            raw(data_type::FLOAT, &floats),
            raw(data_type::DOUBLE, &doubles),
            raw(data_type::FLOAT16, &[0x00, 0x3e, 0x00, 0xc0]),
            raw(data_type::BFLOAT16, &[0xc0, 0x3f, 0x00, 0xc0]),
            Tensor { float_data: vec![1.5, -2.0], ..tensor(&[2], data_type::FLOAT) },
            Tensor { double_data: vec![1.5, -2.0], ..tensor(&[2], data_type::DOUBLE) },
            Tensor { int32_data: vec![0x3e00, 0xc000], ..tensor(&[2], data_type::FLOAT16) },
            Tensor { int32_data: vec![0x3fc0, 0xc000], ..tensor(&[2], data_type::BFLOAT16) },
        ];
        for tensor in same {
            assert_eq!(values(&tensor).expect("it is valid"), [1.5, -2.0], "{tensor:?}");
        }
        let integers_of = |tensor| integers(&tensor).expect("it is valid");
        assert_eq!(
            integers_of(Tensor { int64_data: vec![-1, 64], ..tensor(&[2], data_type::INT64) }),
            [-1, 64]
        );
        assert_eq!(
            integers_of(Tensor { int32_data: vec![-1, 64], ..tensor(&[2], data_type::INT32) }),
            [-1, 64]
        );
        assert_eq!(integers_of(raw(data_type::INT32, &[255, 255, 255, 255, 64, 0, 0, 0])), [-1, 64]);
    }

    #[test]
    fn wrong_sizes_and_types_are_refused() {
        let refused = |tensor: Tensor, problem: &str| {
            let error = values(&tensor).expect_err("it is refused").to_string();
            assert!(error.contains("tensor `w`") && error.contains(problem), "{error}");
        };
        let short = Tensor { float_data: vec![1.0], ..tensor(&[2], data_type::FLOAT) };
        refused(short.clone(), "has 1 values, but its dimensions need 2");
        refused(Tensor { dims: vec![-1], ..short.clone() }, "has a dimension that is not positive");
        refused(Tensor { dims: vec![i64::MAX; 4], ..short.clone() }, "values, but its dimensions need");
        refused(Tensor { data_type: Some(17), ..short.clone() }, "has the data type 17");
        refused(Tensor { data_location: Some(1), ..short }, "in another file");
        assert_eq!(scalar(&tensor(&[1], data_type::INT64)), None);
    }

    #[test]
    fn a_transpose_exchanges_rows_and_columns() {
        let bytes: Vec<u8> = (0..70u16 * 3).flat_map(u16::to_le_bytes).collect();
        let transposed = transpose::<2>(&bytes, 70, 3);
        let at = |row: usize, column: usize| {
            let start = 2 * (column * 70 + row);
            u16::from_le_bytes([transposed[start], transposed[start + 1]])
        };
        assert!((0..70).all(|row| (0..3).all(|column| usize::from(at(row, column)) == row * 3 + column)));
        assert_eq!(transpose::<2>(&transposed, 3, 70), bytes);
    }
}
