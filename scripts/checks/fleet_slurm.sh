#!/usr/bin/env bash
# Runs an analysis and a tournament as job arrays of a Slurm cluster of one node on this machine, with --shard. Two tasks
# are killed and submitted again, and the merged parts must be what one process writes. Needs root, Debian's packages
# slurmctld, slurmd, slurm-client and munge, and the two programs.
#
# usage: cargo build --profile quick -p rukh -p rukh-fleet && scripts/checks/fleet_slurm.sh [GAMES] [TASKS]
set -euo pipefail
cd "$(dirname "$0")/../.."
games=${1:-400}
tasks=${2:-8}
rukh=${RUKH:-$PWD/target/quick/rukh}
fleet=${RUKH_FLEET:-$PWD/target/quick/rukh-fleet}
for program in slurmctld slurmd sbatch munged "$rukh" "$fleet"; do
    command -v "$program" >/dev/null || { echo "skipped: $program is missing" && exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: Slurm's daemons need root" && exit 0; }

folder=$(mktemp -d)
export SLURM_CONF=$folder/slurm.conf
daemons=()
finish() {
    scancel --user=root 2>/dev/null || true
    [ ${#daemons[@]} = 0 ] || kill "${daemons[@]}" 2>/dev/null || true
    wait
    rm -rf "$folder"
}
trap finish EXIT

# Munge proves to Slurm's daemons who sends a message.
install -d -o munge -g munge "$folder/munge"
chmod 755 "$folder"
runuser -u munge -- munged --foreground --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" \
    --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" &
daemons+=($!)
cat >"$SLURM_CONF" <<END
ClusterName=check
SlurmctldHost=$(hostname -s)
SlurmctldAddr=127.0.0.1
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
END
mkdir "$folder/state" "$folder/spool"
slurmctld -D >"$folder/slurmctld.log" 2>&1 &
daemons+=($!)
slurmd -D >"$folder/slurmd.log" 2>&1 &
daemons+=($!)
for _ in $(seq 100); do
    [ "$(sinfo --noheader --format=%T 2>/dev/null)" != idle ] || break
    sleep 0.2
done
sinfo

# array TASKS COMMAND ...: runs tasks of an array to their end. Returns whether all were successful.
array() {
    local which=$1
    shift
    printf '#!/bin/sh\n%s\n' "$*" >"$folder/task.sh"
    (cd "$folder" && sbatch --wait --quiet --array="$which" --output="$folder/task-%a.log" --open-mode=append task.sh)
}

settings="--backend=trivial --nncache=0 --nodes=400"
"$rukh" selfplay --backend=random --visits=8 --temperature=1 --games="$games" --pgn="$folder/games.pgn" --json \
    >/dev/null
# shellcheck disable=SC2016  # the task expands its number
task="$rukh analyze $settings $folder/games.pgn --parallelism=1"' --shard=$SLURM_ARRAY_TASK_ID/'"$tasks"
task+=" --output=$folder/"'part-$SLURM_ARRAY_TASK_ID.jsonl'
if array 1,2 "timeout --signal=KILL 1.5 $task"; then
    echo "the tasks that are to be killed end too early; give more games" >&2
    exit 1
fi
killed=$(cat "$folder"/part-{1,2}.jsonl | wc -l)
begun=$(date +%s.%N)
array "1-$tasks" "$task"
slurm=$(echo "$(date +%s.%N) - $begun" | bc)
"$fleet" merge "$folder"/part-*.jsonl --output="$folder/merged.jsonl"
begun=$(date +%s.%N)
# shellcheck disable=SC2086
"$rukh" analyze $settings "$folder/games.pgn" --parallelism="$(nproc)" --output="$folder/whole.jsonl"
alone=$(echo "$(date +%s.%N) - $begun" | bc)
cmp "$folder/merged.jsonl" "$folder/whole.jsonl"
echo "analysis: $(wc -l <"$folder/whole.jsonl") positions in $tasks tasks are those of one process;" \
    "two tasks were killed after $killed positions and went on; $slurm s with Slurm, $alone s in one process"

tournament="--backend=trivial --games=60 --player1.visits=20 --player2.visits=6 --mirror-openings --json"
tournament+=" --openings-pgn=$PWD/tests/data/openings.epd"
# shellcheck disable=SC2016  # the task expands its number
array "1-$tasks" "$rukh selfplay $tournament" '--shard=$SLURM_ARRAY_TASK_ID/'"$tasks" \
    ">$folder/"'part-$SLURM_ARRAY_TASK_ID.json'
# shellcheck disable=SC2086
"$rukh" selfplay $tournament >"$folder/whole.json"
"$fleet" merge "$folder"/part-*.json >"$folder/merged.json"
python3 - "$folder" <<'END'
import json, sys
merged, whole = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("merged", "whole"))
for name in ("games", "wins", "draws", "losses", "pairs", "elo"):
    assert merged[name] == whole[name], (name, merged, whole)
print("tournament:", merged["games"], "games have the score of one process, with", merged["elo"], "Elo")
END
