"""A release from what `make images` makes: programs with bills of materials as a tar, images, the chart as a package and as an OCI artifact, checksums, and
signatures by a key that needs no network. Everything but signatures is the same bytes whenever and wherever it is made from the same binaries.

Usage: release.py date VERSION DAY                  in CHANGELOG.md: the day in place of "Unreleased", where all places say the version
       release.py notes VERSION                     prints the notes of a release, of CHANGELOG.md
       release.py make VERSION BINARIES OUT         BINARIES: a folder of a build with the profile dist
       release.py sign OUT KEY                      KEY: a private key, PEM (openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256)
       release.py places OUT REGISTRY               prints what is to be pushed and where to, a line for each
       release.py verify OUT PUBLIC                 PUBLIC: its public key, PEM (openssl pkey -pubout)
"""

import base64
import gzip
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

import build
import debian
import layout

CHART = build.ROOT / "helm/antares"
# Commands that no image has.
TOOLS = ["antares-debug", "antares-fuzz", "antares-optimise", "ckb-debugger"]
WORKER = "antares-compile-worker"
PROGRAMS = sorted({name for cargo, _, _ in build.IMAGES.values() for name in cargo.values()} | set(TOOLS))
SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"
HELM_CONFIG, HELM_LAYER = "application/vnd.cncf.helm.config.v1+json", "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
SIGNED_TYPE, COSIGN = "application/vnd.dev.cosign.simplesigning.v1+json", "dev.cosignproject.cosign/signature"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
DSSE_TYPE, STATEMENT_TYPE = "application/vnd.dsse.envelope.v1+json", "application/vnd.in-toto+json"
# What people read of a release before they install it.
NOTES_WORDS = 300
REF = "org.opencontainers.image.ref.name"


def said(version):
    """What each place must say of the version: the file, and what is found in it."""
    number = re.escape(version)
    return {
        "Cargo.toml": rf'(?m)^version = "{number}"$',
        "helm/antares/Chart.yaml": rf"(?m)^version: {number}$(?s:.*)^appVersion: \"{number}\"$",
        "clients/node/package.json": rf'(?m)^  "version": "{number}",$',
        "clients/node/package-lock.json": rf'(?m)^  "version": "{number}",?$',
        "clients/python/pyproject.toml": rf'(?m)^version = "{number}"$',
        "deploy/compose.yaml": rf"(?s)image: antares/compiler:{number}\n.*image: antares/runner:{number}\n",
        "CHANGELOG.md": rf"(?m)^## {number} \(\d{{4}}-\d\d-\d\d\)$",
    }


def mistakes(version, root=build.ROOT):
    """Places that do not say this version."""
    if not re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?", version):
        yield f"{version} is no version (SemVer: MAJOR.MINOR.PATCH)"
    for name, pattern in said(version).items():
        if not re.search(pattern, (root / name).read_text(encoding="utf-8")):
            yield f"{name} does not say {version}" + (" with its date" if name == "CHANGELOG.md" else "")
    packages = tomllib.loads((root / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    if others := [package["name"] for package in packages if "source" not in package and package["version"] != version]:
        yield f"Cargo.lock has {others[0]} and {len(others) - 1} more of another version"


def date_the_changelog(version, day, root=build.ROOT):
    """Puts the day in place of "Unreleased"."""
    path = root / "CHANGELOG.md"
    before = path.read_text(encoding="utf-8")
    after = before.replace(f"\n## Unreleased ({version})\n", f"\n## {version} ({day})\n")
    if after == before:
        raise SystemExit(f"release: CHANGELOG.md has no heading: Unreleased ({version})")
    path.write_text(after, encoding="utf-8")
    if wrong := list(mistakes(version, root)):
        path.write_text(before, encoding="utf-8")
        raise SystemExit("release: " + "; ".join(wrong))


def notes(version, root=build.ROOT):
    """Of the version in CHANGELOG.md, within NOTES_WORDS: for each kind of reader as many first sentences as fit all kinds, and each limit."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"(?ms)^## (?:Unreleased \()?{re.escape(version)}\b.*?$(.*?)(?=^## |\Z)", text)
    if not found:
        raise SystemExit(f"release: CHANGELOG.md does not have {version}")
    lead, *parts = re.split(r"(?m)^### ", re.sub(r" \((?:\[[^]]*\]\([^)]*\)(?:, )?)+\)|\[([^]]*)\]\([^)]*\)", r"\1", found.group(1)))
    parts = {part.split("\n")[0]: [" ".join(item.split()) for item in re.split(r"(?m)^\* ", part)[1:]] for part in parts if part.startswith("For ")}

    def written(count):
        for heading, items in parts.items():
            limits = [item for item in items if re.match("Limits?:", item)]
            yield "\n".join([f"### {heading}\n", *(f"* {re.split(r'(?<=[.])[ ]', item)[0]}" for item in items[:count] if item not in limits), *(f"* {item}" for item in limits)])

    for count in range(max(map(len, parts.values()), default=0), 0, -1):
        whole = "\n\n".join([f"# Antares {version}", " ".join(lead.split()), *written(count), "Everything else: CHANGELOG.md. How to upgrade: docs/releases.md.\n"])
        if len(whole.split()) <= NOTES_WORDS:
            return whole
    raise SystemExit(f"release: {version} has no notes of {NOTES_WORDS} words in CHANGELOG.md")


def packed(entries):
    """A tar of path and content (and mode), compressed."""
    layer = layout.Layer()
    for path, content, mode in entries:
        layer.file(path, content, mode)
    return gzip.compress(layer.tar(), layout.GZIP_LEVEL, mtime=0)


def own_libraries(binaries):
    """LLVM and what it needs: what compile workers load, and no other program."""
    needs = {program: debian.libraries(binaries / program) for program in PROGRAMS}
    return needs.pop(WORKER) - set().union(*needs.values())


def programs_archive(binaries, out, name):
    entries = [(f"{name}/bin/{program}", build.stripped(binaries / program), 0o755) for program in PROGRAMS]
    libraries = sorted(own_libraries(binaries))
    entries += [(f"{name}/lib/{pathlib.Path(path).name}", pathlib.Path(path).read_bytes(), 0o755) for path in libraries]
    licences = {package: pathlib.Path(f"/usr/share/doc/{package}/copyright") for package in map(debian.owner, libraries)}
    entries += [(f"{name}/licences/{package}", text.read_bytes(), 0o644) for package, text in sorted(licences.items()) if text.exists()]
    entries += [(f"{name}/{text}", (build.ROOT / text).read_bytes(), 0o644) for text in ("README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT")]
    return packed(entries + [(f"{name}/sbom/{path.name}", path.read_bytes(), 0o644) for path in sorted((out / "images").glob("*.cdx.json"))])


def debug_archive(binaries, name):
    """What `bin` lacks, for debuggers: a file for each program, with its build id."""

    def kept(program):
        with tempfile.NamedTemporaryFile() as file:
            subprocess.run(["objcopy", "--only-keep-debug", binaries / program, file.name], check=True)
            return pathlib.Path(file.name).read_bytes()

    return packed([(f"{name}/{program}.debug", kept(program), 0o644) for program in PROGRAMS])


def chart_package():
    """The chart as `helm package` makes it, but for times: what git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "."], cwd=CHART, capture_output=True, check=True).stdout
    names = sorted(name for name in listed.decode().split("\0") if name and not name.startswith("ci/"))
    return packed([(f"antares/{name}", (CHART / name).read_bytes(), 0o644) for name in names])


def manifest(images, config, layers, **more):
    whole = {"schemaVersion": 2, "mediaType": layout.MANIFEST_TYPE, "config": config, "layers": layers, **more}
    return images.blob(layout.to_json(whole), layout.MANIFEST_TYPE)


def chart_artifact(folder, package, version):
    artifact = layout.Layout(folder)
    config = artifact.blob(layout.to_json({"name": "antares", "version": version, "apiVersion": "v2"}), HELM_CONFIG)
    made = manifest(artifact, config, [artifact.blob(package, HELM_LAYER)])
    artifact.manifests.append({**made, "annotations": {"org.opencontainers.image.ref.name": version}})
    artifact.close()


def make(version, binaries, out):
    if wrong := list(mistakes(version)):
        raise SystemExit("release: " + "; ".join(wrong))
    out.mkdir(parents=True)
    (out / "images").mkdir()
    build.build(binaries, out / "images")
    name = f"antares-{version}-linux-x86_64"
    (out / f"{name}.tar.gz").write_bytes(programs_archive(binaries, out, name))
    (out / f"{name}-debug.tar.gz").write_bytes(debug_archive(binaries, f"{name}-debug"))
    package = chart_package()
    (out / f"antares-chart-{version}.tgz").write_bytes(package)
    chart_artifact(out / "chart", package, version)
    (out / "NOTES.md").write_text(notes(version), encoding="utf-8")
    (out / SUMS).write_text(sums(out), encoding="utf-8")


def sums(out):
    files = sorted(path for path in out.rglob("*") if path.is_file() and path.name not in (SUMS, SIGNATURE) and "signatures" not in path.relative_to(out).parts)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out)}\n" for path in files)


def openssl(*arguments, text):
    return subprocess.run(["openssl", "dgst", "-sha256", *map(str, arguments)], input=text, capture_output=True, check=False)


def signed(key, text):
    done = openssl("-sign", key, text=text)
    if done.returncode != 0:
        raise SystemExit(f"release: {key}: {done.stderr.decode()}")
    return done.stdout


def payload(descriptor):
    """What cosign signs of an image."""
    critical = {"identity": {"docker-reference": ""}, "image": {"docker-manifest-digest": descriptor["digest"]}, "type": "cosign container image signature"}
    return layout.to_json({"critical": critical, "optional": None})


def images_of(out):
    return json.loads((out / "images/layout/index.json").read_bytes())["manifests"]


def descriptors(out):
    """Of all images, and of the chart."""
    for folder in ("images/layout", "chart"):
        yield from json.loads((out / folder / "index.json").read_bytes())["manifests"]


def encoded(text):
    """What DSSE signs: kind and length of the statement before it."""
    return f"DSSEv1 {len(STATEMENT_TYPE)} {STATEMENT_TYPE} {len(text)} ".encode() + text


def statements_of(out, descriptor):
    """What is said of an image: how it was made, and what is in it, each as an in-toto statement of this image alone."""
    name = descriptor["annotations"][REF]
    subject = [{"name": f"antares/{name}", "digest": {"sha256": descriptor["digest"].removeprefix("sha256:")}}]
    provenance = json.loads((out / "images/provenance.json").read_bytes())
    yield {**provenance, "subject": subject}
    bill = json.loads((out / f"images/{name}.cdx.json").read_bytes())
    yield {"_type": provenance["_type"], "subject": subject, "predicateType": "https://cyclonedx.org/bom", "predicate": bill}


def attest(out, key, signatures, descriptor):
    """Attestations of an image as cosign keeps them (`sha256-DIGEST.att`), and as a referrer of it (OCI 1.1: `subject`)."""
    layers = []
    for statement in statements_of(out, descriptor):
        text = layout.to_json(statement)
        signature = base64.b64encode(signed(key, encoded(text))).decode()
        envelope = {"payloadType": STATEMENT_TYPE, "payload": base64.b64encode(text).decode(), "signatures": [{"sig": signature}]}
        annotations = {COSIGN: "", "predicateType": statement["predicateType"]}
        layers.append(signatures.blob(layout.to_json(envelope), DSSE_TYPE, annotations=annotations))
    config = signatures.blob(
        layout.to_json({"architecture": "", "os": "", "config": {}, "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]}}), layout.CONFIG_TYPE
    )
    subject = {key: descriptor[key] for key in ("mediaType", "digest", "size")}
    made = manifest(signatures, config, layers, artifactType=DSSE_TYPE, subject=subject)
    signatures.manifests.append({**made, "annotations": {REF: descriptor["digest"].replace(":", "-") + ".att"}})


def sign(out, key):
    """Signs the checksums, and each image as cosign does: tags `sha256-DIGEST.sig` and, with what is said of it, `sha256-DIGEST.att` of a
    layout beside, to be pushed with the images."""
    (out / SIGNATURE).write_bytes(signed(key, (out / SUMS).read_bytes()))
    signatures = layout.Layout(out / "signatures")
    for descriptor in descriptors(out):
        text = payload(descriptor)
        annotations = {COSIGN: base64.b64encode(signed(key, text)).decode()}
        config = signatures.blob(layout.to_json({"architecture": "", "os": "", "config": {}, "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(text).hexdigest()}"]}}), layout.CONFIG_TYPE)
        made = manifest(signatures, config, [signatures.blob(text, SIGNED_TYPE, annotations=annotations)])
        name = descriptor["digest"].replace(":", "-") + ".sig"
        signatures.manifests.append({**made, "annotations": {REF: name}})
    for descriptor in images_of(out):
        attest(out, key, signatures, descriptor)
    signatures.close()


def wrong_parts(out, public):
    """What is not as it was signed."""

    def is_signed(text, signature):
        path = out / ".signature"
        path.write_bytes(signature)
        try:
            return openssl("-verify", public, "-signature", path, text=text).returncode == 0
        finally:
            path.unlink()

    if sums(out) != (out / SUMS).read_text(encoding="utf-8"):
        yield f"files are others than in {SUMS}"
    if not is_signed((out / SUMS).read_bytes(), (out / SIGNATURE).read_bytes()):
        yield f"{SIGNATURE} is not by this key"
    blobs = out / "signatures/blobs/sha256"
    tags = {}
    for entry in json.loads((out / "signatures/index.json").read_bytes())["manifests"]:
        tags[entry["annotations"]["org.opencontainers.image.ref.name"]] = json.loads((blobs / entry["digest"].removeprefix("sha256:")).read_bytes())
    for descriptor in descriptors(out):
        tag = descriptor["digest"].replace(":", "-") + ".sig"
        layers = tags.get(tag, {}).get("layers", [])
        if len(layers) != 1 or not is_signed(payload(descriptor), base64.b64decode(layers[0]["annotations"][COSIGN])):
            yield f"{descriptor['digest']} is not signed by this key"
    for descriptor in images_of(out):
        said = tags.get(descriptor["digest"].replace(":", "-") + ".att", {})
        envelopes = [json.loads((blobs / layer["digest"].removeprefix("sha256:")).read_bytes()) for layer in said.get("layers", [])]
        texts = [(base64.b64decode(envelope["payload"]), base64.b64decode(envelope["signatures"][0]["sig"])) for envelope in envelopes]
        is_whole = [text for text, _ in texts] == [layout.to_json(statement) for statement in statements_of(out, descriptor)]
        if not is_whole or not all(is_signed(encoded(text), signature) for text, signature in texts):
            yield f"{descriptor['digest']} has no attestations by this key"


def places(out, registry):
    """Layout and name in it of all that is to be pushed, and where each goes: signatures stand beside what they are of. The chart goes as it
    lies there: `helm push` would make another manifest of it, which nobody has signed."""
    (chart,) = json.loads((out / "chart/index.json").read_bytes())["manifests"]
    version = chart["annotations"][REF]
    pushed = [(f"images/layout:{image['annotations'][REF]}", f"antares/{image['annotations'][REF]}", image) for image in images_of(out)]
    pushed.append((f"chart:{version}", "charts/antares", chart))
    signatures = out / "signatures/index.json"
    names = [entry["annotations"][REF] for entry in json.loads(signatures.read_bytes())["manifests"]] if signatures.exists() else []
    for source, repository, descriptor in pushed:
        yield f"{source} {registry}/{repository}:{version}"
        digest = descriptor["digest"].replace(":", "-")
        yield from (f"signatures:{name} {registry}/{repository}:{name}" for name in names if name.startswith(digest))


def main():
    match sys.argv[1:]:
        case ["date", version, day]:
            date_the_changelog(version, day)
        case ["notes", version]:
            print(notes(version), end="")
        case ["make", version, binaries, out]:
            if pathlib.Path(out).exists():
                raise SystemExit(f"release: {out} is there already")
            make(version, pathlib.Path(binaries).resolve(), pathlib.Path(out))
        case ["sign", out, key]:
            sign(pathlib.Path(out), key)
        case ["places", out, registry]:
            print("\n".join(places(pathlib.Path(out), registry)))
        case ["verify", out, public]:
            wrong = list(wrong_parts(pathlib.Path(out), public))
            print("\n".join(wrong) or "release: everything is as it was signed")
            sys.exit(1 if wrong else 0)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
