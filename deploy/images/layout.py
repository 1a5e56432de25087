"""Writes an OCI image layout (image-spec 1.1): blobs by their digest, layers as tars in which nothing depends on when or where they were
made. `Layer` collects files, `Layout` keeps layers, configurations and manifests.
"""

import gzip
import hashlib
import io
import json
import pathlib
import tarfile

CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
# A trade of time for size: the level is part of what the digests depend on.
GZIP_LEVEL = 6


def to_json(thing):
    return json.dumps(thing, sort_keys=True, separators=(",", ":")).encode()


class Layer:
    """Files by their path in the image. Folders on the way are made, as root's."""

    def __init__(self):
        self.entries = {}

    def add(self, path, kind, mode, content=b"", target="", owner=0):
        path = path.strip("/")
        parent = str(pathlib.PurePosixPath(path).parent)
        if parent != "." and parent not in self.entries:
            self.folder(parent)
        entry = tarfile.TarInfo(path)
        entry.type, entry.mode, entry.linkname, entry.size = kind, mode, target, len(content)
        entry.uid = entry.gid = owner
        entry.mtime = 0
        self.entries[path] = (entry, content)

    def folder(self, path, mode=0o755, owner=0):
        self.add(path, tarfile.DIRTYPE, mode, owner=owner)

    def file(self, path, content, mode=0o644):
        self.add(path, tarfile.REGTYPE, mode, content if isinstance(content, bytes) else content.encode())

    def link(self, path, target):
        self.add(path, tarfile.SYMTYPE, 0o777, target=target)

    def tar(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for _, (entry, content) in sorted(self.entries.items()):
                archive.addfile(entry, io.BytesIO(content))
        return out.getvalue()


class Layout:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.blobs = self.folder / "blobs" / "sha256"
        self.blobs.mkdir(parents=True)
        self.manifests = []

    def blob(self, content, kind, **more):
        digest = hashlib.sha256(content).hexdigest()
        (self.blobs / digest).write_bytes(content)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content), **more}

    def layer(self, layer, comment):
        """The layer's descriptor, the digest of what it is unpacked, and what made it."""
        tar = layer.tar()
        packed = gzip.compress(tar, GZIP_LEVEL, mtime=0)
        return self.blob(packed, LAYER_TYPE), "sha256:" + hashlib.sha256(tar).hexdigest(), comment

    def image(self, name, layers, config, created, labels):
        """Adds an image and returns its descriptor. `name` is a repository and a tag."""
        history = [{"created": created, "created_by": comment} for _, _, comment in layers]
        whole = {
            "architecture": "amd64",
            "os": "linux",
            "created": created,
            "config": {**config, "Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [diff for _, diff, _ in layers]},
            "history": history,
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": self.blob(to_json(whole), CONFIG_TYPE),
            "layers": [descriptor for descriptor, _, _ in layers],
            "annotations": labels,
        }
        # The short name is what tools for layouts ask for, the long one what containerd and Docker call it after an import.
        names = {"org.opencontainers.image.ref.name": name.rsplit("/", 1)[1].split(":")[0], "io.containerd.image.name": f"docker.io/{name}"}
        platform = {"architecture": "amd64", "os": "linux"}
        descriptor = self.blob(to_json(manifest), MANIFEST_TYPE, annotations=names, platform=platform)
        self.manifests.append(descriptor)
        return descriptor

    def close(self):
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}', encoding="utf-8")
        index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": self.manifests}
        (self.folder / "index.json").write_bytes(to_json(index))
