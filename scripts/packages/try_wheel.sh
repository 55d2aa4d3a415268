#!/usr/bin/env bash
# Tries a wheel in an environment of its own, with no access to the internet: the engine plays a move, positions are
# evaluated, and a search finds a mate.
#
# usage: scripts/packages/try_wheel.sh WHEEL FOLDER [STARTER ...]
#   FOLDER     a folder with wheels of numpy and chess (`pip wheel --wheel-dir FOLDER numpy chess`)
#   STARTER    the command that starts programs elsewhere, such as in a bare system; it must find both at their paths
set -euo pipefail

[ $# -ge 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
wheel=$(realpath "$1") folder=$(realpath "$2")
start=("${@:3}")
environment=$(mktemp -d /tmp/rukh-XXXXXX)
trap 'rm -rf "$environment"' EXIT
"${start[@]}" python3 -m venv "$environment"
"${start[@]}" "$environment/bin/pip" install --quiet --no-index --find-links "$folder" "$wheel[chess]"
played=$(printf 'position startpos\ngo nodes 100\nwait\nquit\n' | "${start[@]}" "$environment/bin/rukh" --backend=cpu)
[[ $played == *"bestmove "* ]] || { echo "rukh did not play: $played" >&2; exit 1; }
"${start[@]}" "$environment/bin/python" -c '
import chess, chess.engine, rukh
network = rukh.Network.embedded()
found = rukh.Evaluator(network).evaluate([chess.Board(), "6k1/5ppp/8/8/8/8/8/R3K2R w KQ - 0 1"])
assert abs(found.wdl.sum() - 2) < 1e-4 and found.q[1] > 0.5, found.wdl
(line,) = rukh.Engine(network).analyse("6k1/5ppp/8/8/8/8/8/R3K2R w KQ - 0 1", chess.engine.Limit(nodes=100))
assert line["score"].white() == chess.engine.Mate(1), line
print(rukh.__version__, found.policy(0))
'
