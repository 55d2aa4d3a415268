#!/usr/bin/env bash
# Checks the backends for NVIDIA cards on a card: correctness, speed, races, time by operation.
#
# usage: scripts/checks/cuda.sh PACKED [step ...]
#   PACKED  the folder that scripts/checks/cuda_pack.sh made
# Steps: correct speed profile branches sweep large sanitize compare doctor own tune verdicts search cards match variant
# matrix loop int8 fp8 weights threads formats check movetime chains starts many each played duel; if none is named, the first three run. Each step has
# a time limit. A call ends within ten minutes, and names the steps that it had no time for. Two calls do the steps that
# tests of every change need: `correct speed profile`, then `branches sweep large`.
# environment:
#   LC0      for the steps match and duel: lc0 with its CUDA backend
#   BRANCHES for the step branches: some of fork and tuned
#   SIMULATED, MANY  for the step many: numbers of simulated cards (default: 1,2,4,8,16; empty for none), and flags of
#            scripts/matches/many_cards.py for the real ones, such as --options wait=block
#   SEARCH_FLAGS, SEARCH_MILLISECONDS  for the step cards: flags of the searches, and their time (default: 8000)
#   GAMES, SEED  for the step formats: the games of int8 against fp32 at equal visits (300), and their seed (41)
#   VARIANT  for the step variant: NAME=VALUE, an option of one side
#   MATRIX   for the step matrix: the networks, visits and features, as flags of scripts/matches/matrix.py
#   MATCH_LIMIT, MATCH_GAMES, MATCH_SECONDS, MATCH_NETWORK  for match and variant: the limit of a move (default:
#            --movetime 100; --nodes 5000), the games at a time on each card (4), the time (300), and the network; for duel
#            the limit (movetime=20) and the time (250) of match.py
#   FORMAT   for the step duel: the backend of each card (default: cuda-fp16); for played: the only backend (default:
#            cuda and cuda-fp16)
#   AGAINST  for the step compare: a folder that cuda_pack.sh made of another version
#   OUT      the folder for logs and tables (default: a temporary one)
#   NETWORKS the large networks that are made (default: t82-like t1-like bt4-full); wide-N, which needs PyTorch, is the
#            embedded network at N times its width: it costs as much as a large one (GFLOP for a position: wide-8 6.7,
#            wide-12 15; T82's shape 8.9, BT4's 16.4), and is searched like a trained one
#   STORE    the folder for files that later calls reuse: large networks, compiled kernels, tables of measured GEMMs
#   CUBLASLT the folder of a cuBLASLt (default: that of Python's packages, if there is one)
#   TARGETS  for the step correct: the targets whose kernels are used, or `card` for what suits the card (default: card)
# Needs the display driver, python3 with numpy and protobuf for the large networks, compute-sanitizer for the step sanitize,
# python-chess for match and duel, and PyTorch for loop and wide-N. The variables that lead to a toolkit are unset.
set -uo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
name_of_call=$(IFS=-; echo "${*:2}")
name_of_call=${name_of_call:-default}
packed=$(cd "${1:?usage: scripts/checks/cuda.sh PACKED [step ...]}" && pwd)
shift
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(correct speed profile)
work=$(mktemp -d /tmp/rukh-cuda.XXXXXX)
out=${OUT:-$work/out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
store=${STORE:-/tmp/rukh-cuda}
mkdir -p "$store/tables"
start=$SECONDS
failed=()

unset LD_LIBRARY_PATH CUDA_PATH VIRTUAL_ENV CONDA_PREFIX
if [ -z "${CUBLASLT:-}" ]; then
    CUBLASLT=$(python3 -c '
import glob, sys
found = [path for root in sys.path for path in glob.glob(root + "/nvidia/*/lib/libcublasLt.so.1?")]
print(max(found).rsplit("/", 1)[0] if found else "")' 2>/dev/null)
fi
# The options that use cuBLASLt.
with_library=${CUBLASLT:+libraries=$CUBLASLT}
# The compiled kernels are kept for the next call.
export XDG_CACHE_HOME=$store/cache
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || echo "nvidia-smi was not found"
cards=$(nvidia-smi -L 2>/dev/null | wc -l)

rukh=$packed/rukh
random=$store/networks
mkdir -p "$random"
read -ra names <<<"${NETWORKS:-t82-like t1-like bt4-full}"

# make_network FOLDER NAME: makes a large network.
make_network() {
    case $2 in
        wide-*)
            timeout 150 python3 "$here/scripts/training/export.py" --widen "$here/weights/rukh-128x6.pb.gz" \
                --factor "${2#wide-}" "$1/$2.pb.gz"
            ;;
        *) timeout 150 python3 "$packed/make_nets.py" --out "$1" "$2" ;;
    esac
}

# The large networks are made while the first step runs.
makers=()
for name in "${names[@]}"; do
    [ ! -e "$random/$name.pb.gz" ] || continue
    if [[ $name != wide-* && ! (-f $packed/net_pb2.py && -f $packed/make_nets.py) ]]; then
        echo "$packed lacks net_pb2.py or make_nets.py: there is no $name"
        continue
    fi
    mkdir -p "$random/.part-$name"
    {
        make_network "$random/.part-$name" "$name" >"$work/make-$name.log" 2>&1 &&
            mv "$random/.part-$name/$name.pb.gz" "$random/"
    } &
    makers+=($!)
done
large_networks() {
    local pid
    for pid in ${makers[@]+"${makers[@]}"}; do
        wait "$pid" || cat "$work"/make-*.log
    done
    makers=()
}

# The file of a network: one of the large ones, or one of the repository.
network_file() {
    local large=$random/$1.pb.gz
    if [ -e "$large" ]; then echo "$large"; else echo "$here/weights/$1.pb.gz"; fi
}

# Seconds after which the whole call ends.
all=560

# run SECONDS LOG COMMAND …: runs a command for at most SECONDS, and not beyond the end of the call; returns its status.
run() {
    local limit=$1 log=$2 left=$((all - (SECONDS - start)))
    shift 2
    if [ $left -lt 5 ]; then
        echo "NOT DONE for lack of time: $*"
        return 1
    fi
    [ "$limit" -le $left ] || limit=$left
    timeout --kill-after=5 "$limit" "$@" >"$out/$log" 2>&1
    local status=$?
    [ $status -eq 0 ] || echo "status $status: $*"
    return $status
}

# Compares every network of tests/data and of PACKED/shared with lc0's figures, in fp32, fp16 and bf16, as far as the target has them,
# and in every bucket of batch sizes, with the driver alone.
step_correct() {
    local target formats status=0
    local target_option
    for target in ${TARGETS:-card}; do
        target_option=target=$target,
        [ "$target" != card ] || target_option=""
        case $target in
            sm_61) formats=fp32 ;;
            sm_75) formats=fp32,fp16 ;;
            *) formats=fp32,fp16,bf16 ;;
        esac
        run 200 "correct-$target.log" "$packed/distance" --seconds=180 --formats=$formats --options="${target_option}gemm=own" \
            "$here/tests/data" "$packed/shared" || status=1
        echo "-- $target"
        grep -E "^ALL|TOO FAR|FAILED|NOT DONE|skipped:|distance:" "$out/correct-$target.log" | cut -c1-300 | head -60
    done
    return $status
}

# Compares as the step correct does, with chains, which most AMD cards run by default. The PTX that ships has none.
step_chains() {
    local status=0
    if [ ! -x "$packed/distance-chains" ]; then
        echo "skipped: $packed was made without CHAINS=1"
        return 0
    fi
    run 150 chains.log "$packed/distance-chains" --seconds=130 --formats=fp16,bf16 \
        --options="target=sm_80,gemm=own,fuse=true" "$here/tests/data" "$packed/shared" || status=1
    grep -E "^ALL|TOO FAR|FAILED|NOT DONE|skipped:|distance:" "$out/chains.log" | cut -c1-300 | head -20
    return $status
}

# Compares the large networks with the CPU's fp32, and t1-like with lc0.
step_large() {
    large_networks
    local networks=()
    for name in t82-like bt4-full; do
        [ -e "$random/$name.pb.gz" ] && networks+=("$random/$name.pb.gz")
    done
    local folder=$work/large
    mkdir -p "$folder"
    cp "$here"/tests/data/micro-attn.* "$folder/"
    [ -e "$packed/shared/t1-like.json" ] && cp "$packed/shared/t1-like.json" "$folder/" && ln -sf "$random/t1-like.pb.gz" "$folder/"
    run 110 large.log "$packed/distance" --seconds=70 --max-batch=256 "$folder" ${networks[@]+"${networks[@]}"}
    local status=$?
    grep -vE "^micro|^ALL" "$out/large.log" | cut -c1-300 | head -30
    return $status
}

# measure SECONDS FILE NETWORK SET …: measures each set of options, and appends a line for each to $out/FILE.
measure() {
    local limit=$1 log=$2 name=$3 left=$((all - (SECONDS - start)))
    shift 3
    if [ ! -e "$random/$name.pb.gz" ] || [ $left -lt 15 ]; then
        echo "$name NOT DONE: the network is missing, or time is short" | tee -a "$out/$log"
        return 1
    fi
    [ "$limit" -le $left ] || limit=$left
    local sets=() set
    for set; do
        [[ $set == *gemm=own* ]] || set+=${with_library:+,$with_library}
        sets+=("$set")
    done
    (
        cd "$store/tables" || exit 1
        timeout --kill-after=5 "$limit" "$packed/sweep" --backend="${sweep_backend:-cuda-fp16}" \
            --sizes="${sweep_sizes:-16,64,256,512}" --milliseconds="$milliseconds" --seconds=$((limit - 10)) \
            "$random/$name.pb.gz" "${sets[@]}" 2>>"$out/$log.err" | tee -a "$out/$log"
        exit "${PIPESTATUS[0]}"
    ) || { tail -3 "$out/$log.err" && return 1; }
}
milliseconds=500

# The options for full tuning of GEMMs, with the network's tuning file, which the first measurement writes.
tuned() {
    echo "tune=full,tuning_file=$1.csv"
}

# Measures evaluations per second with default options, then with others, and prints lc0's figures and our targets.
step_speed() {
    large_networks
    local name status=0
    for name in "${names[@]}"; do
        measure 90 plain.txt "$name" "tuning_file=$name-quick.csv" "$(tuned "$name"),wait=block" "$(tuned "$name"),wait=spin" \
            "$(tuned "$name"),wait=spin,streams=2" "$(tuned "$name"),wait=spin,streams=1" "tune=off,wait=spin" || status=1
    done
    python3 "$here/scripts/checks/cuda_tables.py" speed "$out/plain.txt" | tee "$out/speed.txt"
    return $status
}

# Measures many combinations of options, the most promising first.
step_sweep() {
    large_networks
    milliseconds=300
    local name fork rows status=0 list
    for name in "${names[@]}"; do
        list=()
        for fork in 0 32 64 128 1024; do
            list+=("$(tuned "$name"),wait=spin,fork=$fork")
        done
        for rows in 16 64 256; do
            list+=("$(tuned "$name"),wait=spin,few_rows=$rows")
        done
        list+=("$(tuned "$name"),wait=spin,streams=1" "$(tuned "$name"),wait=spin,streams=2"
            "$(tuned "$name"),wait=spin,streams=4" "threads=2/$(tuned "$name"),wait=spin,streams=1"
            "$(tuned "$name"),wait=yield" "$(tuned "$name"),wait=block" "tune=off,wait=spin"
            "$(tuned "$name"),wait=spin,graph=false")
        measure $((6 * ${#list[@]} + 20)) plain.txt "$name" "${list[@]}" || status=1
    done
    python3 "$here/scripts/checks/cuda_tables.py" speed "$out/plain.txt" | tee "$out/speed.txt"
    return $status
}

# Measures this version and the one in AGAINST in turn, and prints the ratio of their speeds.
step_compare() {
    if [ ! -x "${AGAINST:-}/sweep" ]; then
        echo "AGAINST names no folder of cuda_pack.sh: '${AGAINST:-}'"
        return 1
    fi
    large_networks
    local name other status=0
    other=$(cd "$AGAINST" && pwd)
    for _ in 1 2 3 4 5; do
        for name in t1-like bt4-full; do
            # Without tuning, both versions use the libraries' first proposals. A tuner's choices could differ.
            packed=$other measure 20 other.txt "$name" "tune=off,wait=spin" >/dev/null || status=1
            measure 20 this.txt "$name" "tune=off,wait=spin" >/dev/null || status=1
        done
    done
    python3 "$here/scripts/checks/cuda_tables.py" compare "$out/this.txt" "$out/other.txt"
    return $status
}

# Examines the card with `rukh doctor`, which takes at most three minutes with t1-like.
step_doctor() {
    large_networks
    run 180 doctor.log "$rukh" doctor --weights="$random/t1-like.pb.gz" --backend=cuda-fp16 --report="$out/rukh-doctor"
    local status=$?
    cat "$out/doctor.log"
    return $status
}

# Runs `rukh tune` with t82-like, which must end within four minutes and report a padding of 0.1 at most. Before that, a
# start with an empty cache folder measures the default's GEMMs, as a user's first start does, and `rukh tune` begins
# with these. Then it compares starts with what was found and starts with the default's GEMMs, five times in turn, at
# many batch sizes, and in three rounds also starts without any tuning.
step_tune() {
    large_networks
    local status=0 round sizes=1,2,4,8,12,16,24,32,48,64,96,128,160,192,256,384,512
    milliseconds=20
    sweep_sizes=512 XDG_CACHE_HOME=$store/cache-untuned measure 70 first.txt t82-like "max_batch=512" >/dev/null || status=1
    mkdir -p "$store/cache"
    cp -Rn "$store/cache-untuned/." "$store/cache/"
    run 250 tune.log "$rukh" tune --json --seconds=240 --weights="$random/t82-like.pb.gz" --backend=cuda-fp16 || status=1
    cat "$out/tune.log"
    milliseconds=120
    for round in 1 2 3 4 5; do
        sweep_sizes=$sizes XDG_CACHE_HOME=$store/cache-untuned measure 45 untuned.txt t82-like "max_batch=512" >/dev/null || status=1
        sweep_sizes=$sizes measure 45 tuned.txt t82-like "max_batch=512" >/dev/null || status=1
        [ "$round" -gt 3 ] ||
            sweep_sizes=$sizes measure 45 tune-off.txt t82-like "max_batch=512,tune=off" >/dev/null || status=1
    done
    python3 "$here/scripts/checks/cuda_tables.py" compare "$out/tuned.txt" "$out/untuned.txt"
    echo "-- tune=off"
    python3 "$here/scripts/checks/cuda_tables.py" compare "$out/tuned.txt" "$out/tune-off.txt"
    return $status
}

# Compares what `rukh profile` says of each operation with what happens when the term that it names is changed.
step_verdicts() {
    large_networks
    local status=0 batch
    for batch in 256 64; do
        run 110 "verdicts-$batch.log" "$here/scripts/checks/verdicts.py" "$rukh" --weights="$random/t82-like.pb.gz" \
            --batch=$batch || status=1
        cat "$out/verdicts-$batch.log"
    done
    return $status
}

# Measures searches, analysis and self-play beside the backend alone.
step_search() {
    large_networks
    local status=0 name
    for name in t82-like bt4-full; do
        run 90 "search-$name.log" "$here/scripts/matches/search_share.py" --milliseconds=1000 --positions=3 --batches=256,512 \
            "$rukh --weights=$random/$name.pb.gz --backend=cuda-fp16" || status=1
        echo "-- $name" && cat "$out/search-$name.log"
    done
    run 60 selfplay.log "$rukh" selfplay --backend=cuda-fp16 --weights="$here/weights/rukh-128x6.pb.gz" --visits=100 \
        --games=600 --openings-pgn="$here/tests/data/openings.epd" --mirror-openings --json || status=1
    cat "$out/selfplay.log"
    run 120 analysis.log "$here/scripts/matches/analysis_speed.py" --count=400 --bench --bench-threads=3 \
        "$rukh --weights=$random/t82-like.pb.gz --backend=cuda-fp16" || status=1
    cat "$out/analysis.log"
    return $status
}

# Counts the nodes of searches of 100 ms that have the card to themselves, by the way in which batches are filled.
step_movetime() {
    compile_kernels || return 1
    large_networks
    local status=0 name network engine
    for name in rukh-128x6 "${names[@]}"; do
        network=$(network_file "$name")
        engine="$rukh -b cuda-fp16 -w $network"
        run 60 "start-$name.log" "$rukh" backendbench -b cuda-fp16 -w "$network" --max-batch-size=8 --batches=5 || status=1
        run 120 "movetime-$name.log" "$here/scripts/matches/compare_search.py" --movetime=100 --rounds=3 --threads=0 \
            --option MoveOverheadMs=0 "visits=$engine" "policy=$engine --no-prefetch-by-visits" \
            "none=$engine --max-prefetch=0" || status=1
        echo "-- $name" && cat "$out/movetime-$name.log"
    done
    return $status
}

# Compiles and tunes once, so that no measurement does, nor each of many processes at the same time. A start that
# compiles may take too long for the engine, and the next one finds what was compiled.
compile_kernels() {
    local attempt
    for attempt in 1 2; do
        ! run 90 "start-$attempt.log" "$rukh" backendbench --backend=cuda-fp16 --batches=5 --max-batch-size=8 \
            --weights="$here/weights/rukh-128x6.pb.gz" || return 0
    done
    return 1
}

# share_of_search SECONDS LOG THREADS FLAGS: measures long searches beside the backend alone, with these flags of the
# engine and so many threads of `backendbench`.
share_of_search() {
    run "$1" "$2" "$here/scripts/matches/search_share.py" --milliseconds="${SEARCH_MILLISECONDS:-8000}" --positions=3 \
        --rounds=1 --batches=512 --threads="$3" --search-flags="${SEARCH_FLAGS:-}" "$rukh $4"
}

# Prints the seconds from a start to the answer to `isready`: with an empty cache folder, and six times after that, with
# the driver alone. The processor has two starts.
step_starts() {
    large_networks
    local name backend cache number options
    for name in rukh-128x6 "${names[@]}"; do
        [ -e "$(network_file "$name")" ] || continue
        for backend in cuda-fp16 cpu-auto; do
            cache=$(mktemp -d "$work/starts.XXXXXX")
            options=""
            [ $backend != cuda-fp16 ] || options=gemm=own
            echo "-- $name, $backend $options"
            for ((number = 0; number < 7; number++)); do
                [ $backend = cuda-fp16 ] || [ $number -lt 2 ] || break
                [ $((SECONDS - start)) -lt $((all - 30)) ] || return 1
                seconds_to_readyok "$cache" "--weights=$(network_file "$name")" \
                    --backend=$backend "--backend-opts=$options"
            done
        done
    done
}

# seconds_to_readyok CACHE ARGUMENT ...: starts the engine with this cache folder, and prints the time and what it says
# about tuning.
seconds_to_readyok() {
    local begin=$EPOCHREALTIME line said=""
    coproc engine { XDG_CACHE_HOME=$1 exec timeout 60 "$rukh" "${@:2}" 2>&1; }
    echo isready >&"${engine[1]}"
    while IFS= read -r line <&"${engine[0]}" && [ "$line" != readyok ]; do
        case $line in *tuning:* | *error*) said+=" ${line#info string }" ;; esac
    done
    awk -v begin="$begin" -v end="$EPOCHREALTIME" -v said="$said" 'BEGIN { printf "%5.2f s%s\n", end - begin, said }'
    echo quit >&"${engine[1]}"
    wait "$engine_PID"
}

# Measures searches on one card and on all cards of the machine behind `multiplexing`, beside the backends alone.
step_cards() {
    compile_kernels || return 1
    large_networks
    local status=0 name count backend
    for name in "${names[@]}"; do
        for count in $(printf '%s\n' 1 "$cards" | uniq); do
            backend="--backend=cuda-fp16"
            if [ "$count" -gt 1 ]; then
                backend="--backend=multiplexing --backend-opts='$(all_cards cuda-fp16)'"
            fi
            share_of_search 180 "cards-$name-$count.log" $((3 * count)) "--weights=$random/$name.pb.gz $backend" || status=1
            echo "-- $name, cards: $count" && cat "$out/cards-$name-$count.log"
        done
        [ "$cards" -eq 1 ] || { one_search_a_card "$name" || status=1; }
    done
    return $status
}

# Measures searches that share nothing but the machine, at the same time on each card. What they lack to as many times
# one search is the machine's, and not that of a search with several cards.
one_search_a_card() {
    local card status=0 searches=()
    for ((card = 0; card < cards; card++)); do
        CUDA_VISIBLE_DEVICES=$card share_of_search 120 "cards-$1-alone-$card.log" 3 \
            "--weights=$random/$1.pb.gz --backend=cuda-fp16" &
        searches+=($!)
    done
    for card in "${searches[@]}"; do wait "$card" || status=1; done
    echo "-- $1, a search for each card" && cat "$out/cards-$1"-alone-?.log
    return $status
}

# all_cards BACKEND: the options of a combined backend for all cards.
all_cards() {
    local card options=backend=$1
    for ((card = 0; card < cards; card++)); do options+=",(gpu=$card)"; done
    echo "$options"
}

# Measures how searches of ten seconds scale with the number of cards: simulated ones, and those of the machine beside
# their evaluations alone.
step_many() {
    local status=0 name more many=(python3 "$here/scripts/matches/many_cards.py" "$rukh" --seconds 10 --rounds 1)
    lscpu | grep -E "Model name|^CPU\(s\)|Thread|Socket"
    if [ -n "${SIMULATED=1,2,4,8,16}" ]; then
        run 160 many-simulated.log "${many[@]}" --positions 1 --cards "$SIMULATED" --shapes t82 || status=1
        cat "$out/many-simulated.log"
    fi
    read -ra more <<<"${MANY:-}"
    compile_kernels || return 1
    large_networks
    for name in "${names[@]}"; do
        run 160 "many-$name.log" "${many[@]}" --cards "$(printf '%s\n' 1 "$cards" | uniq | paste -sd,)" --backend cuda-fp16 \
            --weights "$random/$name.pb.gz" --alone ${more[@]+"${more[@]}"} || status=1
        cat "$out/many-$name.log"
    done
    return $status
}

# Compares the figures of each card, and of all behind `multiplexing`, with the processor's in fp32.
step_each() {
    local status=0 format card name backends
    for format in cuda cuda-fp16; do
        backends=()
        for ((card = 0; card < cards; card++)); do backends+=("$format gpu=$card"); done
        [ "$cards" -eq 1 ] || backends+=("multiplexing $(all_cards "$format")")
        for name in "${backends[@]}"; do
            run 60 "each-$format.log" "$rukh" check --backend="${name% *}" --backend-opts="${name#* }" --positions=2000 ||
                status=1
            echo "-- $name" && cat "$out/each-$format.log"
        done
    done
    return $status
}

# Compares one batch in a hundred of each card with the processor in fp32, in searches with all cards. The first starts
# have an empty cache folder, so that the cards are tuned.
step_played() {
    local status=0 format tolerance card children
    for format in ${FORMAT:-cuda cuda-fp16}; do
        [ "$format" = cuda ] && tolerance=0.001 || tolerance=0.02
        children=()
        for ((card = 0; card < cards; card++)); do
            children+=("(backend=check,freq=0.01,atol=$tolerance,(backend=$format,gpu=$card),(backend=cpu))")
        done
        XDG_CACHE_HOME=$work/played run 90 "played-$format.log" "$rukh" bench --movetime=1000 --num-positions=30 \
            --weights="$here/weights/rukh-128x6.pb.gz" --backend=multiplexing \
            --backend-opts="$(IFS=, && echo "${children[*]}")" || status=1
        echo "-- $format" && grep "batches compared" "$out/played-$format.log"
        # Every card must have been compared.
        [ "$(grep -cE "check: [1-9][0-9]* batches compared, 0 failed" "$out/played-$format.log")" -eq "$cards" ] || status=1
    done
    return $status
}

# Plays all cards of the machine against one card, with the same time for a move, for MATCH_SECONDS; then, if LC0 is
# set, lc0 does the same.
step_duel() {
    compile_kernels || return 1
    local status=0
    all_against_one rukh "$rukh" multiplexing || status=1
    [ ! -x "${LC0:-}" ] || all_against_one lc0 "$LC0" demux || status=1
    return $status
}

# all_against_one NAME PROGRAM BACKEND: BACKEND is the one that distributes positions to all cards.
all_against_one() {
    local seconds=${MATCH_SECONDS:-250} format=${FORMAT:-cuda-fp16}
    LD_LIBRARY_PATH=$(dirname "$2") run $((seconds + 30)) "duel-$1.log" python3 "$here/scripts/matches/match.py" --games 100 --resign 600 --name1 all --name2 one \
        --limit "${MATCH_LIMIT:-movetime=20}" --seconds "$seconds" --pgn "$out/duel-$1.pgn" \
        --engine1 "$2 --backend=$3 --backend-opts=$(all_cards "$format")" --engine2 "$2 --backend=$format --backend-opts=gpu=0" \
        --both MoveOverheadMs=0 --both "WeightsFile=${MATCH_NETWORK:-$here/weights/rukh-128x6.pb.gz}"
    local status=$?
    echo "-- $1" && tail -n 4 "$out/duel-$1.log"
    return $status
}

# Measures how a search without evaluations scales with threads, beside as many processes.
step_threads() {
    run 200 threads.log "$here/scripts/matches/thread_scaling.py" "$rukh --backend=random" --rounds=3
    local status=$?
    lscpu | grep -E "Model name|Thread|Core|Socket|L3" >>"$out/threads.log"
    cat "$out/threads.log"
    return $status
}

# Times the processor's formats, with fp32 beside onnxruntime, on one thread; then plays int8 against fp32 at equal visits.
step_formats() {
    large_networks
    local status=0 name network batch engines
    "$rukh" leela2onnx --input="$random/t1-like.pb.gz" --output="$work/t1.onnx" >/dev/null || status=1
    "$rukh" leela2onnx --input="$random/t1-like.pb.gz" --output="$work/t1-8.onnx" --onnx-batch-size=8 >/dev/null || status=1
    for name in t1-like:8 rukh-128x6:16; do
        IFS=: read -r name batch <<<"$name"
        network=$(network_file "$name")
        engines=("int8=$rukh -b cpu-int8" "bf16=$rukh -b cpu-bf16" "fp32=$rukh -b cpu"
            "fp32-avx512=$rukh -b cpu -o isa=AVX-512" "int8-vnni=$rukh -b cpu-int8 -o 'isa=AVX-512 VNNI'")
        [ "$name" != t1-like ] || engines+=("ort=$here/scripts/matches/onnx_bench.py --model $work/t1.onnx"
            "ort-fixed=$here/scripts/matches/onnx_bench.py --model $work/t1-8.onnx")
        run 120 "formats-$name.log" "$here/scripts/matches/compare_backendbench.py" --net "$network" --batch "$batch" \
            --batches=60 --rounds=3 "${engines[@]}" || status=1
        echo "-- $name" && cat "$out/formats-$name.log"
    done
    run 240 formats-visits.log "$rukh" selfplay --games="${GAMES:-300}" --visits=60 --mirror-openings \
        --openings-pgn="$here/tests/data/openings.epd" --openings-mode=shuffled --seed="${SEED:-41}" \
        --parallelism=32 --player1.backend=cpu-int8 --player2.backend=cpu || status=1
    tail -3 "$out/formats-visits.log"
    return $status
}

# Compares the processor's formats with fp32 on 10,000 positions of games. The large networks' weights are random.
step_check() {
    large_networks
    local status=0 name format
    for name in "${names[@]}"; do
        for format in int8 bf16; do
            run 300 "check-$name-$format.log" "$rukh" check --backend=cpu-$format -w "$random/$name.pb.gz" --batch=256 || status=1
            echo "-- $name" && cat "$out/check-$name-$format.log"
        done
    done
    return $status
}

# Examines all our kernels for fp16 with `rukh doctor`, which writes the reports REPORT.txt and REPORT.json.
kernels_are_right() {
    local report=$1 status=0
    run 45 "$report.log" "$rukh" doctor --stage=kernels --weights="$here/tests/data/micro-attn.pb.gz" \
        --backend=cuda-fp16 --time-limit=40 --report="$out/$report" || status=1
    grep -E "wrong|damage" "$out/$report.txt" && status=1
    return $status
}

# Compares our own GEMMs, with plain and with preshuffled weights, with the libraries', GEMM by GEMM and in whole
# passes, and counts the rows of the tuned tables that have preshuffled weights. The figures of every GEMM
# and of every tile are checked, with guards around the matrices. Writes own.md, the tables for docs/benchmarks.md.
# Takes at most 390 s after the networks are made.
step_own() {
    large_networks
    local name status=0 reports=() begin=$SECONDS
    kernels_are_right own-kernels || status=1
    for name in "${names[@]}"; do
        [ -e "$random/$name.pb.gz" ] || continue
        run 50 "own-$name.log" "$rukh" doctor --quick --stage=gemms --weights="$random/$name.pb.gz" \
            --backend=cuda-fp16 --backend-opts=max_batch=512,tune=off --time-limit=40 --report="$out/own-$name"
        [ -s "$out/own-$name.json" ] && reports+=("$out/own-$name.json")
    done
    python3 "$here/scripts/checks/cuda_tables.py" own "${reports[@]}" | tee "$out/own.txt" || status=1
    python3 "$here/scripts/checks/cuda_tables.py" own_markdown "${reports[@]}" >"$out/own.md" || status=1
    milliseconds=300
    for name in "${names[@]}"; do
        [ $((SECONDS - begin)) -lt 335 ] || { echo "$name NOT DONE for lack of time"; continue; }
        measure 60 own-passes.txt "$name" "gemm=library,tuning_file=$name-library.csv,wait=spin" \
            "gemm=own,fuse=false,tuning_file=$name-own.csv,wait=spin" \
            "gemm=own,fuse=true,tuning_file=$name-own.csv,wait=spin" \
            "gemm=auto,tuning_file=$name-all.csv,wait=spin" || status=1
        preshuffled "$store/tables/$name-own.csv" "$store/tables/$name-all.csv"
    done
    {
        echo
        python3 "$here/scripts/checks/cuda_tables.py" passes "$out/own-passes.txt"
    } >>"$out/own.md" || status=1
    cat "$out/own.md"
    return $status
}

# Prints how many rows of each table have preshuffled weights, of those that our own kernels compute fastest.
preshuffled() {
    local table
    for table; do
        [ -e "$table" ] || continue
        awk -F, -v name="$(basename "$table")" '$11 == "own" { own++; shuffled += $10 == "True" }
            END { printf "%s: %d of %d GEMMs by our own kernels are faster with preshuffled weights\n", name, shuffled, own }' \
            "$table" | tee -a "$out/preshuffled.txt"
    done
}

# Compares a format of 8 bits with the CPU's fp32 on positions of games, and times it beside fp16.
eight_bits() {
    large_networks
    local format=$1 status=0 backend round
    run 60 "$format-check.log" "$rukh" check --backend="cuda-$format" --positions=10000 || status=1
    cat "$out/$format-check.log"
    milliseconds=300
    for round in 1 2 3; do
        for backend in cuda-fp16 "cuda-$format"; do
            sweep_backend=$backend measure 60 "$format-$backend.txt" t82-like "$(tuned t82-like),wait=spin" || status=1
        done
    done
    return $status
}

# Plays games with the same limit for each move, at MATCH_GAMES boards on each card, for so many seconds: MATCH_SECONDS.
# The arguments are those of features.py that name the two sides. Both take no overhead off the time of a move: with its
# default of 200 ms, lc0 would have none left.
play_on_cards() {
    local seconds=${MATCH_SECONDS:-300} limit card players=()
    read -ra limit <<<"${MATCH_LIMIT:---movetime 100}"
    compile_kernels || return 1
    # The service lets the processes of all games use a card at the same time.
    command -v nvidia-cuda-mps-control >/dev/null && nvidia-cuda-mps-control -d 2>/dev/null
    for ((card = 0; card < cards; card++)); do
        awk -v card=$card -v cards="$cards" 'NR % cards == card' "$here/tests/data/openings.epd" >"$work/openings-$card.epd"
        CUDA_VISIBLE_DEVICES=$card LD_LIBRARY_PATH=$(dirname "${LC0:-/}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
            run $((seconds + 60)) match-$card.log python3 "$here/scripts/matches/features.py" \
            --engine "$rukh --backend=cuda-fp16" --both MoveOverheadMs=0 "$@" \
            --weights "${MATCH_NETWORK:-$here/weights/rukh-128x6.pb.gz}" "${limit[@]}" \
            --openings "$work/openings-$card.epd" --pairs 400 --concurrency "${MATCH_GAMES:-4}" --max-plies 450 \
            --error 1e-200 --seconds "$seconds" --save "$out/match-$card.jsonl" &
        players+=($!)
    done
    local status=0 player
    for player in "${players[@]}"; do
        wait "$player" || status=1
    done
    tail -n 3 "$out"/match-?.log
    return $status
}

step_match() {
    if [ ! -x "${LC0:-}" ]; then
        echo "skipped: LC0 names no program"
        return 0
    fi
    play_on_cards --base-engine "$LC0" --base-option Backend=cuda-fp16 --variant default:
}

# Plays the default search against the default search with the option VARIANT.
step_variant() {
    play_on_cards --base-option "" --both SmartPruningFactor=0 --variant "variant:${VARIANT:?}"
}

# Examines the kernels with weights of 8 bits and our other ones, compares their figures with fp32 on positions of games,
# and times small batches with weights of 16 and of 8 bits.
step_weights() {
    large_networks
    local status=0 round bits
    kernels_are_right weights-kernels || status=1
    run 30 weights-check.log "$rukh" check --backend=cuda-fp16 --backend-opts="weight_bits=8,tune=off" --positions=2000 || status=1
    cat "$out/weights-check.log"
    milliseconds=200
    for round in 1 2 3; do
        for bits in 16 8; do
            sweep_sizes=1,2,4,8,16 measure 30 weights.txt t82-like "weight_bits=$bits,tune=quick,wait=spin,tuning_file=bits-$bits.csv" || status=1
        done
    done
    return $status
}

# Plays features of the search against the search without them, by `rukh selfplay`, for MATCH_SECONDS.
step_matrix() {
    compile_kernels || return 1
    local flags
    read -ra flags <<<"${MATRIX:?}"
    run $((${MATCH_SECONDS:-300} + 30)) matrix.log python3 "$here/scripts/matches/matrix.py" --engine "$rukh" \
        --seconds "${MATCH_SECONDS:-300}" --save "$store/matrix.jsonl" "${flags[@]}" -- --backend=cuda-fp16
    local status=$?
    cp "$store/matrix.jsonl" "$out/"
    cat "$out/matrix.log"
    return $status
}

# Plays training games, trains on them, and plays the new network against the old one.
step_loop() {
    run 300 loop.log python3 "$here/scripts/training/selfplay_loop.py" --rukh "$rukh" --folder "$work/loop" --games 5000 \
        --visits 150 --train-seconds 70 --learning-rate 5e-5 --match-games 600 --match-visits 200 \
        --network "$here/weights/rukh-128x6.pb.gz" --openings "$here/tests/data/openings.epd" --option=--backend=cuda-fp16
    local status=$?
    tail -25 "$out/loop.log" | cut -c1-400
    cp "$work/loop/loop.jsonl" "$out/" 2>/dev/null
    return $status
}

step_int8() {
    eight_bits int8
}

step_fp8() {
    eight_bits fp8
}

# Checks correctness with parallel branches and with tuned GEMMs.
step_branches() {
    local name status=0 log
    mkdir -p "$work/some"
    for name in attn smolgen multihead relu-nogate se-attnpol se-conv; do
        ln -sf "$here/tests/data/micro-$name".* "$work/some/"
    done
    for log in ${BRANCHES:-fork tuned}; do
        local options="fork=1024,wait=spin" most=512
        [ $log != tuned ] || { options="fork=1024,wait=yield,warm_up=true,tune=quick${with_library:+,$with_library}" && most=64; }
        run 45 "branches-$log.log" "$packed/distance" --seconds=35 --max-batch=$most --formats=fp32,fp16 \
            --options="$options" "$work/some" || status=1
        echo "-- $log"
        grep -E "^ALL|TOO FAR|FAILED|NOT DONE|distance:" "$out/branches-$log.log" | cut -c1-300 | head -20
    done
    return $status
}

# Checks the memory accesses and races of all our kernels that a few networks use, with a padded batch. Our own GEMMs
# take the place of cuBLASLt's, in whose kernels (nvjet_*) racecheck reports races on sm_90.
step_sanitize() {
    local sanitizer tool network name format log status=0
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
    if [ -z "$sanitizer" ]; then
        echo "skipped: compute-sanitizer was not found"
        return 0
    fi
    for tool in memcheck racecheck; do
        for network in micro-smolgen:-fp16 micro-multihead:-bf16 micro-se-conv:-fp16 micro-smolgen:-int8 micro-smolgen:-fp8 \
            micro-se-old:; do
            IFS=: read -r name format <<<"$network"
            log=sanitize-$tool-$name$format.log
            run 60 "$log" "$sanitizer" --tool "$tool" --error-exitcode 9 "$rukh" backendbench \
                --weights="$here/tests/data/$name.pb.gz" --backend="cuda$format" \
                --backend-opts="max_batch=8,streams=1,warm_up=false,gemm=own" \
                --batches=6 --start-batch-size=7 --max-batch-size=7 || status=1
            echo "$tool $name$format: $(grep -hE "ERROR SUMMARY|RACECHECK SUMMARY" "$out/$log" | tail -1)"
            grep -E -A3 "hazard|Invalid" "$out/$log" | head -12 | cut -c1-300
        done
    done
    return $status
}

# Measures the time of each kind of step of the forward pass, run alone.
step_profile() {
    large_networks
    local name batch status=0
    for name in "${names[@]}"; do
        [ -e "$random/$name.pb.gz" ] || continue
        for batch in 16 256; do
            echo "== $name, batch $batch" | tee -a "$out/steps.txt"
            milliseconds=50
            measure 30 steps.txt "$name" "threads=1/$(tuned "$name"),streams=1,max_batch=512,time_steps=$batch" ||
                status=1
            milliseconds=500
        done
    done
    return $status
}

while [ ${#steps[@]} -gt 0 ]; do
    step=${steps[0]}
    steps=("${steps[@]:1}")
    if ! declare -F "step_$step" >/dev/null; then
        echo "unknown step $step; the steps are:$(declare -F | sed -n 's/^declare -f step_/ /p' | tr -d '\n')" >&2
        exit 2
    fi
    # A step that starts late would be cut off by the limit of the whole call.
    if [ $((SECONDS - start)) -gt $((all - 30)) ]; then
        echo "== $step NOT DONE for lack of time"
        failed+=("$step")
        continue
    fi
    echo "== $step"
    begin=$SECONDS
    "step_$step" || failed+=("$step")
    echo "== $step: $((SECONDS - begin)) s"
done
cp "$store"/tables/*.csv "$out/" 2>/dev/null
# Few files are easier to copy back from another machine.
cd "$out" && tar czf "logs-$name_of_call.tar.gz" --exclude='logs-*.tar.gz' ./* && find . \( -name '*.log' -o -name '*.err' -o -name 'profile-*' \) -delete
# Stops making networks if no step has waited for them.
for pid in ${makers[@]+"${makers[@]}"}; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done
if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: ${failed[*]} (after $((SECONDS - start)) s)"
    exit 1
fi
echo "passed in $((SECONDS - start)) s"
