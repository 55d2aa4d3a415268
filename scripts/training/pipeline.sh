#!/usr/bin/env bash
# Makes networks from scratch: labels positions and, at the same time, trains any number of networks on them, all on one
# machine. Needs Rust, Stockfish 15 or newer, and Python with PyTorch and numpy.
#
# usage: scripts/training/pipeline.sh DIRECTORY 'NAME GPUS TRAIN_ARGUMENTS' ...
#   for example      'small 0,1 --width 128 --layers 6 --heads 8 --ffn 256 --smolgen 8,64,32' 'large 2 --width 256'
#   DIRECTORY        gets shards/ and, for each network, NAME.pt (checkpoint), NAME.pb.gz, NAME.jsonl and NAME.log;
#                    existing shards are added to, and existing checkpoints are continued
#   GPUS             numbers separated by commas, one training process for each; or `none` to train on the CPU
#   TRAIN_ARGUMENTS  more arguments for train.py
# environment:
#   STOCKFISH=stockfish  LABEL=(path of `label`; built if not given)  PYTHON=python3
#   LABEL_SECONDS=570  TRAIN_SECONDS=960  SEED=101
#   PROCESSES=(number of cores, less two for each network)
#   LABEL_ARGUMENTS=(more arguments for `label`), for example --nodes 2000 --multipv-nodes 2500 --multipv-share 0.2
#   RUKH=(path of the engine)  REFERENCE=weights/rukh-128x6.pb.gz
#                         with RUKH, each network in the end plays a tournament against REFERENCE
#   MATCH_ARGUMENTS='--visits=100 --games=480 --minibatch-size=4'  for `rukh selfplay`
#   OPENINGS=tests/data/openings.epd
set -euo pipefail
if [ $# -lt 2 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
directory=$1
shift
mkdir -p "$directory/shards"

if [ -z "${LABEL:-}" ]; then
    cargo build --release --manifest-path "$here/labeler/Cargo.toml" --bin label
    LABEL=$here/../../target/release/label
fi
processes=${PROCESSES:-$(($(nproc) - 2 * $#))}
[ "$processes" -gt 0 ] || processes=1

# When this script ends, it also ends its processes; a training process then still writes its checkpoint.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
# shellcheck disable=SC2086  # LABEL_ARGUMENTS holds several words
nice -n 19 "$LABEL" --stockfish "${STOCKFISH:-stockfish}" --processes "$processes" \
    --seconds "${LABEL_SECONDS:-570}" --output "$directory/shards" --seed "${SEED:-101}" ${LABEL_ARGUMENTS:-} \
    >>"$directory/label.log" 2>&1 &
labelling=$!

trainings=()
for network in "$@"; do
    read -r name gpus arguments <<<"$network"
    if [ "$gpus" = none ]; then
        count=1 device=cpu gpus=
    else
        count=$(tr ',' '\n' <<<"$gpus" | wc -l) device=cuda
    fi
    # shellcheck disable=SC2086
    CUDA_VISIBLE_DEVICES=$gpus "${PYTHON:-python3}" "$here/train.py" --data "$directory/shards" --name "$name" \
        --seconds "${TRAIN_SECONDS:-960}" --processes "$count" --device "$device" --checkpoint "$directory/$name.pt" \
        --export "$directory/$name.pb.gz" --log "$directory/$name.jsonl" $arguments >>"$directory/$name.log" 2>&1 &
    trainings+=("$! $name")
done

failed=0
wait "$labelling" || { echo "labelling failed: see $directory/label.log" >&2; failed=1; }
trained=()
for training in "${trainings[@]}"; do
    read -r process name <<<"$training"
    if wait "$process"; then
        grep held-out "$directory/$name.log" | tail -n 1
        trained+=("$name")
    else
        echo "the training of $name failed: see $directory/$name.log" >&2
        failed=1
    fi
done

for name in "${trained[@]}"; do
    [ -n "${RUKH:-}" ] || break
    # shellcheck disable=SC2086
    "$RUKH" selfplay --player1.weights="$directory/$name.pb.gz" \
        --player2.weights="${REFERENCE:-$here/../../weights/rukh-128x6.pb.gz}" --mirror-openings \
        --openings-pgn="${OPENINGS:-$here/../../tests/data/openings.epd}" \
        ${MATCH_ARGUMENTS:---visits=100 --games=480 --minibatch-size=4} >"$directory/$name.match.log" 2>&1 ||
        { echo "the tournament of $name failed: see $directory/$name.match.log" >&2; failed=1; }
    echo "$name: $(grep -E '^(player 1|Elo)' "$directory/$name.match.log" | tr '\n' ' ')"
done
exit "$failed"
