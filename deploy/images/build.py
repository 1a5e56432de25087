"""Makes the images from binaries that are built, without a container engine: an OCI layout, bills of materials, a provenance statement.

Usage: build.py BINARIES OUT      OUT must not exist
The same binaries and packages give the same digests. Nobody's time goes in but the commit's, or SOURCE_DATE_EPOCH.
"""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib

import debian
import layout
import statements

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the restricted Pod Security level takes for non-root without looking anything up.
USER = 65532

# By image: its programs, by the cargo package that has them, the one that starts, and what it is for.
IMAGES = {
    "compiler": (
        {"antares-compiler-svc": "antares-compiler-svc", "antares-compile-worker": "antares-compile-worker"},
        "antares-compiler-svc",
        "Compiles CKB-VM scripts ahead of time",
    ),
    # The command line is there for the chart's test.
    "runner": (
        {"antares-runner-svc": "antares-runner-svc", "antares-run-worker": "antares-run-worker", "antares-cli": "antares"},
        "antares-runner-svc",
        "Runs CKB-VM scripts in jailed workers",
    ),
    "antares": (
        {
            "antares-cli": "antares",
            "antares-compile-worker": "antares-compile-worker",
            "antares-run-worker": "antares-run-worker",
        },
        "antares",
        "Compiler and runner of CKB-VM scripts in one",
    ),
}


def facts(binaries):
    with open(ROOT / "Cargo.toml", "rb") as file:
        package = tomllib.load(file)["workspace"]["package"]

    def git(*args):
        done = subprocess.run(["git", "-C", ROOT, *args], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    time = int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct") or 0)
    return {
        "version": package["version"],
        "source": package["repository"],
        "licenses": package["license"],
        "revision": git("rev-parse", "HEAD") or "unknown",
        "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
        "created": datetime.datetime.fromtimestamp(time, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "profile": binaries.name,
        "rustc": debian.output("rustc", "--version").strip(),
    }


def base(packages):
    """What all of them have: names of users, places to mount on, authorities of TLS, the C library."""
    layer = layout.Layer()
    for folder in ("proc", "sys", "dev", "etc/antares", "run", "usr/bin", "usr/sbin"):
        layer.folder(folder)
    layer.folder("tmp", 0o1777)
    layer.folder("var/lib/antares", 0o750, USER)
    for name, target in (("bin", "usr/bin"), ("sbin", "usr/sbin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")):
        layer.link(name, target)
    layer.link("usr/lib64/ld-linux-x86-64.so.2", "../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
    layer.file("etc/passwd", f"root:x:0:0:root:/:/none\nantares:x:{USER}:{USER}:antares:/var/lib/antares:/none\n")
    layer.file("etc/group", f"root:x:0:\nantares:x:{USER}:\n")
    layer.file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    layer.file("etc/os-release", pathlib.Path("/etc/os-release").read_bytes())
    layer.file("etc/ssl/certs/ca-certificates.crt", debian.certificates())
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        layer.file(f"usr/share/doc/antares/{name}", (ROOT / name).read_bytes())
    packages["ca-certificates"].add(layer)
    return layer


def with_libraries(layer, paths, packages):
    for path in sorted(paths):
        debian.add_library(layer, path)
        packages[debian.owner(path)].add(layer)
    return layer


def stripped(path):
    """The program without what only a debugger reads; names of functions stay, for backtraces."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["strip", "--strip-debug", "-o", out.name, path], check=True)
        return pathlib.Path(out.name).read_bytes()


# What an image may weigh packed, MiB: what is pulled. Of that LLVM takes 67, and programs of a development build 16 to 28, the runner 35 in all.
MIB_MAX = {"compiler": 95, "runner": 37, "antares": 105}


def layers_of(folder, descriptor):
    blob = folder / "blobs/sha256" / descriptor["digest"].removeprefix("sha256:")
    return json.loads(blob.read_bytes())["layers"]


def packed_mib(folder, descriptor):
    """What is pulled of an image, MiB."""
    return sum(layer["size"] for layer in layers_of(folder, descriptor)) / 2**20


def over_limits(out, limits=None):
    """Images that weigh more than they may."""
    limits = MIB_MAX if limits is None else limits
    for image in json.loads((out / "layout/index.json").read_bytes())["manifests"]:
        name = image["annotations"]["org.opencontainers.image.ref.name"]
        mib = packed_mib(out / "layout", image)
        if mib > limits[name]:
            yield f"{name} weighs {mib:.1f} MiB, and may weigh {limits[name]}"


class Packages(dict):
    def __missing__(self, name):
        self[name] = debian.Package(name)
        return self[name]


def build(binaries, out):
    known, packages = facts(binaries), Packages()
    images = layout.Layout(out / "layout")
    programs = {name: stripped(binaries / name) for cargo, _, _ in IMAGES.values() for name in cargo.values()}
    needs = {name: debian.libraries(binaries / name) for name in programs}
    # What only compile workers need is LLVM and whatever comes with it.
    common = set().union(*(needs[name] for name in needs if name != "antares-compile-worker"))
    base_layer = images.layer(with_libraries(base(packages), common, packages), "glibc, certificates")
    shared = set(packages)
    llvm_layer = images.layer(with_libraries(layout.Layer(), needs["antares-compile-worker"] - common, packages), "LLVM and what it needs")
    made = {}
    for name, (cargo, entry, description) in IMAGES.items():
        own = layout.Layer()
        for program in cargo.values():
            own.file(f"usr/local/bin/{program}", programs[program], 0o755)
        compiles = "antares-compile-worker" in cargo.values()
        layers = [base_layer, *([llvm_layer] if compiles else []), images.layer(own, "Antares")]
        made[name] = images.image(f"antares/{name}:{known['version']}", layers, config(entry), known["created"], labels(name, description, known))
        contents = [package for key, package in sorted(packages.items()) if compiles or key in shared]
        bill = statements.bill_of_materials(ROOT, made[name], {**known, "name": f"antares/{name}"}, contents, cargo)
        (out / f"{name}.cdx.json").write_bytes(layout.to_json(bill))
    images.close()
    statement = statements.provenance({f"antares/{name}": image for name, image in made.items()}, packages.values(), known)
    (out / "provenance.json").write_bytes(layout.to_json(statement))
    return made


def config(entry):
    return {
        "User": f"{USER}:{USER}",
        "Env": ["PATH=/usr/local/bin"],
        "Entrypoint": [f"/usr/local/bin/{entry}"],
        "WorkingDir": "/var/lib/antares",
        "ExposedPorts": {"50051/tcp": {}, "9464/tcp": {}},
        "StopSignal": "SIGTERM",
    }


def labels(name, description, known):
    stated = {key: known[key] for key in ("version", "revision", "source", "licenses", "created")}
    stated |= {"title": f"antares/{name}", "description": description, "url": known["source"]}
    return {f"org.opencontainers.image.{key}": value for key, value in stated.items()}


def main():
    binaries, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    if out.exists():
        raise SystemExit(f"images: {out} is there already")
    out.mkdir(parents=True)
    for name, image in build(binaries, out).items():
        print(f"{name} {image['digest']} {packed_mib(out / 'layout', image):.1f} MiB packed")
    if too_large := list(over_limits(out)):
        raise SystemExit("images: " + "; ".join(too_large))


if __name__ == "__main__":
    main()
