//! The grammar of the UCI lines that an engine sends, for the tests that read our output. It includes `wdl`,
//! `movesleft` and `eps`, which are not in the UCI specification.

/// Whether an engine may send `line`.
pub(crate) fn is_uci(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["uciok" | "readyok"] => true,
        ["id", "name" | "author", rest @ ..] => !rest.is_empty(),
        ["bestmove", best] => is_move(best),
        ["bestmove", best, "ponder", ponder] => is_move(best) && is_move(ponder),
        ["option", "name", rest @ ..] => is_option(rest),
        ["info", "string", ..] => true,
        ["info", rest @ ..] => is_info(rest),
        _ => false,
    }
}

/// `e2e4`, `a7a8q`, or `0000` for no move.
fn is_move(word: &str) -> bool {
    let is_square = |file: u8, rank: u8| (b'a'..=b'h').contains(&file) && (b'1'..=b'8').contains(&rank);
    match word.as_bytes() {
        b"0000" => true,
        &[a, b, c, d] => is_square(a, b) && is_square(c, d),
        &[a, b, c, d, role] => is_square(a, b) && is_square(c, d) && b"qrbn".contains(&role),
        _ => false,
    }
}

fn is_integer(word: &str) -> bool {
    word.parse::<i64>().is_ok()
}

/// The words of an `option` line after `name`: the option's name, `type`, and the fields of that type.
fn is_option(words: &[&str]) -> bool {
    let Some(at) = words.iter().position(|&word| word == "type") else {
        return false;
    };
    let (name, kind) = (&words[..at], &words[at + 1..]);
    !name.is_empty()
        && match kind {
            ["button"] => true,
            ["check", "default", value] => ["true", "false"].contains(value),
            ["spin", "default", value, "min", low, "max", high] => {
                [value, low, high].into_iter().all(|word| is_integer(word))
            }
            ["combo", "default", _, rest @ ..] => {
                !rest.is_empty() && rest.chunks(2).all(|pair| matches!(pair, ["var", _]))
            }
            ["string", "default", ..] => true,
            _ => false,
        }
}

/// The words of an `info` line: terms, each with its values.
fn is_info(words: &[&str]) -> bool {
    if words.is_empty() {
        return false;
    }
    let mut rest = words;
    while let [term, values @ ..] = rest {
        let taken = match *term {
            "depth" | "seldepth" | "time" | "nodes" | "hashfull" | "nps" | "eps" | "tbhits" | "multipv"
            | "movesleft" | "currmovenumber" | "cpuload" => 1,
            "score" => {
                let is_bound = matches!(values.get(2), Some(&"lowerbound" | &"upperbound"));
                match values {
                    ["cp" | "mate", value, ..] if is_integer(value) => 2 + usize::from(is_bound),
                    _ => return false,
                }
            }
            "wdl" => 3,
            "currmove" => 1,
            "pv" => values.iter().take_while(|word| is_move(word)).count().max(1),
            "string" => return true,
            _ => return false,
        };
        let Some((taken, remaining)) = values.split_at_checked(taken) else {
            return false;
        };
        let fits = match *term {
            "score" => true,
            "pv" | "currmove" => taken.iter().all(|word| is_move(word)),
            _ => taken.iter().all(|word| is_integer(word)),
        };
        if !fits {
            return false;
        }
        rest = remaining;
    }
    true
}

#[test]
fn the_grammar_accepts_the_lines_of_uci_and_no_others() {
    for line in [
        "uciok",
        "id name Rukh 1.0",
        "bestmove e2e4",
        "bestmove e7e8q ponder 0000",
        "info depth 2 seldepth 3 time 5 nodes 10 score cp -12 wdl 300 400 300 nps 2000 tbhits 0 pv e2e4 e7e5",
        "info depth 1 score mate -3 lowerbound hashfull 7 multipv 1 pv a7a8n string and more",
        "info string anything",
        "option name Ponder type check default false",
        "option name NN Cache Size type spin default 2 min 0 max 3",
        "option name Backend type combo default cpu var cpu var trivial",
        "option name WeightsFile type string default ",
        "option name Clear type button",
    ] {
        assert!(is_uci(line), "{line}");
    }
    for line in [
        "",
        "Loading the network",
        "bestmove",
        "bestmove e2e9",
        "bestmove e2e4 ponder",
        "info",
        "info depth",
        "info depth two",
        "info score 12",
        "info pv",
        "info pv e2e4 x",
        " info depth 1",
        "option name x type spin default 1",
        "option name x type check default maybe",
        "uciok ",
    ] {
        assert!(!is_uci(line), "{line}");
    }
}
