"""Writes the table of values in the chart's README from values.yaml, where each value stands with its meaning (`# -- `, as helm-docs has it).

Usage: values_table.py CHART [--check]      with --check nothing is written: status 1 if the README is not what would be written
"""

import json
import pathlib
import re
import sys

import yaml

BEGIN = "<!-- From values.yaml, by deploy/check/values_table.py. -->"
END = "<!-- The end of it. -->"
# Components with values of the same names.
PARTS = ("compiler", "runner", "single")


def described(text):
    """Key path and description of every value that has one, in order."""
    path, pending, found = [], None, {}
    for line in text.splitlines():
        comment = re.match(r"\s*# (-- )?(.*)$", line)
        key = re.match(r"(\s*)([A-Za-z]\w*):(\s|$)", line)
        if comment and comment.group(1):
            pending = comment.group(2)
        elif comment and pending is not None:
            pending += " " + comment.group(2)
        elif key:
            path = path[: len(key.group(1)) // 2] + [key.group(2)]
            if pending is not None:
                found[".".join(path)] = pending
            pending = None
        else:
            pending = None
    return found


def leaves(values, known, path=""):
    """Values that can be set on their own: what has a description, or nothing inside."""
    for key, value in values.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, dict) and value and name not in known:
            yield from leaves(value, known, name)
        else:
            yield name, value


def table(text):
    """The rows; what compiler, runner and single have alike stands once, as `*`."""
    known, found = described(text), {}
    for name, value in leaves(yaml.safe_load(text), known):
        if name not in known:
            raise SystemExit(f"values.yaml: {name} has no description (# -- ...)")
        part, _, rest = name.partition(".")
        short = f"*.{rest}" if part in PARTS else name
        meaning = known[name].replace("|", "\\|")
        found.setdefault((short, json.dumps(value), meaning), []).append(name)
    rows = ["| value | default | meaning |", "|---|---|---|"]
    for (short, value, meaning), names in found.items():
        rows.append(f"| `{short if len(names) > 1 else names[0]}` | `{value}` | {meaning} |")
    return "\n".join(rows)


def main():
    chart = pathlib.Path(sys.argv[1])
    readme = chart / "README.md"
    before = readme.read_text(encoding="utf-8")
    head, rest = before.split(BEGIN)
    tail = rest.split(END)[1]
    after = f"{head}{BEGIN}\n\n{table((chart / 'values.yaml').read_text(encoding='utf-8'))}\n\n{END}{tail}"
    if "--check" not in sys.argv:
        readme.write_text(after, encoding="utf-8")
    elif after != before:
        raise SystemExit("README.md is not what values.yaml says: run `make generated`")


if __name__ == "__main__":
    main()
