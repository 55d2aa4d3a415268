//! The manual page and the completions, which packages install.

use crate::driver::{rukh, run};
use std::fs;
use std::process::Command;

/// The modes that the help lists.
fn modes() -> Vec<String> {
    let help = run(&["--help"]);
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.split_whitespace().next()).filter(|&name| name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn the_manual_page_has_every_mode_and_the_options() {
    let page = run(&["man"]);
    assert!(page.contains("\n.TH RUKH 6 "), "{page}");
    let modes = modes();
    assert!(modes.len() >= 7, "{modes:?}");
    for mode in modes {
        let heading = mode.replace('-', "\\-");
        assert!(page.contains(&format!("\n.SS {heading}\n")), "{heading} is not in the page");
    }
    for shown in
        ["\\-\\-weights", "\\-\\-num\\-positions", "UCI: CPuct, default: 1.745", ".SH \"EXIT STATUS\""]
    {
        assert!(page.contains(shown), "{shown} is not in the page");
    }
    // A backtick that has no partner would turn the rest of the page bold.
    assert!(!page.contains('`') && !page.contains("noise\\-epsilon"));
    assert_eq!(page.matches("\\fB").count(), page.matches("\\fR").count() - page.matches("\\fI").count());
    assert_eq!(page.matches(".ds Aq").count(), 2, "the apostrophe is defined once, for two kinds of roff");
}

/// A user's configuration file must not keep a package from being built.
#[test]
fn the_configuration_file_is_not_read_for_packages() {
    let home = std::env::temp_dir().join(format!("rukh-{}-package-home", std::process::id()));
    fs::create_dir_all(home.join("rukh")).unwrap();
    fs::write(home.join("rukh/rukh.config"), "nonsense\n").unwrap();
    for arguments in [&["man"][..], &["completions", "bash"]] {
        let output = rukh(arguments).env("XDG_CONFIG_HOME", &home).env("APPDATA", &home).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
    fs::remove_dir_all(&home).unwrap();
}

#[test]
fn there_are_completions_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(&["completions", shell]);
        for shown in ["backendbench", "num-positions", "rocm-auto"] {
            // The scripts for elvish and PowerShell have no values.
            let has_values = !matches!(shell, "elvish" | "powershell") || shown != "rocm-auto";
            assert_eq!(script.contains(shown), has_values, "{shown} in the script for {shell}");
        }
        assert!(!script.contains("rocm-products"), "{shell}: hidden modes are not offered");
    }
}

/// Asks bash itself what it would offer.
#[test]
#[cfg(unix)]
fn bash_completes_modes_flags_and_values() {
    if !Command::new("bash").arg("-c").arg("exit 0").status().is_ok_and(|status| status.success()) {
        println!("skipped: there is no bash");
        return;
    }
    for (words, expected) in [
        (&["rukh", "back"][..], "backendbench"),
        (&["rukh", "bench", "--num"], "--num-positions"),
        (&["rukh", "--backend", "rocm-a"], "rocm-auto"),
        (&["rukh", "doctor", "--stage", "kern"], "kernels"),
    ] {
        let last = words.len() - 1;
        let line = format!(
            "COMP_WORDS=({}); COMP_CWORD={last}; _rukh rukh '{}' '{}'; echo \"${{COMPREPLY[*]}}\"",
            words.join(" "),
            words[last],
            words[last - 1],
        );
        let script = format!("{}\n{line}\n", run(&["completions", "bash"]));
        let output = Command::new("bash").args(["--norc", "-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{words:?}: {output:?}");
    }
}
