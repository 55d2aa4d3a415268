//! The options as text: UCI `option` lines and the table of `docs/options.md`.

use super::{Kind, Options, Setting, Spec, TABLE, Visibility, lc0};

/// The options that most people set, which UCI lists first: many chess programs show the options in the order in which
/// the engine sends them, and `WeightsFile` would otherwise be one of the last.
const LISTED_FIRST: [&str; 7] =
    ["weights", "backend", "backend_opts", "threads", "hash", "multipv", "syzygy_paths"];

/// What the UCI `option` lines have besides the usual options and choices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras {
    /// The options for specialists.
    pub hidden: bool,
    /// The names of lc0's backends. Many chess programs refuse a value that is not among the choices, and some do not
    /// start the engine then, so the settings that a user made for lc0 work only if the names are listed. They are not
    /// listed always, because a user who chose `cuda-auto` from a list would expect CUDA.
    pub lc0_backends: bool,
}

/// The UCI `option` lines in lc0's form, with the values of `options` as defaults.
pub fn uci_lines(options: &Options, extras: Extras) -> Vec<String> {
    let mut specs: Vec<&Spec> = TABLE.iter().collect();
    // The sort is stable, so the other options keep the order of the table.
    specs
        .sort_by_key(|spec| LISTED_FIRST.iter().position(|field| *field == spec.field).unwrap_or(usize::MAX));
    specs
        .into_iter()
        .filter(|spec| extras.hidden || spec.visibility == Visibility::Shown)
        .filter_map(|spec| uci_line(spec, options, extras))
        .collect()
}

/// The line of one option; `None` if it has no UCI name.
fn uci_line(spec: &Spec, options: &Options, extras: Extras) -> Option<String> {
    let name = spec.uci_name?;
    let value = spec.value(options);
    let rest = match (spec.kind, value) {
        (Kind::Check, value) => format!("check default {value}"),
        (Kind::Spin { min, max }, value) => format!("spin default {value} min {min} max {max}"),
        // UCI's `spin` holds only whole numbers, so a number with a fraction is offered as a string.
        (Kind::Float { .. }, Setting::Float(value)) => format!("string default {value:.6}"),
        (Kind::Choice(words), value) => {
            let lc0s = if extras.lc0_backends && spec.field == "backend" { &lc0::BACKENDS[..] } else { &[] };
            let variants: String = words.iter().chain(lc0s).map(|word| format!(" var {word}")).collect();
            format!("combo default {value}{variants}")
        }
        (Kind::Button, _) => "button".to_owned(),
        (Kind::Text | Kind::Float { .. }, value) => format!("string default {value}"),
    };
    Some(format!("option name {name} type {rest}"))
}

/// The table in docs/options.md, in Markdown.
pub fn markdown() -> String {
    let defaults = Options::default();
    let mut text = String::new();
    let mut section = "";
    for spec in TABLE {
        if spec.section != section {
            section = spec.section;
            text.push_str(&format!(
                "\n**{section}**\n\n| UCI name | flag | default | values | |\n|---|---|---|---|---|\n"
            ));
        }
        let uci_name = spec.uci_name.unwrap_or("—");
        let hidden = if spec.visibility == Visibility::Hidden { "*" } else { "" };
        let default = match spec.value(&defaults).to_string() {
            value if value.is_empty() => String::new(),
            value => format!("`{value}`"),
        };
        let help = spec.help();
        text.push_str(&format!(
            "| {uci_name}{hidden} | {} | {default} | {} | {help} |\n",
            flag_cell(spec),
            values_cell(spec.kind)
        ));
    }
    text
}

fn flag_cell(spec: &Spec) -> String {
    let Some(flag) = spec.flag() else {
        return "—".to_owned();
    };
    let no = if spec.kind == Kind::Check { "[no-]" } else { "" };
    let short = spec.short.map_or_else(String::new, |short| format!("`-{short}` "));
    format!("{short}`--{no}{flag}`")
}

fn values_cell(kind: Kind) -> String {
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Check => "`true` `false`".to_owned(),
        Kind::Spin { min, max } => format!("{min} … {max}"),
        Kind::Float { min, max } => format!("{min} … {max}"),
        Kind::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" "),
        Kind::Button => "button".to_owned(),
    }
}
