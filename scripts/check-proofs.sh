#!/usr/bin/env bash
# Has other solvers answer the proofs that `antares optimise --smt-out FOLDER` wrote: each question of each file
# has to be answered `unsat`. Takes the folder, and the names of the solvers (default: cvc5 and bitwuzla, those
# that are on the PATH).
set -euo pipefail

folder=${1:?usage: check-proofs.sh FOLDER [SOLVER...]}
shift
if [ $# -eq 0 ]; then
    for name in cvc5 bitwuzla; do
        if command -v "$name" >/dev/null; then set -- "$@" "$name"; fi
    done
fi
if [ $# -eq 0 ]; then
    echo "skipped: neither cvc5 nor bitwuzla is installed" >&2
    exit 0
fi

# answer SOLVER FILE: what the solver says, a word for each question.
answer() {
    case $1 in
        z3) z3 -in -t:10000 <"$2" ;;
        cvc5) cvc5 --lang=smt2 --incremental --tlimit-per=10000 - <"$2" ;;
        bitwuzla) bitwuzla --time-limit-per 10000 "$2" ;;
        *) echo "unknown solver $1" && exit 2 ;;
    esac
}

failed=0
for solver in "$@"; do
    files=0 questions=0
    while IFS= read -r file; do
        asked=$(grep -c '^(check-sat)$' "$file")
        words=$(answer "$solver" "$file" || true)
        held=$(grep -c '^unsat$' <<<"$words" || true)
        if [ "$asked" -eq 0 ] || [ "$held" -ne "$asked" ] || [ "$(wc -l <<<"$words")" -ne "$asked" ]; then
            echo "$solver: $file: $held of $asked questions hold"
            failed=$((failed + 1))
        fi
        files=$((files + 1)) questions=$((questions + asked))
    done < <(find "$folder" -name '*-proof.smt2' | sort)
    echo "$solver: $files proofs with $questions questions"
    if [ "$files" -eq 0 ]; then failed=$((failed + 1)); fi
done
if [ "$failed" -ne 0 ]; then
    echo "$failed not accepted"
    exit 1
fi
