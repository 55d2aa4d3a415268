//! `man`: prints the manual page in roff.
//!
//! There is one page. clap knows the flags, so they are rendered from its description of the command line; the parts
//! about files and examples are text.

use super::args;
use super::error::CliError;
use crate::uci::output::Output;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io;

/// The part of the page that follows the flags: pairs of a heading and paragraphs. In a paragraph with a tab, the
/// text before the tab is a term, and the text after it explains the term.
const TEXT: &[(&str, &[&str])] = &[
    (
        "FILES",
        &[
            "rukh.config\tOptions, one flag on each line, such as `threads=2`. The file is read from the folder of \
             the program, or else from `$XDG_CONFIG_HOME/rukh` or `~/.config/rukh` (on Windows `%APPDATA%\\rukh`).",
            "lc0.config\tThe same, if there is no rukh.config. It is read from the folder of the program or from lc0's.",
            "*.pb.gz, *.pb\tNetworks of Leela Chess Zero. Without `--weights`, the newest network is taken from the \
             first of these folders that has one: the working directory, its folder `weights`, the program's folder, \
             its folder `networks`, the folder `rukh` of the user's data, and lc0's folders. If none has one, the \
             network inside the program plays.",
        ],
    ),
    ("EXIT STATUS", &["0\tSuccess.", "1\tFailure. The reason is on standard error.", "2\tWrong arguments."]),
    (
        "EXAMPLES",
        &[
            "rukh\tSpeaks UCI. Type `go nodes 1000` to see a search, and `quit` to leave.",
            "rukh --threads=2 bench\tMeasures the speed of the search with two threads.",
            "rukh describenet -w NETWORK.pb.gz\tDescribes a network.",
            "rukh backendbench --clippy\tRecommends a batch size for this machine.",
        ],
    ),
];

/// Prints the page.
///
/// # Errors
/// The page cannot be rendered. (It is rendered into memory, so this does not happen.)
pub(super) fn run(output: &Output) -> Result<(), CliError> {
    let page = page()?;
    output.lines(&page.lines().map(str::to_owned).collect::<Vec<_>>());
    Ok(())
}

fn page() -> io::Result<String> {
    let command = args::command(false)
        .override_usage("rukh [OPTION]...\n       rukh MODE [OPTION]...")
        .version(rukh_base::version::version());
    let man = Man::new(command.clone())
        .title("RUKH")
        .section("6")
        .source(format!("Rukh {}", rukh_base::version::version()))
        .manual("Games Manual");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    // Names of options are long. Lines are neither stretched nor broken inside words.
    page.extend_from_slice(b".ad l\n.nh\n");
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    let mut modes = Roff::new();
    modes.control("SH", ["MODES"]);
    modes
        .text([roman("A mode has the flags that are listed here, and those options below that concern it.")]);
    modes.to_writer(&mut page)?;
    for mode in command.get_subcommands().filter(|mode| !mode.is_hide_set()) {
        render_mode(mode.clone(), &mut page)?;
    }
    man.render_options_section(&mut page)?;
    render_text(&mut page)?;
    let page = String::from_utf8_lossy(&page);
    // A list of words is long. It may be broken after each of them.
    Ok(with_bold_words(&without_repeated_preambles(&page)).replace('|', "|\\:"))
}

/// A mode with its own flags. The engine's options are listed once, for all modes.
fn render_mode(mode: Command, page: &mut Vec<u8>) -> io::Result<()> {
    let mut heading = Roff::new();
    heading.control("SS", [mode.get_name()]);
    heading.text([roman(format!("{}.", mode.get_about().cloned().unwrap_or_default()))]);
    heading.to_writer(page)?;
    // The engine's options have headings, and a mode's own flags have none.
    let own = mode.disable_help_flag(true).mut_args(|argument| {
        let is_own = argument.get_help_heading().is_none() && argument.get_id() != "show_hidden";
        let hide = argument.is_hide_set() || !is_own;
        // A switch shows its values where it is named.
        let is_switch = argument.get_num_args().is_some_and(|count| count.min_values() == 0);
        argument.hide(hide).hide_possible_values(is_switch)
    });
    let mut flags = Vec::new();
    Man::new(own).render_options_section(&mut flags)?;
    page.extend_from_slice(String::from_utf8_lossy(&flags).replace(".SH OPTIONS\n", "").as_bytes());
    Ok(())
}

fn render_text(page: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    for (heading, paragraphs) in TEXT {
        roff.control("SH", [*heading]);
        for paragraph in *paragraphs {
            match paragraph.split_once('\t') {
                Some((term, explanation)) => {
                    roff.control("TP", []).text([bold(term)]).text([roman(explanation)]);
                }
                None => {
                    roff.control("PP", []).text([roman(*paragraph)]);
                }
            }
        }
    }
    roff.to_writer(page)
}

/// Every part begins with the definition of the apostrophe. One is enough.
fn without_repeated_preambles(page: &str) -> String {
    let is_preamble = |line: &str| line.starts_with(".ie \\n(.g .ds Aq") || line.starts_with(".el .ds Aq");
    let lines = page.lines().enumerate().filter(|(index, line)| *index < 2 || !is_preamble(line));
    lines.flat_map(|(_, line)| [line, "\n"]).collect()
}

/// Words in backticks become bold.
fn with_bold_words(page: &str) -> String {
    let mut parts = page.split('`');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (part, font) in parts.zip(["\\fB", "\\fR"].into_iter().cycle()) {
        text.push_str(font);
        text.push_str(part);
    }
    text
}
