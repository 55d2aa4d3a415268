//! The manual page and the completions, which packages install.

use crate::driver::{rukh, run};
use std::fs;
#[cfg(unix)]
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
            assert!(script.contains(shown), "{shown} in the script for {shell}");
        }
        assert!(!script.contains("rocm-gemms"), "{shell}: hidden modes are not offered");
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
        let path = std::env::temp_dir().join(format!("rukh-{}-completions.bash", std::process::id()));
        fs::write(&path, format!("{}\n{line}\n", run(&["completions", "bash"]))).unwrap();
        let output = Command::new("bash").arg("--norc").arg(&path).output().unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{words:?}: {output:?}");
    }
}

/// The recipes of the packages name only files that exist when they run.
#[test]
#[cfg(unix)]
fn the_files_that_packages_install_are_written() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("rukh-{}-shell-files", std::process::id()));
    let script = root.join("scripts/packages/shell_files.sh");
    let status = Command::new(script).arg(env!("CARGO_BIN_EXE_rukh")).arg(&folder).status().unwrap();
    assert!(status.success());
    let mut written: Vec<String> = Vec::new();
    for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
        assert!(entry.metadata().unwrap().len() > 0, "{entry:?}");
        written.push(entry.file_name().into_string().unwrap());
    }
    fs::remove_dir_all(&folder).unwrap();
    let mut named = 0;
    for (recipe, prefix) in
        [("Cargo.toml", "\"target/packages/shell-files/"), ("scripts/packages/aur/PKGBUILD", " $files/")]
    {
        let text = fs::read_to_string(root.join(recipe)).unwrap();
        for (_, rest) in text.match_indices(prefix).map(|(at, _)| text[at..].split_at(prefix.len())) {
            let name = rest.split([' ', '"']).next().unwrap();
            // The scripts for Debian's package write two files themselves.
            let is_for_debian = ["changelog", "licences-of-others.txt"].contains(&name);
            assert!(is_for_debian || written.iter().any(|file| file == name), "{recipe}: {name}");
            named += 1;
        }
    }
    assert!(named >= 9, "only {named} files were found in the recipes");
}
