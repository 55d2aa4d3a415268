//! The flag `--shard`, by which several processes share the work.

/// Reads `I/N`: a number from 1 to n, and n. Returns the number counted from 0, and n.
///
/// # Errors
/// The text does not have this form.
pub(super) fn shard(text: &str) -> Result<(u64, u64), String> {
    let numbers =
        text.split_once('/').and_then(|(i, n)| Some((i.parse::<u64>().ok()?, n.parse::<u64>().ok()?)));
    match numbers {
        Some((number, count)) if (1..=count).contains(&number) => Ok((number - 1, count)),
        _ => Err("not a number from 1 to n, a slash and n, as in 2/8".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_counted_from_one() {
        assert_eq!(shard("2/8"), Ok((1, 8)));
        assert!(["0/8", "9/8", "1", "1/0", "a/2"].iter().all(|text| shard(text).is_err()));
    }
}
