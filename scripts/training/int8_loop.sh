#!/usr/bin/env bash
# Makes a network that loses less in 8-bit integers: plays games, trains on them (finetune_int8.py), and compares the
# new network with the old one. Everything fits into the given time.
#
# usage: scripts/training/int8_loop.sh RUKH FOLDER SECONDS
#   RUKH     the engine
#   FOLDER   gets games/, new.pb.gz and the printed figures; games that are there already are trained on too
#   SECONDS  for everything: a tenth for the games, four tenths for the training, and half for the comparison
# environment:
#   NETWORK=weights/rukh-128x6.pb.gz
#   BACKEND=auto          plays the training games, for example rocm-fp16
#   GAME_SECONDS, TRAIN_SECONDS, CHECK_SECONDS, MATCH_SECONDS, PLAIN_MATCH_SECONDS
#                         other limits of the parts; 0 skips one
#   VISITS=8              of each search in the training games
#   PARALLELISM=(the engine's)  training games at once
#   LEARNING_RATES=3e-5   several, separated by spaces, share the time of the training; the best student is kept
#   TRAIN_ARGUMENTS=      more arguments for finetune_int8.py
#   CHECK_POSITIONS=10000
#   CPU=cpu               the backend in fp32, and
#   INT8=cpu-int8         the one in 8-bit integers, of the comparison
#   OPENINGS=tests/data/openings.epd  PYTHON=python3
set -euo pipefail
if [ $# -ne 3 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
rukh=$1 folder=$2 seconds=$3
network=${NETWORK:-$here/../../weights/rukh-128x6.pb.gz}
openings=${OPENINGS:-$here/../../tests/data/openings.epd}
int8=${INT8:-cpu-int8} cpu=${CPU:-cpu}
new=$folder/new.pb.gz
mkdir -p "$folder"

# The limit of a part: `share SECONDS PERCENT`, where SECONDS is empty unless the environment has a limit.
share() { echo "${1:-$((seconds * $2 / 100))}"; }

# Runs a program for at most $1 seconds. Ctrl-C ends a tournament with the result so far.
within() {
    local limit=$1 status=0
    shift
    timeout --signal=INT --kill-after=5 "$limit" "$@" || status=$?
    [ "$status" -eq 124 ] || return "$status"
}

limit=$(share "${GAME_SECONDS:-}" 10)
if [ "$limit" -gt 0 ]; then
    echo "games: $limit s"
    within "$limit" "$rukh" selfplay --training --training-dir="$folder/games" --training-tar=50 \
        --backend="${BACKEND:-auto}" --weights="$network" --games=1000000 --visits="${VISITS:-8}" \
        ${PARALLELISM:+--parallelism="$PARALLELISM"} --openings-pgn="$openings" --openings-mode=random \
        --seed="$(date +%s)" >"$folder/games.log" || [ -d "$folder/games" ]
    tail -n 3 "$folder/games.log"
fi

limit=$(share "${TRAIN_SECONDS:-}" 40)
if [ "$limit" -gt 0 ]; then
    read -ra rates <<<"${LEARNING_RATES:-3e-5}"
    each=$((limit / ${#rates[@]}))
    best=
    for rate in "${rates[@]}"; do
        echo "training: $each s, learning rate $rate"
        student=$folder/student-$rate.pb.gz
        rm -f "$folder/train-$rate.jsonl"
        # A tenth of the time is for the figures.
        # shellcheck disable=SC2086  # TRAIN_ARGUMENTS holds several words
        "${PYTHON:-python3}" "$here/finetune_int8.py" "$network" "$student" --data "$folder/games" \
            --seconds "$((each * 9 / 10))" --learning-rate "$rate" --log "$folder/train-$rate.jsonl" \
            ${TRAIN_ARGUMENTS:-}
        divergence=$(sed -n 's/.*"rounded student".*"kl": \([^,]*\),.*/\1/p' "$folder/train-$rate.jsonl" | tail -n 1)
        if [ -z "$best" ] || awk "BEGIN { exit !($divergence < $best) }"; then
            best=$divergence
            cp "$student" "$new"
            echo "kept: learning rate $rate"
        fi
    done
fi

limit=$(share "${CHECK_SECONDS:-}" 10)
if [ "$limit" -gt 0 ]; then
    for weights in "$network" "$new"; do
        echo "check: $weights"
        within "$((limit / 2))" "$rukh" check --backend="$int8" --reference="$cpu" -w "$weights" \
            --positions="${CHECK_POSITIONS:-10000}" |
            tee -a "$folder/check.log"
    done
fi

# A match of the new network against the old one in fp32, with the backend of the new one.
match() {
    local name=$1 backend=$2 limit=$3
    [ "$limit" -gt 0 ] || return 0
    echo "match $name: $limit s"
    within "$limit" "$rukh" selfplay --games=1000 --visits=60 --mirror-openings --openings-pgn="$openings" \
        --openings-mode=shuffled --seed=7 --player1.backend="$backend" --player1.weights="$new" \
        --player2.backend="$cpu" --player2.weights="$network" --json | tee "$folder/match-$name.json"
}
match int8 "$int8" "$(share "${MATCH_SECONDS:-}" 20)"
match fp32 "$cpu" "$(share "${PLAIN_MATCH_SECONDS:-}" 20)"
