"""Writes the configuration files in rendered manifests to a folder, one for each ConfigMap that has one.

Usage: rendered_config.py RENDERED OUT_DIR      prints ROLE FILE for each; ROLE is the ConfigMap's last word
"""

import pathlib
import sys

import yaml


def main():
    rendered, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    for document in yaml.safe_load_all(rendered.read_text(encoding="utf-8")):
        if document and document["kind"] == "ConfigMap" and "antares.toml" in (document.get("data") or {}):
            name = document["metadata"]["name"]
            path = out / f"{name}.toml"
            path.write_text(document["data"]["antares.toml"], encoding="utf-8")
            print(name.rsplit("-", 1)[1], path)


if __name__ == "__main__":
    main()
