#!/usr/bin/env bash
# Writes the manual page and the completions into a folder. A package installs them.
#
# usage: scripts/packages/shell_files.sh RUKH FOLDER
#   RUKH      a program that runs on this machine; it need not be the one that is packed
#   FOLDER    gets rukh.6, rukh.bash, _rukh (zsh), rukh.fish, rukh.elv and _rukh.ps1
set -euo pipefail

[ $# = 2 ] || {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
rukh=$1 folder=$2
mkdir -p "$folder"
"$rukh" man >"$folder/rukh.6"
"$rukh" completions bash >"$folder/rukh.bash"
"$rukh" completions zsh >"$folder/_rukh"
"$rukh" completions fish >"$folder/rukh.fish"
"$rukh" completions elvish >"$folder/rukh.elv"
"$rukh" completions powershell >"$folder/_rukh.ps1"
