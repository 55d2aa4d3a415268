#!/usr/bin/env bash
# Tries a packed program: it must print its version, play, measure itself and have its manual page.
#
# usage: scripts/packages/try.sh COMMAND ...
#   COMMAND    how to start the program, such as ./rukh, or chroot FOLDER /usr/games/rukh; or an archive
set -euo pipefail

fail() {
    echo "$1" >&2
    exit 1
}

[ $# -gt 0 ] || fail "usage: scripts/packages/try.sh COMMAND ..."
if [[ $1 == *.tar.gz || $1 == *.zip ]]; then
    unpacked=$(mktemp -d)
    trap 'rm -rf "$unpacked"' EXIT
    case $1 in
    *.zip) unzip -q "$1" -d "$unpacked" ;;
    *) tar --extract --gzip --file "$1" --directory "$unpacked" ;;
    esac
    for program in "$unpacked"/rukh-*/rukh "$unpacked"/rukh-*/rukh.exe; do
        [ ! -f "$program" ] || break
    done
    folder=$(dirname "$program")
    for file in LICENSE README.md docs/options.md rukh.6 completions/{rukh.bash,_rukh,rukh.fish}; do
        [ -s "$folder/$file" ] || fail "$1 has no $file"
    done
    set -- "$program"
fi

version=$("$@" --version)
[[ $version == "rukh "* ]] || fail "--version printed: $version"

# A few moves of a game. A start of the program plays one move: macOS has a bash that cannot hold a conversation.
moves=''
for _ in 1 2 3 4; do
    said=$(printf 'position startpos moves%s\ngo nodes 100\nwait\nquit\n' "$moves" | "$@")
    best=$(sed -n 's/^bestmove \([a-h][1-8][a-h][1-8]\).*/\1/p' <<<"$said")
    [ -n "$best" ] || fail "no move after$moves: $said"
    moves+=" $best"
done

speed=$("$@" bench --nodes=100 --num-positions=2 | tail -n 1)
[[ $speed =~ [1-9] ]] || fail "bench printed: $speed"
page=$("$@" man)
[[ $page == *".TH RUKH 6"* ]] || fail "there is no manual page"
echo "$version played$moves; bench: $speed"
