"""Checks the pods of rendered manifests against the restricted level of the Kubernetes Pod Security Standards.

Usage: pod_security.py FILE...        (YAML; - for standard input)

Every rule of the level is here, the ones of baseline included, as the standard lists them for Linux pods. A pod is looked
for in every workload kind. Exits with 1 and one line for each violation.
"""

import sys

import yaml

# Kinds that carry a pod template, and the way to it.
POD_PATHS = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}

# Restricted: the only volume types.
VOLUME_TYPES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}

# Baseline: sysctls that are namespaced and isolated.
SAFE_SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}

# Baseline: SELinux types, and AppArmor profiles.
SELINUX_TYPES = {None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
APPARMOR_TYPES = {"RuntimeDefault", "Localhost"}
SECCOMP_TYPES = {"RuntimeDefault", "Localhost"}


def containers_of(spec):
    """All containers of a pod, of every sort."""
    for group in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(group) or []


def check_host(spec):
    """Baseline: host namespaces, host ports, host paths, privileged containers, probe hosts."""
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(key):
            yield f"{key} must not be true"
    for container in containers_of(spec):
        name = container["name"]
        if (container.get("securityContext") or {}).get("privileged"):
            yield f"{name}: privileged must not be true"
        for port in container.get("ports") or []:
            if port.get("hostPort"):
                yield f"{name}: hostPort {port['hostPort']} must not be set"
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            for action in ("httpGet", "tcpSocket"):
                if ((container.get(probe) or {}).get(action) or {}).get("host"):
                    yield f"{name}: {probe}.{action}.host must not be set"
        for hook in ("postStart", "preStop"):
            for action in ("httpGet", "tcpSocket"):
                if (((container.get("lifecycle") or {}).get(hook) or {}).get(action) or {}).get("host"):
                    yield f"{name}: lifecycle.{hook}.{action}.host must not be set"


def check_volumes(spec):
    """Restricted: volume types; baseline's ban on hostPath follows from it."""
    for volume in spec.get("volumes") or []:
        types = set(volume) - {"name"}
        if not types <= VOLUME_TYPES:
            yield f"volume {volume['name']}: type {', '.join(sorted(types - VOLUME_TYPES))} is not allowed"


def check_contexts(spec):
    """Baseline: SELinux, AppArmor, /proc mount, sysctls, Windows host process."""
    pod = spec.get("securityContext") or {}
    for sysctl in pod.get("sysctls") or []:
        if sysctl["name"] not in SAFE_SYSCTLS:
            yield f"sysctl {sysctl['name']} is not allowed"
    contexts = [("pod", pod)]
    contexts += [(c["name"], c.get("securityContext") or {}) for c in containers_of(spec)]
    for name, context in contexts:
        selinux = context.get("seLinuxOptions") or {}
        if selinux.get("type") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
            yield f"{name}: seLinuxOptions {selinux} are not allowed"
        apparmor = context.get("appArmorProfile")
        if apparmor and apparmor.get("type") not in APPARMOR_TYPES:
            yield f"{name}: appArmorProfile {apparmor.get('type')} is not allowed"
        if context.get("procMount") not in (None, "Default"):
            yield f"{name}: procMount {context['procMount']} is not allowed"
        if (context.get("windowsOptions") or {}).get("hostProcess"):
            yield f"{name}: hostProcess must not be true"


def check_annotations(metadata):
    """Baseline: AppArmor profiles in their older form."""
    for key, value in (metadata.get("annotations") or {}).items():
        if key.startswith("container.apparmor.security.beta.kubernetes.io/"):
            if value != "runtime/default" and not value.startswith("localhost/"):
                yield f"annotation {key}: {value} is not allowed"


def check_privileges(spec):
    """Restricted: privilege escalation, non-root, seccomp, capabilities."""
    pod = spec.get("securityContext") or {}
    if pod.get("runAsUser") == 0:
        yield "pod: runAsUser must not be 0"
    seccomp = (pod.get("seccompProfile") or {}).get("type")
    if seccomp is not None and seccomp not in SECCOMP_TYPES:
        yield f"pod: seccompProfile {seccomp} is not allowed"
    for container in containers_of(spec):
        name, own = container["name"], container.get("securityContext") or {}
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: allowPrivilegeEscalation must be false"
        if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
            yield f"{name}: runAsNonRoot must be true, on the pod or on the container"
        if own.get("runAsUser") == 0:
            yield f"{name}: runAsUser must not be 0"
        profile = (own.get("seccompProfile") or {}).get("type", seccomp)
        if profile not in SECCOMP_TYPES:
            yield f"{name}: seccompProfile must be RuntimeDefault or Localhost, is {profile}"
        capabilities = own.get("capabilities") or {}
        if "ALL" not in (capabilities.get("drop") or []):
            yield f"{name}: capabilities must drop ALL"
        extra = set(capabilities.get("add") or []) - {"NET_BIND_SERVICE"}
        if extra:
            yield f"{name}: capabilities must not add {', '.join(sorted(extra))}"


def check_house(spec):
    """Not of the standard, but promised by the chart: read-only roots, no token, no service variables."""
    if spec.get("automountServiceAccountToken") is not False:
        yield "house: automountServiceAccountToken must be false"
    if spec.get("enableServiceLinks") is not False:
        yield "house: enableServiceLinks must be false"
    for container in containers_of(spec):
        if (container.get("securityContext") or {}).get("readOnlyRootFilesystem") is not True:
            yield f"house: {container['name']}: readOnlyRootFilesystem must be true"
        if not (container.get("resources") or {}).get("limits", {}).get("memory"):
            yield f"house: {container['name']}: needs a memory limit"
    for volume in spec.get("volumes") or []:
        if "emptyDir" in volume and "sizeLimit" not in (volume["emptyDir"] or {}):
            yield f"house: volume {volume['name']}: an emptyDir needs a sizeLimit"


def violations(pod):
    """All violations of a pod or a pod template."""
    spec = pod["spec"]
    for check in (check_host, check_volumes, check_contexts, check_privileges, check_house):
        yield from check(spec)
    yield from check_annotations(pod.get("metadata") or {})


def pods_in(documents):
    """Name and pod of every document that has one."""
    for document in documents:
        if not document or document.get("kind") not in POD_PATHS:
            continue
        pod = document
        for key in POD_PATHS[document["kind"]]:
            pod = pod[key]
        yield f"{document['kind']}/{document['metadata']['name']}", pod


def main():
    found, pods = 0, 0
    for path in sys.argv[1:]:
        with sys.stdin if path == "-" else open(path, encoding="utf-8") as file:
            for name, pod in pods_in(list(yaml.safe_load_all(file))):
                pods += 1
                for violation in violations(pod):
                    found += 1
                    print(f"{name}: {violation}")
    if pods == 0:
        sys.exit("no pod found: nothing was checked")
    print(f"pod security, restricted: {pods} pods, {found} violations")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
