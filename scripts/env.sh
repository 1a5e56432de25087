# Sourced by the scripts: the folder of tools that we fetch or build, and steps that tell how long they took.
# shellcheck shell=bash

# Outside the checkout, each tool by its version.
tools=${XDG_CACHE_HOME:-$HOME/.cache}/antares-tools
# setup.sh links a Go here when the machine has none that is new enough.
if [ -x "$tools/bin/go" ]; then
    export PATH="$tools/bin:$PATH"
fi

# Names of the steps that failed, and how many passed and were skipped.
steps_failed=()
steps_passed=0
steps_skipped=0

# step NAME COMMAND...: runs the command, prints what it took; a failure is kept for the end, not hidden.
step() {
    local name=$1 start=$SECONDS status=0
    shift
    printf '==> %s\n' "$name"
    "$@" || status=$?
    if [ "$status" -eq 0 ]; then
        steps_passed=$((steps_passed + 1))
        printf '<== %s: ok, %d s\n' "$name" $((SECONDS - start))
    else
        steps_failed+=("$name")
        printf '<== %s: FAILED with status %d, %d s\n' "$name" "$status" $((SECONDS - start))
    fi
}

# skip NAME REASON: a step that cannot run here, said aloud and counted.
skip() {
    steps_skipped=$((steps_skipped + 1))
    printf '<== %s: skipped: %s\n' "$1" "$2"
}
