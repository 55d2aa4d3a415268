//! The option table as clap arguments.
//!
//! Each row of the table becomes a flag `--name <value>` (or `--name=value`). A switch becomes `--name`, `--no-name`
//! and `--name=true`. clap reads the flags, prints the help and suggests corrections; the row checks the values.

use clap::builder::styling::{Style, Styles};
use clap::{Arg, ArgAction, ArgMatches, Command};
use rukh_base::word_wrap::wrap_words;
use rukh_options::{Kind, OptionError, Options, Setting, Spec, TABLE, Visibility};

/// How messages look on a terminal. clap's own green for words such as `mistakes` would praise them.
pub(super) const STYLES: Styles = Styles::styled().valid(Style::new().bold());

/// Adds to `command` the flags of the rows that `applies` selects. The help shows `defaults` as the default values.
pub(super) fn add(
    command: Command,
    defaults: &Options,
    show_hidden: bool,
    applies: impl Fn(&Spec) -> bool,
) -> Command {
    let rows = TABLE.iter().filter(|spec| spec.has_flag && applies(spec));
    rows.fold(command, |command, spec| {
        let hide = spec.visibility == Visibility::Hidden && !show_hidden;
        let command = command.arg(argument(spec, defaults).hide(hide));
        match spec.kind {
            Kind::Check => command.arg(negation(spec)),
            _ => command,
        }
    })
}

/// Whether a tournament or an analysis uses an option. They have limits of their own, and play as well as these allow.
pub(super) fn counts_in_games(spec: &Spec) -> bool {
    !matches!(spec.field, "limit_strength" | "elo" | "nodes_per_move")
}

/// Sets the options that the arguments give.
///
/// # Errors
/// A value is not allowed. (clap has checked the values with the same rows, so this does not happen.)
pub(super) fn apply(matches: &ArgMatches, options: &mut Options) -> Result<(), OptionError> {
    for spec in TABLE {
        // `try_get_one`, because not every mode has every flag.
        if let Ok(Some(value)) = matches.try_get_one::<String>(spec.field) {
            options.assign(spec, value)?;
        }
        if spec.kind == Kind::Check
            && matches!(matches.try_get_one::<bool>(&negation_id(spec)), Ok(Some(true)))
        {
            options.assign(spec, "false")?;
        }
    }
    Ok(())
}

fn argument(spec: &'static Spec, defaults: &Options) -> Arg {
    let mut argument = Arg::new(spec.field)
        .long(spec.flag().unwrap_or_default())
        .help(help(spec, defaults))
        .help_heading(spec.section)
        .value_parser(move |text: &str| match spec.parse(text) {
            Some(_) => Ok(text.to_owned()),
            None => Err(format!("not {}", spec.kind.expected())),
        });
    if let Some(short) = spec.short {
        argument = argument.short(short);
    }
    match spec.kind {
        Kind::Check => argument
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_name("true|false")
            .overrides_with(negation_id(spec)),
        Kind::Spin { min, max } => argument.value_name(format!("{min}..{max}")).allow_negative_numbers(true),
        Kind::Float { min, max } => argument.value_name(format!("{min}..{max}")).allow_negative_numbers(true),
        Kind::Choice(words) if is_long(words) => argument.value_name("name"),
        Kind::Choice(words) => argument.value_name(words.join("|")),
        Kind::Text | Kind::Button => argument.value_name("text"),
    }
}

/// The flag `--no-name` of a switch. The help does not list it.
fn negation(spec: &'static Spec) -> Arg {
    Arg::new(negation_id(spec))
        .long(format!("no-{}", spec.flag().unwrap_or_default()))
        .action(ArgAction::SetTrue)
        .overrides_with(spec.field)
        .hide(true)
}

fn negation_id(spec: &Spec) -> String {
    format!("no_{}", spec.field)
}

/// Whether the choices are too many for the column of the flags.
fn is_long(words: &[&str]) -> bool {
    words.join("|").len() > 40
}

fn help(spec: &Spec, defaults: &Options) -> String {
    let mut facts = Vec::new();
    if let Some(name) = spec.uci_name {
        facts.push(format!("UCI: {name}"));
    }
    if let Kind::Choice(words) = spec.kind
        && is_long(words)
    {
        facts.push(words.join(", "));
    }
    match spec.value(defaults) {
        Setting::Text(text) if text.is_empty() => {}
        value => facts.push(format!("default: {value}")),
    }
    wrapped(&format!("{} [{}]", spec.help(), facts.join(", ")))
}

/// `text` broken into lines for a terminal of 100 columns, minus clap's indentation.
fn wrapped(text: &str) -> String {
    wrap_words(text.split(' '), 88)
}
