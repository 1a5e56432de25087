"""Tests of deploy/images/release.py: the same binaries give the same release, its signatures hold, and what has changed is seen. $HELM reads the chart."""

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy/images"))

import release  # noqa: E402


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.key, cls.public = cls.key_pair("ours")
        cls.out = cls.make("first")
        release.sign(cls.out, cls.key)

    @classmethod
    def key_pair(cls, name):
        key, public = cls.folder / f"{name}.pem", cls.folder / f"{name}.pub"
        command = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key]
        subprocess.run(command, check=True, capture_output=True)
        subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
        return key, public

    @classmethod
    def make(cls, name):
        """A release of programs that are none of ours, which would take long."""
        binaries, out = cls.folder / name / "dist", cls.folder / name / "out"
        binaries.mkdir(parents=True)
        for program in release.PROGRAMS:
            # Of which one needs more libraries than the others.
            shutil.copy("/bin/bash" if program == release.WORKER else "/usr/bin/true", binaries / program)
        with mock.patch.object(release, "mistakes", return_value=[]):
            release.make("0.1.0", binaries, out)
        return out

    def test_two_releases_have_the_same_bytes(self):
        second = tree(self.make("second"))
        first = {name: text for name, text in tree(self.out).items() if name in second}
        self.assertEqual(first, second)
        self.assertIn("antares-0.1.0-linux-x86_64.tar.gz", second)

    def test_programs_find_their_libraries_and_debuggers_their_files(self):
        def names(end):
            with tarfile.open(self.out / f"antares-0.1.0-linux-x86_64{end}.tar.gz") as archive:
                return {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}

        programs = names("")
        self.assertIn("lib/libtinfo.so.6", programs)
        self.assertIn("licences/libtinfo6", programs)
        self.assertFalse({"lib/libc.so.6", "lib/ld-linux-x86-64.so.2"} & programs)
        self.assertEqual(names("-debug"), {f"{program}.debug" for program in release.PROGRAMS})

    def test_what_is_signed_verifies_and_nothing_else(self):
        self.assertEqual(list(release.wrong_parts(self.out, self.public)), [])
        _, others = self.key_pair("others")
        parts = 1 + len(list(release.descriptors(self.out))) + len(release.images_of(self.out))
        self.assertEqual(len(list(release.wrong_parts(self.out, others))), parts)
        changed = self.folder / "changed"
        shutil.copytree(self.out, changed)
        with (changed / "antares-chart-0.1.0.tgz").open("ab") as file:
            file.write(b"more")
        self.assertEqual(list(release.wrong_parts(changed, self.public)), ["files are others than in SHA256SUMS"])

    def test_attestations_are_referrers_of_their_images_and_hold(self):
        blobs = self.out / "signatures/blobs/sha256"

        def blob(digest):
            return json.loads((blobs / digest.removeprefix("sha256:")).read_bytes())

        index = json.loads((self.out / "signatures/index.json").read_bytes())["manifests"]
        tags = {entry["annotations"][release.REF]: blob(entry["digest"]) for entry in index}
        for image in release.images_of(self.out):
            said = tags[image["digest"].replace(":", "-") + ".att"]
            self.assertEqual((said["subject"]["digest"], said["artifactType"]), (image["digest"], release.DSSE_TYPE))
            kinds = []
            for layer in said["layers"]:
                envelope = blob(layer["digest"])
                statement = json.loads(base64.b64decode(envelope["payload"]))
                self.assertEqual(["sha256:" + subject["digest"]["sha256"] for subject in statement["subject"]], [image["digest"]])
                self.assertEqual(layer["annotations"]["predicateType"], statement["predicateType"])
                kinds.append(statement["predicateType"])
            self.assertEqual(kinds, ["https://slsa.dev/provenance/v1", "https://cyclonedx.org/bom"])

    def test_an_attestation_that_was_changed_is_seen(self):
        changed = self.folder / "attested"
        shutil.copytree(self.out, changed)
        index = json.loads((changed / "signatures/index.json").read_bytes())["manifests"]
        index = [entry for entry in index if not entry["annotations"][release.REF].endswith(".att")]
        (changed / "signatures/index.json").write_text(json.dumps({"manifests": index}), encoding="utf-8")
        wrong = list(release.wrong_parts(changed, self.public))
        self.assertEqual(len(wrong), len(release.images_of(changed)))
        self.assertIn("has no attestations by this key", wrong[0])

    def test_helm_takes_the_chart(self):
        command = [os.environ.get("HELM", "helm"), "template", "antares", self.out / "antares-chart-0.1.0.tgz"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("kind: StatefulSet", done.stdout)

    def places(self, name):
        """A copy of all places that say the version."""
        folder = self.folder / name
        for place in [*release.said(""), "Cargo.lock"]:
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / place, folder / place)
        return folder

    def test_the_version_stands_in_every_manifest(self):
        version = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
        wrong = [mistake for mistake in release.mistakes(version) if not mistake.startswith("CHANGELOG.md")]
        self.assertEqual(wrong, [])
        first = re.search(r"(?m)^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")).group(1)
        self.assertRegex(first, rf"^(Unreleased \({re.escape(version)}\)|{re.escape(version)} \(\d{{4}}-\d\d-\d\d\))$")

    def test_places_that_say_another_version_are_named(self):
        folder = self.places("places")
        log = folder / "CHANGELOG.md"
        log.write_text("# Changelog\n\n## 0.1.0 (2026-12-01)\n", encoding="utf-8")
        self.assertEqual(list(release.mistakes("0.1.0", folder)), [])
        log.write_text("# Changelog\n\n## Unreleased (0.1.0)\n", encoding="utf-8")
        self.assertEqual(list(release.mistakes("0.1.0", folder)), ["CHANGELOG.md does not say 0.1.0 with its date"])
        wrong = list(release.mistakes("0.2.0", folder))
        self.assertEqual([mistake.split()[0] for mistake in wrong], [*release.said(""), "Cargo.lock"])
        self.assertEqual(len(list(release.mistakes("v1", folder))), len(wrong) + 1)

    def test_notes_are_short_and_for_each_reader(self):
        text = release.notes("0.1.0")
        self.assertEqual((self.out / "NOTES.md").read_text(encoding="utf-8"), text)
        self.assertLessEqual(len(text.split()), release.NOTES_WORDS)
        readers = re.findall(r"(?m)^### (For .*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
        self.assertEqual(re.findall(r"(?m)^### (.*)$", text), readers)
        self.assertNotIn("](", text)
        with self.assertRaises(SystemExit):
            release.notes("9.9.9")

    def test_one_command_dates_and_tags(self):
        folder = self.places("tagged")
        for place in ("scripts/release.sh", *(f"deploy/images/{path.name}" for path in (ROOT / "deploy/images").glob("*.py"))):
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / place, folder / place)
        log = folder / "CHANGELOG.md"
        log.write_text("# Changelog\n\n## Unreleased (0.1.0)\n\n* New.\n", encoding="utf-8")

        def git(*arguments):
            own = ["-c", "user.name=check", "-c", "user.email=check@example.com", "-c", "commit.gpgsign=false"]
            return subprocess.run(["git", "-C", folder, *own, *arguments], check=True, capture_output=True, text=True).stdout

        def tag(version):
            own = {"GIT_AUTHOR_NAME": "check", "GIT_AUTHOR_EMAIL": "check@example.com", "GIT_COMMITTER_NAME": "check", "GIT_COMMITTER_EMAIL": "check@example.com"}
            own |= {"PYTHONDONTWRITEBYTECODE": "1"}
            return subprocess.run([folder / "scripts/release.sh", "tag", version], env={**os.environ, **own}, capture_output=True, text=True, check=False)

        git("init", "--quiet")
        git("add", "--all")
        git("commit", "--quiet", "--message", "first")
        refused = tag("0.2.0")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("no heading: Unreleased (0.2.0)", refused.stderr)
        done = tag("0.1.0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(git("show", "v0.1.0:CHANGELOG.md"), r"\n## 0.1.0 \(\d{4}-\d\d-\d\d\)\n")
        self.assertEqual(git("tag", "--list").split(), ["clients/go/v0.1.0", "v0.1.0"])
        self.assertEqual((git("status", "--porcelain"), list(release.mistakes("0.1.0", folder))), ("", []))
        log.write_text("changed", encoding="utf-8")
        self.assertIn("changes that no commit has", tag("0.1.0").stdout)

    def test_everything_is_pushed_once_and_signatures_beside_it(self):
        lines = [line.split() for line in release.places(self.out, "registry.example.com")]
        signed = json.loads((self.out / "signatures/index.json").read_bytes())["manifests"]
        self.assertEqual(len(lines), len(list(release.descriptors(self.out))) + len(signed))
        self.assertEqual(len({to for _, to in lines}), len(lines))
        self.assertIn(["chart:0.1.0", "registry.example.com/charts/antares:0.1.0"], lines)


if __name__ == "__main__":
    unittest.main()
