"""Every key of the configuration can be set through values of the chart. $HELM and, where the command line is built, $ANTARES are the programs;
chart.sh sets them. With $ANTARES the keys are those that `antares serve --print-config` shows, and its parser reads what is rendered."""

import os
import pathlib
import re
import subprocess
import tempfile
import tomllib
import unittest

from config_schema import OF_THE_CHART, documented
from test_chart import configuration, render

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs/reference/configuration.md"
# Values that are other than the defaults and that the parser takes together.
OTHERS = {
    # Others of these have to fit each other, or a file.
    "tls.client_crl": "",
    "runner.compiler_token_file": "",
    "runner.compiler_certificate": "",
    "runner.compiler_key": "",
    "runner.compiler_ca": "",
    "sandbox.cgroup": "/sys/fs/cgroup/antares",
}


def other(key, default):
    """A value for the key, as Python has it."""
    if key in OTHERS:
        return OTHERS[key]
    value = tomllib.loads(f"v = {default}")["v"] if default != "CPUs" else 2
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else value


def values_of(keys):
    sections = {}
    for key, default in keys.items():
        if key not in OF_THE_CHART:
            section, name = key.split(".")
            sections.setdefault(section, {})[name] = other(key, default)
    return sections


@unittest.skipUnless(DOCS.is_file(), "the chart by itself")
class ConfigKeys(unittest.TestCase):
    def setUp(self):
        self.keys = documented(DOCS.read_text(encoding="utf-8"))

    def test_every_key_that_the_program_has_is_one_of_the_chart(self):
        if not os.environ.get("ANTARES"):
            self.skipTest("antares is not built")
        shown = subprocess.run([os.environ["ANTARES"], "serve", "--print-config"], capture_output=True, text=True, check=True).stdout
        known = {f"{section}.{key}" for section, keys in tomllib.loads(shown).items() for key in keys}
        self.assertEqual(known, set(self.keys))

    def test_every_key_reaches_the_file(self):
        sections = values_of(self.keys)
        self.assertGreater(sum(map(len, sections.values())), 25)
        # Each service by itself, and both in one.
        for values, name in (
            ({"compiler": {"config": sections}}, "antares-compiler"),
            ({"runner": {"config": sections}}, "antares-runner"),
            ({"single": {"enabled": True}, "compiler": {"config": sections}}, "antares-server"),
        ):
            with self.subTest(name):
                objects = render(values | {"trace": {"endpoint": "http://collector:4317"}})
                config = configuration(objects, name)
                for section, keys in sections.items():
                    self.assertEqual({key: config[section][key] for key in keys}, keys, section)
                self.check(objects[("ConfigMap", name)]["data"]["antares.toml"])

    def check(self, text):
        if not os.environ.get("ANTARES"):
            return
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            # One process has no compiler elsewhere, which the file of a runner names.
            file.write(re.sub("(?m)^compiler_url = .*$", "", text))
            file.flush()
            done = subprocess.run([os.environ["ANTARES"], "serve", "--check-config", "--config", file.name], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_key_of_the_chart_is_refused_with_the_value_that_stands_for_it(self):
        for key, value in OF_THE_CHART.items():
            section, name = key.split(".")
            with self.subTest(key), self.assertRaises(ValueError) as refused:
                render({"runner": {"config": {section: {name: 1}}}})
            self.assertIn(value, str(refused.exception))
            self.assertIn(name, str(refused.exception))


if __name__ == "__main__":
    unittest.main()
