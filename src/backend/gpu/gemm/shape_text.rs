//! The text form of a GEMM's shape: comma-separated cells. The file of avoided GEMMs and the messages of
//! a helper process use it.

use crate::runtime::ffi::gemm::{ElementType, Epilogue, GemmShape};
use crate::runtime::fp8::Fp8Format;

const TYPES: [ElementType; 6] = [
    ElementType::Fp32,
    ElementType::Fp16,
    ElementType::Bf16,
    ElementType::Int8,
    ElementType::Fp8(Fp8Format::Ocp),
    ElementType::Fp8(Fp8Format::Fnuz),
];

const EPILOGUES: [(Epilogue, &str); 9] = [
    (Epilogue::None, "none"),
    (Epilogue::Bias, "bias"),
    (Epilogue::BiasRelu, "bias relu"),
    (Epilogue::BiasSwish, "bias swish"),
    (Epilogue::BiasRelu2, "bias relu2"),
    (Epilogue::BiasTanh, "bias tanh"),
    (Epilogue::BiasSigmoid, "bias sigmoid"),
    (Epilogue::BiasSelu, "bias selu"),
    (Epilogue::BiasMish, "bias mish"),
];

/// The element type with this [`ElementType::name`].
pub(crate) fn element(name: &str) -> Option<ElementType> {
    TYPES.into_iter().find(|element| element.name() == name)
}

/// An epilogue's name.
pub(crate) fn epilogue_name(epilogue: Epilogue) -> &'static str {
    EPILOGUES.iter().find(|(known, _)| *known == epilogue).map_or("", |(_, name)| name)
}

/// The epilogue with this [`epilogue_name`].
pub(crate) fn epilogue(name: &str) -> Option<Epilogue> {
    EPILOGUES.iter().find(|(_, known)| *known == name).map(|(epilogue, _)| *epilogue)
}

/// Formats a shape.
pub(crate) fn text(shape: &GemmShape) -> String {
    let GemmShape { outputs, rows, inputs, weights_stride, x_stride, y_stride, batch, .. } = shape;
    let [w, x, y] = shape.batch_strides;
    let (input, output) = (shape.input_type.name(), shape.output_type.name());
    let [accumulate, is_gated, may_round] = [shape.accumulate, shape.is_gated, shape.may_round].map(u8::from);
    let epilogue = epilogue_name(shape.epilogue);
    format!(
        "{outputs},{rows},{inputs},{weights_stride},{x_stride},{y_stride},{batch},{w},{x},{y},{input},{output},\
         {accumulate},{epilogue},{is_gated},{may_round}"
    )
}

/// Parses the cells of a shape. Returns `None` if there are too few or too many of them, or one is damaged.
pub(crate) fn parse(cells: &[&str]) -> Option<GemmShape> {
    let &[ref numbers @ .., input, output, accumulate, epilogue, is_gated, may_round] = cells else {
        return None;
    };
    let numbers: Vec<usize> = numbers.iter().map(|cell| cell.parse().ok()).collect::<Option<_>>()?;
    let &[outputs, rows, inputs, weights_stride, x_stride, y_stride, batch, w, x, y] = numbers.as_slice()
    else {
        return None;
    };
    Some(GemmShape {
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
        accumulate: truth(accumulate)?,
        epilogue: self::epilogue(epilogue)?,
        is_gated: truth(is_gated)?,
        may_round: truth(may_round)?,
    })
}

fn truth(cell: &str) -> Option<bool> {
    match cell {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_read_as_it_was_written() {
        let plain = GemmShape::plain(1024, 768, 256, ElementType::Fp16);
        let shapes = [
            plain,
            GemmShape { epilogue: Epilogue::BiasRelu, is_gated: true, ..plain },
            GemmShape { may_round: true, ..plain },
            GemmShape { input_type: ElementType::Int8, ..plain },
            GemmShape { input_type: ElementType::Fp8(Fp8Format::Fnuz), ..plain },
            GemmShape { batch: 36, batch_strides: [1, 2, 3], accumulate: true, ..plain },
        ];
        for shape in shapes {
            let text = text(&shape);
            let cells: Vec<&str> = text.split(',').collect();
            assert_eq!(parse(&cells), Some(shape));
            assert_eq!(parse(&cells[1..]), None);
        }
    }
}
