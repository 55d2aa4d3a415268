#!/usr/bin/env bash
# Tries a wheel in an environment of its own, with no access to the internet: the engine plays a move, positions are
# evaluated, and a search finds a mate.
#
# usage: scripts/packages/try_wheel.sh WHEEL FOLDER [STARTER ...]
#   FOLDER     a folder with wheels of numpy, chess and pip (`pip wheel --wheel-dir FOLDER numpy chess pip`)
#   STARTER    the command that starts programs elsewhere, such as in a bare system, which must have this one's /tmp
# environment:
#   PYTHON             the Python that makes the environment (default: python3)
#   PYTHON_EMBEDDED    a folder with Python for Windows as python.org packs it to be embedded. A copy is the environment
#   RUKH_TRY_LIGHT=1   searches few nodes, with the backend `cpu`, which measures nothing when it starts: for an emulated
#                      processor
set -euo pipefail

[ $# -ge 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
nodes=100 backend=auto
[ -z "${RUKH_TRY_LIGHT:-}" ] || nodes=20 backend=cpu
folder=$(mktemp -d /tmp/rukh-XXXXXX)
trap 'rm -rf "$folder"' EXIT
cp "$1" "$2"/*.whl "$folder"
wheel=$folder/$(basename "$1") environment=$folder/environment
# Python for Windows does not start without an input.
exec </dev/null
# `env` does nothing: macOS has a bash for which an empty array is an error.
start=(env "${@:3}")
if [ -n "${PYTHON_EMBEDDED:-}" ]; then
    cp -r "$PYTHON_EMBEDDED" "$environment"
    python=("${start[@]}" "$environment/python.exe")
else
    # Without pip, as an emulated Python can start no other one to install it. The wheel of pip can be started as it is.
    "${start[@]}" "${PYTHON:-python3}" -m venv --without-pip "$environment"
    python=("${start[@]}" "$environment/bin/python")
    [ -d "$environment/bin" ] || python=("${start[@]}" "$environment/Scripts/python.exe")
fi
"${python[@]}" "$(echo "$folder"/pip-*.whl)/pip" install --quiet --no-warn-script-location --no-index \
    --find-links "$folder" "$wheel[chess]"
command=("${start[@]}" "$environment/bin/rukh")
# qemu starts no scripts, only programs.
[ -z "${RUKH_TRY_LIGHT:-}" ] || command=("${python[@]}" "$environment/bin/rukh")
[ -d "$environment/bin" ] || command=("${start[@]}" "$environment/Scripts/rukh.exe")
played=$(printf 'position startpos\ngo nodes %s\nwait\nquit\n' $nodes | "${command[@]}" --backend=$backend)
[[ $played == *"bestmove "* ]] || { echo "rukh did not play: $played" >&2; exit 1; }
"${python[@]}" -m rukh --version
"${python[@]}" -c '
import sys
import chess, chess.engine, rukh
backend, nodes = sys.argv[1], int(sys.argv[2])
network = rukh.Network.embedded()
evaluator = rukh.Evaluator(network, backend)
found = evaluator.evaluate([chess.Board(), "6k1/5ppp/8/8/8/8/8/R3K2R w KQ - 0 1"])
assert abs(found.wdl.sum() - 2) < 1e-4 and found.q[1] > 0.5, found.wdl
limit = chess.engine.Limit(nodes=nodes)
(line,) = rukh.Engine(network, backend).analyse("6k1/5ppp/8/8/8/8/8/R3K2R w KQ - 0 1", limit)
assert line["score"].white() == chess.engine.Mate(1), line
print(rukh.__version__, "on", sys.platform, "with", evaluator.name, "would play", found.best_move(0))
' $backend $nodes
