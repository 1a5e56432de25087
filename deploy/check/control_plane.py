"""A Kubernetes control plane on this machine's loopback for the checks: etcd, API server, controllers, scheduler, and kwok, which plays
the kubelets. Its certificates, its data and its logs are in one folder; `stop` ends every process.
"""

import json
import pathlib
import signal
import ssl
import subprocess
import urllib.error
import urllib.request

from waiting import free_ports, wait

# How long a part may take to be ready, seconds: machines may be several times slower than ours.
START_MAX = 300
# How long a part may take to end before it is killed, seconds.
STOP_MAX = 20

# Who is who, as in a cluster that kubeadm makes: file, common name, organisation.
IDENTITIES = [
    ("admin", "admin", "system:masters"),
    ("controllers", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
    # kwok writes nodes, leases and pods' status for all nodes.
    ("kwok", "kwok", "system:masters"),
]


class Refused(Exception):
    """The API server answered with an error."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


def wait_for(what, condition, seconds=START_MAX):
    """What the condition gave; says what was missing if it never holds."""
    return wait(condition, seconds, what)


class ControlPlane:
    def __init__(self, program, folder):
        self.program = program
        self.folder = pathlib.Path(folder)
        self.parts = {}
        self.etcd_port, self.etcd_peers, self.port, self.controllers_port, self.scheduler_port = free_ports(5)
        self.url = f"https://127.0.0.1:{self.port}"

    # Certificates.

    def openssl(self, *args):
        subprocess.run(["openssl", *args], cwd=self.folder, check=True, capture_output=True)

    def key(self, name):
        self.openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key")

    def certificate(self, name, subject, extensions):
        self.key(name)
        (self.folder / f"{name}.ext").write_text(extensions, encoding="utf-8")
        self.openssl("req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
        signed_by = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1"]
        self.openssl("x509", "-req", "-in", f"{name}.csr", *signed_by, "-extfile", f"{name}.ext", "-out", f"{name}.crt")

    def make_certificates(self):
        self.key("ca")
        self.openssl("req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=check-ca", "-days", "1", "-out", "ca.crt")
        names = "subjectAltName=IP:127.0.0.1,IP:10.96.0.1,DNS:kubernetes.default.svc\nextendedKeyUsage=serverAuth\n"
        self.certificate("server", "/CN=kube-apiserver", names)
        for name, common_name, organisation in IDENTITIES:
            subject = (f"/O={organisation}" if organisation else "") + f"/CN={common_name}"
            self.certificate(name, subject, "extendedKeyUsage=clientAuth\n")
            self.write_kubeconfig(name)
        self.openssl("genrsa", "-out", "accounts.key", "2048")

    def write_kubeconfig(self, name):
        path = self.folder
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "check", "cluster": {"server": self.url, "certificate-authority": f"{path}/ca.crt"}}],
            "users": [{"name": name, "user": {"client-certificate": f"{path}/{name}.crt", "client-key": f"{path}/{name}.key"}}],
            "contexts": [{"name": "check", "context": {"cluster": "check", "user": name}}],
            "current-context": "check",
        }
        self.kubeconfig(name).write_text(json.dumps(config), encoding="utf-8")

    def kubeconfig(self, name="admin"):
        return self.folder / f"{name}.kubeconfig"

    # Processes.

    def start_part(self, part, *flags):
        with open(self.folder / f"{part}.log", "wb") as log:
            self.parts[part] = subprocess.Popen([self.program, part, *flags], stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def alive(self):
        for part, process in self.parts.items():
            if process.poll() is not None:
                log = (self.folder / f"{part}.log").read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"{part} ended with status {process.returncode}:\n{log[-3000:]}")
        return True

    def start(self):
        self.make_certificates()
        client, peers = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.etcd_peers}"
        self.start_part(
            "etcd",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            # Nothing here outlives the check.
            "--unsafe-no-fsync",
        )
        self.start_part(
            "kube-apiserver",
            f"--etcd-servers={client}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={self.folder}/server.crt",
            f"--tls-private-key-file={self.folder}/server.key",
            f"--client-ca-file={self.folder}/ca.crt",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder}/accounts.key",
            f"--service-account-signing-key-file={self.folder}/accounts.key",
            "--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112",
        )
        wait_for("kube-apiserver is ready", self.ready)
        self.start_part(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig('controllers')}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.controllers_port}",
            "--leader-elect=false",
            f"--service-account-private-key-file={self.folder}/accounts.key",
            f"--root-ca-file={self.folder}/ca.crt",
            "--use-service-account-credentials",
        )
        self.start_part(
            "kube-scheduler",
            f"--kubeconfig={self.kubeconfig('scheduler')}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.scheduler_port}",
            "--leader-elect=false",
        )
        stages = subprocess.run([self.program, "kwok-stages"], check=True, capture_output=True).stdout
        (self.folder / "stages.yaml").write_bytes(stages)
        self.start_part(
            "kwok",
            f"--kubeconfig={self.kubeconfig('kwok')}",
            "--manage-all-nodes",
            f"--config={self.folder}/stages.yaml",
            "--node-lease-duration-seconds=40",
        )

    def pause(self, part):
        self.parts[part].send_signal(signal.SIGSTOP)

    def resume(self, part):
        self.parts[part].send_signal(signal.SIGCONT)

    def stop(self):
        # Callers before those that they call.
        for part in reversed(list(self.parts)):
            process = self.parts.pop(part)
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(STOP_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # Requests.

    def ready(self):
        self.alive()
        try:
            return self.ask("GET", "/readyz", raw=True) == b"ok"
        except (OSError, Refused):
            return False

    def ask(self, method, path, body=None, kind="application/json", raw=False):
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        context.load_cert_chain(self.folder / "admin.crt", self.folder / "admin.key")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method, headers={"Content-Type": kind})
        try:
            with urllib.request.urlopen(request, context=context, timeout=60) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            content = error.read()
            try:
                message = json.loads(content).get("message", "")
            except ValueError:
                message = content.decode(errors="replace")
            raise Refused(error.code, message) from None
        return content if raw else json.loads(content)

    def get(self, path):
        return self.ask("GET", path)

    def find(self, path):
        """The object, or None where there is none."""
        try:
            return self.get(path)
        except Refused as refusal:
            if refusal.status == 404:
                return None
            raise

    def items(self, path):
        return self.get(path)["items"]

    def create(self, path, thing):
        return self.ask("POST", path, thing)

    def patch(self, path, change):
        return self.ask("PATCH", path, change, kind="application/merge-patch+json")

    def delete(self, path):
        return self.ask("DELETE", path)
