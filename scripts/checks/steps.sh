# For scripts that consist of steps, functions named step_NAME: `. scripts/checks/steps.sh`, and `run_steps "NAME ..." "$@"` at
# the end. Needs `set -e`: a step ends at its first command that fails, and the script with it.

# Runs the steps that the arguments after the first name, or without any those that the first names, and says how long
# each took. STEPS_ON_REQUEST: more names, for the message.
run_steps() {
    local usual=$1 step start steps
    shift
    read -ra steps <<<"${*:-$usual}"
    for step in "${steps[@]}"; do
        if ! declare -F "step_$step" >/dev/null; then
            echo "no step $step; there are: $usual${STEPS_ON_REQUEST:+ $STEPS_ON_REQUEST}" >&2
            exit 2
        fi
        echo "== $step"
        start=$SECONDS
        # Not as a condition, in which `set -e` would not hold.
        trap 'echo "== '"$step"' FAILED after $((SECONDS - '"$start"')) s" >&2' EXIT
        "step_$step"
        trap - EXIT
        echo "== $step passed in $((SECONDS - start)) s"
    done
}
