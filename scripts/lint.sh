#!/usr/bin/env bash
# Everything that reads the code and does not run it: formatting, clippy, house rules, docs, licences, shell scripts.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

deny_version=0.20.2
deny=$tools/cargo-deny-$deny_version/bin/cargo-deny

install_deny() {
    [ -x "$deny" ] && return
    echo "building cargo-deny $deny_version into ${deny%/bin/*} (once, some minutes)"
    cargo install --quiet --locked --debug --root "${deny%/bin/*}" --version "$deny_version" cargo-deny
}

check_licences() {
    install_deny
    "$deny" check --hide-inclusion-graph licenses bans sources
}

# What an author of scripts builds has no network or database; and the command line never has LLVM. It has the machine, as an
# interpreter in processes that it forks and locks in where a script is short. They and the run worker have an async runtime that
# they never start: ckb-script depends on tokio for a function that nobody calls here.
check_weight() {
    local alone all worker
    alone=$(cargo tree --edges normal --prefix none --package antares-cli --no-default-features \
        --package antares-compile-worker)
    worker=$(cargo tree --edges normal --prefix none --package antares-run-worker)
    all=$(cargo tree --edges normal --prefix none --package antares-cli)
    ! grep -E '^(tonic|sled|hyper|axum) ' <<<"$alone" &&
        ! grep -E '^(tonic|sled|hyper|axum|llvm-sys|inkwell) ' <<<"$worker" && ! grep -E '^(llvm-sys|inkwell) ' <<<"$all"
}

check_docs() { RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --document-private-items; }

check_shell() {
    git ls-files -z --cached --others --exclude-standard '*.sh' .ci/run | xargs -0 shellcheck --external-sources
}

check_api() { (cd proto && "$buf" lint); }

# The commit whose API callers have now: the last one of main, or where this is that one, the one before.
api_before() {
    local name commit
    for name in refs/remotes/origin/main refs/heads/main; do
        if commit=$(git rev-parse --verify --quiet "$name"); then
            [ "$commit" != "$(git rev-parse HEAD)" ] || commit=$(git rev-parse --verify --quiet HEAD^) || return
            echo "$commit"
            return
        fi
    done
    return 1
}

# check_callers COMMIT: whoever was made for the API of COMMIT can go on.
check_callers() {
    local before status=0
    before=$(mktemp -d)
    git archive "$1" proto | tar -x -C "$before"
    (cd proto && "$buf" breaking --against "$before/proto") || status=$?
    rm -rf "$before"
    return $status
}

step "cargo fmt" cargo fmt --all --check
step "cargo clippy" cargo clippy --quiet --workspace --all-targets -- -D warnings
step "cargo clippy, cli without the server feature" \
    cargo clippy --quiet --package antares-cli --no-default-features --all-targets -- -D warnings
# Alone: built with the others it has the form with both services in one process.
step "cargo clippy, runner without the compiler" cargo clippy --quiet --package antares-runner-svc -- -D warnings
step "cargo xtask tidy" cargo xtask tidy
step "keys of the chart's schema" python3 deploy/check/config_schema.py helm/antares --check
step "metrics in panels, rules and docs" python3 deploy/check/dashboard.py --static
step "weight of the command line" check_weight
step "cargo doc" check_docs
if buf=$(deploy/check/tools.sh buf); then
    step "buf lint" check_api
    if before=$(api_before); then
        step "buf breaking" check_callers "$before"
    else
        skip "buf breaking" "this copy has no commit to compare with"
    fi
else
    skip "buf lint, buf breaking" "buf cannot be had"
fi
step "shellcheck" check_shell
step "cargo deny: licences, bans, sources" check_licences
# The advisory database is a git repository elsewhere; without it there is nothing to check against.
if timeout 60 "$deny" fetch db >/dev/null 2>&1; then
    step "cargo deny: advisories" "$deny" check --disable-fetch --hide-inclusion-graph advisories
else
    skip "cargo deny: advisories" "the advisory database cannot be fetched from here"
fi

echo "lint: $steps_passed passed, ${#steps_failed[@]} failed, $steps_skipped skipped"
if [ ${#steps_failed[@]} -gt 0 ]; then
    printf 'lint: failed: %s\n' "${steps_failed[@]}"
    exit 1
fi
