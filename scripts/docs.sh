#!/usr/bin/env bash
# Makes the book of the pages in target/book, with a search that needs no server, and looks over its links.
# mdbook is built once, outside the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

mdbook_version=0.5.4
mdbook=$tools/mdbook-$mdbook_version/bin/mdbook

if [ ! -x "$mdbook" ]; then
    echo "building mdbook $mdbook_version into ${mdbook%/bin/*} (once, some minutes)"
    cargo install --quiet --locked --debug --root "${mdbook%/bin/*}" --version "$mdbook_version" \
        --no-default-features --features search mdbook
fi
python3 scripts/book.py stage target/book-src
"$mdbook" build
python3 scripts/book.py check target/book
echo "target/book/index.html"
