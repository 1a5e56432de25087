"""Lays out the Kubernetes JSON schemas of PyPI's kubernetes-validate so that kubeconform reads them from disk.

Usage: k8s_schema.py PACKAGE_DIR OUT_DIR VERSION...       (VERSION such as 1.37)

In the package every file names itself by a URL at kubernetes.io and refers to the definitions by a path on that host, so
kubeconform would ask the network for them. Here both are taken out: the references become relative to the file.
"""

import json
import pathlib
import sys


def localise(node):
    """Returns `node` without `$id` and `$schema`, with references relative to the file."""
    if isinstance(node, dict):
        return {
            key: value.replace("/api/_definitions.json", "_definitions.json")
            if key == "$ref" and isinstance(value, str)
            else localise(value)
            for key, value in node.items()
            if key not in ("$id", "$schema")
        }
    if isinstance(node, list):
        return [localise(item) for item in node]
    return node


def main():
    package, out, *versions = sys.argv[1:]
    for version in versions:
        source = pathlib.Path(package, "kubernetes-json-schema", f"v{version}.0-local-strict")
        if not source.is_dir():
            sys.exit(f"kubernetes-validate has no schemas for Kubernetes {version}: {source}")
        target = pathlib.Path(out, f"v{version}.0-strict")
        target.mkdir(parents=True)
        for path in sorted(source.glob("*.json")):
            with path.open(encoding="utf-8") as file:
                schema = localise(json.load(file))
            (target / path.name).write_text(json.dumps(schema), encoding="utf-8")
        print(f"schemas of Kubernetes {version}: {len(list(target.iterdir()))} files")


if __name__ == "__main__":
    main()
