"""Debian packages of which images have files: which libraries programs need, whose they are, and under which licence."""

import os
import pathlib
import re
import subprocess

# Where the loader of the image looks.
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def libraries(program):
    """Paths of the shared libraries that the loader would take, the loader too."""
    found = set()
    for line in output("ldd", str(program)).splitlines():
        if "not found" in line:
            raise SystemExit(f"images: {program}:{line}")
        path = re.search(r"(/\S+) \(0x", line)
        if path:
            found.add(path.group(1))
    return found


def owner(path):
    """Package of a file. Before usr-merge packages named /lib, after it /usr/lib."""
    real = os.path.realpath(path)
    for candidate in (real, real.removeprefix("/usr"), path, path.removeprefix("/usr")):
        done = subprocess.run(["dpkg-query", "--search", candidate], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.split(":", 1)[0]
    raise SystemExit(f"images: {path} belongs to no package: what is shipped must be known by name and version")


class Package:
    def __init__(self, name):
        fields = "${Version}\\n${Architecture}\\n${source:Package}\\n${Homepage}"
        self.name = name
        self.version, self.architecture, self.source, self.homepage = output("dpkg-query", "--show", "--showformat", fields, name).split("\n")

    def purl(self):
        version = self.version.replace(":", "%3A").replace("+", "%2B").replace("~", "~")
        return f"pkg:deb/debian/{self.name}@{version}?arch={self.architecture}&distro=debian-12"

    def add(self, layer):
        """What licences ask for, and the record by which scanners know the package."""
        copyright_file = pathlib.Path(f"/usr/share/doc/{self.name}/copyright")
        if copyright_file.exists():
            layer.file(str(copyright_file), copyright_file.read_bytes())
        status = output("dpkg-query", "--status", self.name)
        # Configuration files are not there.
        layer.file(f"/var/lib/dpkg/status.d/{self.name}", re.sub(r"^Conffiles:\n( .*\n)*", "", status, flags=re.M))


def add_library(layer, path):
    """The file under its own name, and the name that programs ask for."""
    real = pathlib.Path(os.path.realpath(path))
    layer.file(f"{LIBRARIES}/{real.name}", real.read_bytes(), 0o755)
    asked = pathlib.Path(path).name
    if asked != real.name:
        layer.link(f"{LIBRARIES}/{asked}", real.name)


def certificates():
    """The authorities of the package, without what this machine trusts beside them."""
    listed = [path for path in output("dpkg-query", "--listfiles", "ca-certificates").splitlines() if path.endswith(".crt")]
    if not listed:
        raise SystemExit("images: the package ca-certificates has no certificates")
    return b"".join(pathlib.Path(path).read_bytes().rstrip() + b"\n" for path in sorted(listed))
