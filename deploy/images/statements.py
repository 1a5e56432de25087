"""What is said about images beside them: a bill of materials (CycloneDX 1.6) of crates and Debian packages, and a statement of how they
were made (in-toto, predicate SLSA provenance v1). The latter is not signed: sign it with what your registry's users verify.
"""

import re
import subprocess
import tomllib
import uuid


def crates(root, packages):
    """Crates that are linked into the programs: name, version, licence."""
    command = ["cargo", "tree", "--locked", "--quiet", "--edges", "no-build,no-dev,no-proc-macro", "--target", "x86_64-unknown-linux-gnu"]
    command += ["--prefix", "none", "--format", "{p}|{l}|"]
    for package in packages:
        command += ["--package", package]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    found = set()
    for line in done.stdout.splitlines():
        match = re.match(r"(\S+) v(\S+)[^|]*\|(.*)\|", line)
        if match:
            found.add(match.groups())
    return sorted(found)


def locked(root):
    """From Cargo.lock: where each crate is from, and its checksum."""
    with open(root / "Cargo.lock", "rb") as file:
        return {(p["name"], p["version"]): p for p in tomllib.load(file)["package"]}


def crate_component(name, version, licence, lock):
    component = {"type": "library", "bom-ref": f"cargo:{name}@{version}", "name": name, "version": version}
    if licence:
        # Old manifests have a slash where SPDX has OR.
        component["licenses"] = [{"expression": licence.replace("/", " OR ") if " OR " not in licence else licence}]
    entry = lock[(name, version)]
    # Others are our own.
    if entry.get("source", "").startswith("registry+"):
        component["purl"] = f"pkg:cargo/{name}@{version}"
        component["hashes"] = [{"alg": "SHA-256", "content": entry["checksum"]}]
    return component


def package_component(package):
    component = {"type": "library", "bom-ref": f"deb:{package.name}@{package.version}", "name": package.name}
    return component | {"version": package.version, "purl": package.purl(), "properties": [{"name": "debian:source", "value": package.source}]}


def bill_of_materials(root, image, facts, packages, programs):
    """`programs`: names of cargo packages; `packages`: Debian's."""
    lock = locked(root)
    components = [crate_component(*crate, lock) for crate in crates(root, programs)]
    components += [package_component(package) for package in packages]
    digest = image["digest"].removeprefix("sha256:")
    subject = {
        "type": "container",
        "bom-ref": f"oci:{facts['name']}",
        "name": facts["name"],
        "version": facts["version"],
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # Of the image, so that the same image has the same document.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, image['digest'])}",
        "version": 1,
        "metadata": {"timestamp": facts["created"], "component": subject},
        "components": components,
        "dependencies": [{"ref": subject["bom-ref"], "dependsOn": [c["bom-ref"] for c in components]}],
    }


def provenance(images, packages, facts):
    """`images`: descriptor by name."""
    subject = [{"name": name, "digest": {"sha256": image["digest"].removeprefix("sha256:")}} for name, image in sorted(images.items())]
    source = {"uri": f"git+{facts['source']}", "digest": {"gitCommit": facts["revision"]}}
    debian = [{"uri": package.purl(), "name": package.name} for package in packages]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subject,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{facts['source']}/blob/main/deploy/README.md#images",
                "externalParameters": {"version": facts["version"], "profile": facts["profile"]},
                "internalParameters": {"rustc": facts["rustc"], "changed": facts["changed"]},
                "resolvedDependencies": [source, *debian],
            },
            "runDetails": {"builder": {"id": f"{facts['source']}/blob/main/scripts/images.sh"}},
        },
    }
