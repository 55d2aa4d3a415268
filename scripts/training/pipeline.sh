#!/usr/bin/env bash
# Labels positions and trains networks on them at the same time, on one machine: the whole way from nothing to
# networks, for any number of them.
#
# usage: scripts/training/pipeline.sh DIRECTORY 'NAME GPUS ARGUMENTS of train.py' ...
#   for instance        'small 0,1 --width 128 --layers 6 --heads 8 --ffn 256 --smolgen 8,64,32' 'large 2 --width 256'
#   GPUS: numbers, with commas between them: as many processes train together; or none, for the processor alone
#   DIRECTORY gets shards/, and of each network NAME.pt (checkpoint), NAME.pb.gz, NAME.jsonl and NAME.log; what is there
#   already is gone on with
# environment:
#   STOCKFISH=stockfish  LABEL=.../label (built here if not given)  PYTHON=python3
#   LABEL_SECONDS=570  TRAIN_SECONDS=960  PROCESSES=(all cores but two for each network)  SEED=101
#   LABEL_ARGUMENTS, for instance --nodes 2000 --multipv-nodes 2500 --multipv-share 0.2
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

# What is started here ends with it; training keeps what it has.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
# shellcheck disable=SC2086  # several words
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
wait "$labelling" || { echo "labelling failed: $directory/label.log" >&2; failed=1; }
for training in "${trainings[@]}"; do
    read -r process name <<<"$training"
    if wait "$process"; then
        grep held-out "$directory/$name.log" | tail -n 1
    else
        echo "$name failed: $directory/$name.log" >&2
        failed=1
    fi
done
exit "$failed"
