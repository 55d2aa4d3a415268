//! The part of the network that a step belongs to, from its name.

/// The stages that have a number after their name, such as `encoder 3`.
const NUMBERED: [&str; 3] = ["policy encoder", "encoder", "block"];

/// The other stages. A name that begins with another one comes first.
const OTHERS: [&str; 6] = ["embedding", "value error", "value", "moves left", "policy", "input"];

/// The stage, the number of the encoder or block, and the operation.
pub(super) fn place(name: &str) -> (&'static str, Option<usize>, String) {
    for stage in NUMBERED {
        if let Some((number, operation)) = after(name, stage).and_then(|rest| rest.split_once(' '))
            && let Ok(index) = number.parse()
        {
            return (stage, Some(index), operation.to_owned());
        }
    }
    for stage in OTHERS {
        if let Some(operation) = after(name, stage) {
            return (stage, None, operation.to_owned());
        }
    }
    match name {
        "policy" => ("policy", None, "softmax".to_owned()),
        "attention policy" => ("policy", None, "attention".to_owned()),
        "embedding" => ("embedding", None, "dense".to_owned()),
        "positional layer" | "positional embedding" => ("embedding", None, name.to_owned()),
        _ => ("input", None, name.to_owned()),
    }
}

/// The words after `stage`.
fn after<'a>(name: &'a str, stage: &str) -> Option<&'a str> {
    name.strip_prefix(stage)?.strip_prefix(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_steps_say_where_they_are() {
        for (name, stage, index, operation) in [
            ("encoder 3 LayerNorm 1", "encoder", Some(3), "LayerNorm 1"),
            ("policy encoder 0 FFN 1", "policy encoder", Some(0), "FFN 1"),
            ("block 12 conv1 components", "block", Some(12), "conv1 components"),
            ("embedding FFN 1", "embedding", None, "FFN 1"),
            ("policy convolution 1 board", "policy", None, "convolution 1 board"),
            ("value error output", "value error", None, "output"),
            ("moves left hidden layer", "moves left", None, "hidden layer"),
            ("planes", "input", None, "planes"),
        ] {
            assert_eq!(place(name), (stage, index, operation.to_owned()), "{name}");
        }
    }
}
