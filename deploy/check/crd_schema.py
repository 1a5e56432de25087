"""Lays out the schemas of custom resources as kubeconform reads them.

Usage: crd_schema.py OUT_DIR CRD.yaml...

Writes OUT_DIR/GROUP/KIND_VERSION.json for each version that is served. Unknown fields are refused, as with `-strict`, except where
the definition itself keeps them.
"""

import json
import pathlib
import sys

import yaml


def strict(node):
    """Returns `node`, refusing fields that it does not name."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: strict(value) for key, value in node.items()}
    keeps = node.get("x-kubernetes-preserve-unknown-fields") or node.get("additionalProperties") is not None
    if isinstance(node.get("properties"), dict) and node.get("type") == "object" and not keeps:
        node["additionalProperties"] = False
    if node.get("x-kubernetes-int-or-string"):
        node.pop("type", None)
        node["type"] = ["integer", "string"]
    return node


def main():
    out, *paths = sys.argv[1:]
    written = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            documents = [document for document in yaml.safe_load_all(file) if document]
        for crd in documents:
            if crd.get("kind") != "CustomResourceDefinition":
                continue
            spec = crd["spec"]
            for version in spec["versions"]:
                schema = version["schema"]["openAPIV3Schema"]
                schema["properties"]["metadata"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                folder = pathlib.Path(out, spec["group"])
                folder.mkdir(parents=True, exist_ok=True)
                name = f"{spec['names']['kind'].lower()}_{version['name']}.json"
                (folder / name).write_text(json.dumps(strict(schema)), encoding="utf-8")
                written += 1
    if not written:
        sys.exit("no definitions of custom resources in these files")


if __name__ == "__main__":
    main()
