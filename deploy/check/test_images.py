"""Tests of deploy/images: the same binaries give the same images wherever and whenever they are made, and what is said about them holds."""

import hashlib
import io
import json
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy/images"))

from cyclonedx.schema import SchemaVersion  # noqa: E402
from cyclonedx.validation.json import JsonStrictValidator  # noqa: E402

import build  # noqa: E402
import debian  # noqa: E402

PROGRAMS = sorted({name for programs, _, _ in build.IMAGES.values() for name in programs.values()})


def tree(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.images, cls.out = cls.make("first")

    @classmethod
    def make(cls, name, changed=()):
        """Images of programs that are none of ours, which would take long; each of `changed` has a byte more."""
        binaries = cls.folder / name / "release"
        binaries.mkdir(parents=True)
        for program in PROGRAMS:
            shutil.copy("/usr/bin/yes" if program in changed else "/usr/bin/true", binaries / program)
        out = cls.folder / name / "out"
        return build.build(binaries, out), out

    def test_two_builds_give_the_same_bytes(self):
        zone, mask = os.environ.get("TZ"), os.umask(0o077)
        try:
            os.environ["TZ"] = "Pacific/Kiritimati"
            time.tzset()
            _, second = self.make("elsewhere/second")
        finally:
            os.umask(mask)
            os.environ.pop("TZ") if zone is None else os.environ.update(TZ=zone)
            time.tzset()
        first, second = tree(self.out), tree(second)
        self.assertEqual(list(first), list(second))
        self.assertEqual([path for path in first if first[path] != second[path]], [])

    def test_another_program_is_another_image_and_no_other(self):
        second, _ = self.make("second", changed=["antares-runner-svc"])
        self.assertEqual([name for name in second if second[name] != self.images[name]], ["runner"])

    def test_what_is_said_holds(self):
        images, out = self.images, self.out
        index = json.loads((out / "layout/index.json").read_bytes())
        blobs = out / "layout/blobs/sha256"
        for blob in blobs.iterdir():
            self.assertEqual(hashlib.sha256(blob.read_bytes()).hexdigest(), blob.name)
        self.assertEqual([m["digest"] for m in index["manifests"]], [image["digest"] for image in images.values()])
        statement = json.loads((out / "provenance.json").read_bytes())
        said = {s["name"]: "sha256:" + s["digest"]["sha256"] for s in statement["subject"]}
        self.assertEqual(said, {f"antares/{name}": image["digest"] for name, image in images.items()})
        for manifest in index["manifests"]:
            self.look_at(blobs, json.loads((blobs / manifest["digest"].removeprefix("sha256:")).read_bytes()))

    def look_at(self, blobs, manifest):
        def blob(descriptor):
            return (blobs / descriptor["digest"].removeprefix("sha256:")).read_bytes()

        config = json.loads(blob(manifest["config"]))
        self.assertEqual(config["config"]["User"], "65532:65532")
        self.assertLess({"org.opencontainers.image." + key for key in ("source", "revision", "licenses")}, set(config["config"]["Labels"]))
        for layer, diff in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
            with tarfile.open(fileobj=io.BytesIO(blob(layer)), mode="r:gz") as archive:
                for entry in archive:
                    self.assertEqual(entry.mode & 0o6000, 0, entry.name)
                    self.assertIn(entry.uid, (0, build.USER) if entry.name == "var/lib/antares" else (0,), entry.name)
            self.assertTrue(diff.startswith("sha256:"))

    def test_bills_of_materials_are_valid_and_whole(self):
        for name in build.IMAGES:
            text = (self.out / f"{name}.cdx.json").read_text(encoding="utf-8")
            self.assertIsNone(JsonStrictValidator(SchemaVersion.V1_6).validate_str(text))
            components = {c["name"] for c in json.loads(text)["components"]}
            self.assertLess({"libc6", "ca-certificates", "rustix"}, components)
            self.assertEqual("llvm-sys" in components, name != "runner", name)

    def test_what_weighs_too_much_is_named(self):
        self.assertEqual(list(build.over_limits(self.out)), [])
        wrong = list(build.over_limits(self.out, dict.fromkeys(build.IMAGES, 0.5)))
        self.assertEqual([text.split()[0] for text in wrong], list(build.IMAGES))

    def test_what_belongs_to_no_package_is_not_shipped(self):
        stray = self.folder / "libstray.so.1"
        stray.touch()
        with self.assertRaisesRegex(SystemExit, "belongs to no package"):
            debian.owner(str(stray))


if __name__ == "__main__":
    unittest.main()
