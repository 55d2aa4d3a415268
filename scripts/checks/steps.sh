# shellcheck shell=bash
# Functions for scripts that consist of steps, which are functions named step_NAME. Such a script begins with
# `set -euo pipefail`, sources this file from the repository's root and ends with `run_steps "DEFAULT STEPS" "$@"`. A
# step ends at its first failing command, and so does the script.

# run_steps "DEFAULT STEPS" [STEP ...]: runs the named steps, or the default ones, and prints how long each took, and all.
# STEPS_ON_REQUEST, if set, lists steps that are not run by default; the usage message names them. STEPS_BESIDE, if set,
# lists more default steps. They run one after the other beside the other steps, at the lowest priority, so that they take
# the time in which a compiler uses only one core. Their output is printed at the end.
run_steps() {
    local defaults=$1 step start steps beside='' log status=0 begin=$SECONDS times=''
    shift
    case ${1:-} in
        -h | --help)
            # The comment at the top of the script, without its first line.
            sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
            echo "steps: $defaults${STEPS_BESIDE:+ $STEPS_BESIDE}${STEPS_ON_REQUEST:+; on request: $STEPS_ON_REQUEST}"
            return
            ;;
    esac
    read -ra steps <<<"${*:-$defaults}"
    for step in "${steps[@]}"; do
        if ! declare -F "step_$step" >/dev/null; then
            echo "unknown step $step; the steps are: $defaults${STEPS_BESIDE:+ $STEPS_BESIDE}${STEPS_ON_REQUEST:+ $STEPS_ON_REQUEST}" >&2
            exit 2
        fi
    done
    if [ $# = 0 ] && [ -n "${STEPS_BESIDE:-}" ]; then
        log=$(mktemp)
        # With `set -m` the steps are a process group of their own, which can be ended as a whole.
        set -m
        (
            renice -n 19 "$BASHPID" >/dev/null
            # shellcheck disable=SC2086
            run_steps "" $STEPS_BESIDE
        ) >"$log" 2>&1 &
        beside=$!
        set +m
    fi
    for step in "${steps[@]}"; do
        echo "== $step"
        start=$SECONDS
        # `step_x || ...` would switch `set -e` off inside the step; a trap does not.
        trap 'echo "== '"$step"' FAILED after $((SECONDS - '"$start"')) s" >&2; end_group '"$beside" EXIT
        "step_$step"
        trap - EXIT
        echo "== $step passed in $((SECONDS - start)) s"
        times+=", $step $((SECONDS - start))"
    done
    if [ -n "$beside" ]; then
        wait "$beside" || status=$?
        cat "$log"
        rm "$log"
    fi
    [ "$status" != 0 ] || [ ${#steps[@]} = 1 ] || echo "passed in $((SECONDS - begin)) s:${times#,}"
    return "$status"
}

# end_group [PROCESS]: ends a group of processes, if one is named.
end_group() {
    [ -z "${1:-}" ] || kill -- "-$1" 2>/dev/null || true
}

# A line for each check that is left out where nothing changed: its name, and the hash of its inputs when it last passed.
# The file belongs to the repository, so that a fresh clone and continuous integration leave these checks out, too.
PASSED=scripts/checks/passed.txt

# unless_unchanged NAME INPUT ... -- COMMAND ...: runs the command, unless it has already passed with the same inputs. An
# input is a file or a folder of the repository, or a word, such as a version. With RUKH_CHECK_ALL set it always runs.
unless_unchanged() {
    local name=$1 inputs=() key
    shift
    while [ "$1" != -- ]; do
        inputs+=("$1")
        shift
    done
    shift
    key=$(hash_of "${inputs[@]}")
    if has_passed "$name" "$key"; then
        echo "not run: nothing that it checks has changed since it passed"
        return
    fi
    "$@"
    # What changed meanwhile has not been checked.
    [ "$(hash_of "${inputs[@]}")" != "$key" ] || note_passed "$name" "$key"
}

# has_passed NAME HASH: whether the check has passed with inputs of this hash. With RUKH_CHECK_ALL set no check has.
has_passed() { [ -z "${RUKH_CHECK_ALL:-}" ] && grep -qx "$1 $2" "$PASSED"; }

# note_passed NAME HASH: notes that the check has passed.
note_passed() {
    # If another step writes at the same time, one of the two lines may be lost, and its check is repeated next time.
    { grep -v "^$1 " "$PASSED" || true; echo "$1 $2"; } | sort >"$PASSED.$1"
    mv "$PASSED.$1" "$PASSED"
    echo "$1 passed; $PASSED says so; commit it with your change"
}

# hash_of INPUT ...: the hash of files and folders of the repository (without what git ignores), and of words. Fails if
# git does.
hash_of() {
    local input
    for input in "$@"; do
        if [ -e "$input" ]; then
            git ls-files -z --cached --others --exclude-standard -- "$input" | sort -z | xargs -0 sha256sum 2>/dev/null
        else
            echo "$input"
        fi
    done | sha256sum | cut -d' ' -f1
}
