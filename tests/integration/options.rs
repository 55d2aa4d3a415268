//! The option table: docs/options.md is made from it, and setting options copes with arbitrary text.

use crate::layers::rust_files;
use proptest::prelude::*;
use rukh_options::{Effect, Kind, Options, TABLE, listing};
use std::path::Path;

/// The table in docs/options.md is generated; `UPDATE_DOCS=1` writes it.
#[test]
fn docs_have_the_table_of_options() {
    const BEGIN: &str = "<!-- options: begin, generated -->\n";
    const END: &str = "<!-- options: end -->";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/options.md");
    let page = std::fs::read_to_string(path).unwrap();
    let begin = page.find(BEGIN).expect("docs/options.md has the begin marker") + BEGIN.len();
    let end = page.find(END).expect("docs/options.md has the end marker");
    let table = listing::markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{}{table}\n{}", &page[..begin], &page[end..])).unwrap();
        return;
    }
    let lines = |text: &str| text.trim_end().lines().map(str::to_owned).collect::<Vec<_>>();
    let (found, expected) = (lines(&page[begin..end]), lines(&table));
    let different = found.iter().zip(&expected).find(|(found, expected)| found != expected);
    assert_eq!(different, None, "to write the table: UPDATE_DOCS=1 cargo test --test integration options");
    assert_eq!(found.len(), expected.len(), "run this test with UPDATE_DOCS=1");
}

/// The text of all source files of the engine, except those in the folder `options`.
fn source() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = rust_files(&root).into_iter().filter(|file| !file.starts_with(root.join("options")));
    files.map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

/// The table marks the options that no code reads, so that a user who sets one is told that it has no effect.
#[test]
fn the_table_marks_the_options_without_effect() {
    let source = source();
    for spec in TABLE {
        let read = format!("options.{}", spec.field);
        let is_read = source.match_indices(&read).any(|(place, _)| {
            let next = source[place + read.len()..].chars().next();
            next.is_some_and(|next| next != '_' && !next.is_alphanumeric())
        });
        let claimed = spec.effect == Effect::Full;
        assert_eq!(
            is_read, claimed,
            "{}: the source and the table disagree about whether this option is read",
            spec.field
        );
    }
}

/// Text for an option of this kind: most of it is valid, some is just outside of the range.
fn value(kind: Kind) -> BoxedStrategy<String> {
    match kind {
        Kind::Spin { min, max } => (min - 2..=max + 2).prop_map(|value| value.to_string()).boxed(),
        Kind::Float { min, max } => (min - 1.0..=max + 1.0).prop_map(|value| value.to_string()).boxed(),
        Kind::Check => "(true|false|TRUE|yes|)".boxed(),
        Kind::Choice(words) => {
            prop_oneof![proptest::sample::select(words).prop_map(str::to_owned), ".{0,20}"].boxed()
        }
        Kind::Text | Kind::Button => ".{0,50}".boxed(),
    }
}

proptest! {
    /// Either a value is refused and nothing changes, or it is set and reads back the same.
    #[test]
    fn set_values_read_back(
        (index, text) in (0..TABLE.len()).prop_flat_map(|index| (Just(index), value(TABLE[index].kind))),
    ) {
        let spec = &TABLE[index];
        let mut options = Options::default();
        match options.assign(spec, &text) {
            Err(error) => {
                prop_assert_eq!(&options, &Options::default());
                let error = error.to_string();
                prop_assert!(error.contains(&spec.name()), "{}", error);
            }
            Ok(()) => {
                let shown = spec.value(&options).to_string();
                let mut again = Options::default();
                again.assign(spec, &shown).unwrap();
                prop_assert_eq!(spec.value(&again), spec.value(&options));
                let in_range = match spec.kind {
                    Kind::Spin { min, max } => (min..=max).contains(&shown.parse().unwrap()),
                    Kind::Float { min, max } => (min..=max).contains(&shown.parse().unwrap()),
                    _ => true,
                };
                prop_assert!(in_range, "{}", shown);
            }
        }
    }
}
