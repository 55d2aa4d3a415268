#!/usr/bin/env bash
# Tries a packed program: it must print its version, know every backend, play, measure itself and have its manual page.
#
# usage: scripts/packages/try.sh PROGRAM [STARTER ...]
#   PROGRAM    the program, or an archive or a Debian package with it
#   STARTER    the command that starts it, such as wine, if this system does not
# environment:
#   RUKH_TRY_LIGHT=1    searches 5 nodes instead of 100, with the backend `cpu`, which measures nothing when it starts:
#                       for an emulated processor
set -euo pipefail

fail() {
    echo "$1" >&2
    exit 1
}

[ $# -gt 0 ] || fail "usage: scripts/packages/try.sh PROGRAM [STARTER ...]"
program=$1 nodes=100 backend=auto
[ -z "${RUKH_TRY_LIGHT:-}" ] || nodes=5 backend=cpu
if [[ $1 =~ \.(tar\.gz|zip|deb)$ ]]; then
    unpacked=$(mktemp -d /tmp/rukh-XXXXXX)
    trap 'rm -rf "$unpacked"' EXIT
    case $1 in
    *.zip) unzip -q "$1" -d "$unpacked" ;;
    *.deb) dpkg-deb --extract "$1" "$unpacked" ;;
    *) tar --extract --gzip --file "$1" --directory "$unpacked" ;;
    esac
    for program in "$unpacked"/rukh-*/rukh "$unpacked"/rukh-*/rukh.exe "$unpacked"/usr/games/rukh; do
        [ ! -f "$program" ] || break
    done
    folder=$(dirname "$program")
    for file in LICENSE README.md docs/options.md rukh.6 licences-of-others.txt completions/{rukh.bash,_rukh,rukh.fish}; do
        [[ $1 == *.deb ]] || [ -s "$folder/$file" ] || fail "$1 has no $file"
    done
fi
start=("${@:2}" "$program")
rukh() { "${start[@]}" "$@"; }

version=$(rukh --version)
[[ $version == "rukh "* ]] || fail "--version printed: $version"

options=$(printf 'uci\nquit\n' | rukh)
for name in cpu-auto rocm-auto cuda-auto; do
    grep -q "^option name Backend .* var $name " <<<"$options" || fail "there is no backend $name: $options"
done

# A few moves of a game. A start of the program plays one move: macOS has a bash that cannot hold a conversation.
moves=''
for _ in 1 2 3 4; do
    said=$(printf 'position startpos moves%s\ngo nodes %s\nwait\nquit\n' "$moves" "$nodes" | rukh --backend=$backend)
    best=$(sed -n 's/^bestmove \([a-h][1-8][a-h][1-8]\).*/\1/p' <<<"$said")
    [ -n "$best" ] || fail "no move after$moves: $said"
    moves+=" $best"
done
grep -m 1 -o 'using the .*' <<<"$said" || [ $backend != auto ] || fail "it did not say what evaluates: $said"

counts=$(rukh --backend=$backend bench --nodes=$nodes --num-positions=2 | tail -n 2)
[[ $counts =~ "Nodes searched  : "[1-9] ]] || fail "bench printed: $counts"
page=$(rukh man)
[[ $page == *".TH RUKH 6"* ]] || fail "there is no manual page"
echo "$version played$moves; bench: ${counts##*$'\n'}"
