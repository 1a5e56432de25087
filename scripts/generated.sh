#!/usr/bin/env bash
# Writes every file in the repository that is generated: code and OpenAPI from the .proto files, pages of docs/reference, goldens of the
# configuration and of the crate's API, the chart's schema, table of values, rules and dashboards. `make test` checks that they are current.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

python=$(deploy/check/tools.sh python)
# The page of metrics is what a running server exports, which needs its workers.
cargo build --workspace
BLESS=1 cargo test --quiet --package antares-proto --package antares-config --package antares --package antares-cli --lib \
    --test errors --test generated --test openapi --test defaults --test api
BLESS=1 cargo test --quiet --package antares-tests --test scenarios -- metrics::
# Without Go the other files are written all the same.
clients/make.sh go-code clients/go || [ $? -eq 77 ]
"$python" deploy/check/config_schema.py helm/antares
"$python" deploy/check/values_table.py helm/antares
"$python" deploy/grafana/dashboards.py
cp deploy/prometheus/antares.rules.yml helm/antares/files/antares.rules.yml
git status --short
