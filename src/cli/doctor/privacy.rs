//! Removes from the report what is nobody's business: the names of the user and of the machine, the home folder, and
//! the serial numbers of cards.

use serde_json::Value;
use std::env;
use sysinfo::System;

/// Names that say nothing about a person or a machine.
const COMMON_NAMES: [&str; 6] = ["root", "user", "localhost", "localdomain", "local", "admin"];

/// The text before the serial number of a card, in variables such as `ROCR_VISIBLE_DEVICES`.
const SERIAL: &str = "GPU-";

/// The texts to remove.
pub(super) struct Privacy {
    /// The home folder, in every way in which it may be written.
    homes: Vec<String>,
    /// Words, each with its replacement.
    words: Vec<(String, &'static str)>,
}

impl Privacy {
    /// The names of this user and this machine.
    pub(super) fn of_this_machine() -> Privacy {
        let texts =
            |names: &[&str]| -> Vec<String> { names.iter().filter_map(|name| env::var(name).ok()).collect() };
        let mut homes = texts(&["HOME", "USERPROFILE"]);
        homes.extend(env::home_dir().map(|home| home.to_string_lossy().into_owned()));
        let users = texts(&["USER", "LOGNAME", "USERNAME", "SUDO_USER"]);
        let mut machines = texts(&["HOSTNAME", "COMPUTERNAME", "HOST"]);
        machines.extend(System::host_name().ok());
        Privacy::new(homes, users, machines)
    }

    fn new(homes: Vec<String>, mut users: Vec<String>, mut machines: Vec<String>) -> Privacy {
        let is_separator = |c: char| c == '/' || c == '\\';
        let mut homes: Vec<String> =
            homes.iter().map(|home| home.trim_end_matches(is_separator).to_owned()).collect();
        homes.retain(|home| home.len() > 1);
        // Windows writes a path with either separator.
        homes
            .extend(homes.clone().iter().flat_map(|home| [home.replace('/', "\\"), home.replace('\\', "/")]));
        // In these folders, the home folder has the user's name.
        users.extend(homes.iter().filter_map(|home| {
            let mut parts = home.rsplit(is_separator);
            let name = parts.next()?;
            matches!(parts.next(), Some("home" | "Users")).then(|| name.to_owned())
        }));
        let domains: Vec<String> =
            machines.iter().flat_map(|name| name.split('.')).map(str::to_owned).collect();
        machines.extend(domains);
        let named = |names: Vec<String>, replacement| names.into_iter().map(move |name| (name, replacement));
        let mut words: Vec<(String, &str)> =
            named(machines, "<machine>").chain(named(users, "<user>")).collect();
        words.retain(|(name, _)| name.len() > 1 && !COMMON_NAMES.contains(&name.to_lowercase().as_str()));
        // A name may contain a shorter one.
        words.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        words.dedup();
        homes.sort_by_key(|home| std::cmp::Reverse(home.len()));
        homes.dedup();
        Privacy { homes, words }
    }

    /// `text` without the private parts.
    pub(super) fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for home in &self.homes {
            text = without_word(&text, home, "~");
        }
        for (word, replacement) in &self.words {
            text = without_word(&text, word, replacement);
        }
        without_serials(&text)
    }

    /// The value of a cell without the private parts.
    pub(super) fn clean_value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.clean(&text)),
            Value::Array(values) => values.into_iter().map(|value| self.clean_value(value)).collect(),
            other => other,
        }
    }
}

/// Replaces `word` where no letter or digit touches it. Case does not matter.
fn without_word(text: &str, word: &str, replacement: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = find(rest, word) {
        let (before, after) = (&rest[..place], &rest[place + word.len()..]);
        clean.push_str(before);
        let touches = |next: Option<char>| next.is_some_and(char::is_alphanumeric);
        let previous = before.chars().next_back().or_else(|| clean.chars().next_back());
        if touches(previous) || touches(after.chars().next()) {
            clean.push_str(&rest[place..place + word.len()]);
        } else {
            clean.push_str(replacement);
        }
        rest = after;
    }
    clean + rest
}

/// The place of `word` in `text`. The case of ASCII letters does not matter.
fn find(text: &str, word: &str) -> Option<usize> {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    // A match of whole UTF-8 sequences begins and ends between characters.
    text.windows(word.len()).position(|part| part.eq_ignore_ascii_case(word))
}

/// Removes the hexadecimal digits after [`SERIAL`].
fn without_serials(text: &str) -> String {
    let mut parts = text.split(SERIAL);
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit() || c == '-');
        clean.push_str(SERIAL);
        // A short part is no number of a card.
        if part.len() - rest.len() >= 8 {
            clean.push('…');
            clean.push_str(rest);
        } else {
            clean.push_str(part);
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn privacy() -> Privacy {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Privacy::new(
            texts(&["/home/zoe/", "/tmp/none", "/"]),
            Vec::new(),
            texts(&["tower.example.org", "localhost"]),
        )
    }

    #[test]
    fn names_and_the_home_folder_are_removed() {
        let clean = |text: &str| privacy().clean(text);
        assert_eq!(clean("/home/zoe/rocm/lib/librocblas.so.4"), "~/rocm/lib/librocblas.so.4");
        assert_eq!(clean("/mnt/Zoe/net.pb.gz, zoe: no"), "/mnt/<user>/net.pb.gz, <user>: no");
        assert_eq!(clean("on tower and tower.example.org"), "on <machine> and <machine>");
        assert_eq!(clean("/home/zoe"), "~");
        assert_eq!(clean("/home/zoel and zoetrope, towers"), "/home/zoel and zoetrope, towers");
        assert_eq!(clean("localhost /opt/rocm/lib"), "localhost /opt/rocm/lib");
        assert_eq!(clean("zoezoe zoe"), "zoezoe <user>");
        assert_eq!(clean("none in /tmp/none/cache"), "none in ~/cache");
        assert_eq!(clean(r"\home\zoe\rocm\amdhip64_7.dll"), r"~\rocm\amdhip64_7.dll");
    }

    #[test]
    fn serial_numbers_are_removed() {
        let clean = |text: &str| privacy().clean(text);
        assert_eq!(clean("GPU-1c93b4a0bd21f0e6,1"), "GPU-…,1");
        assert_eq!(clean("a GPU-bound task"), "a GPU-bound task");
    }

    #[test]
    fn a_machine_without_names_leaves_the_text_alone() {
        let nobody = Privacy::new(vec![String::new()], vec![String::new(), "root".to_owned()], Vec::new());
        assert_eq!(nobody.clean("/srv/root/rocm of root"), "/srv/root/rocm of root");
    }
}
