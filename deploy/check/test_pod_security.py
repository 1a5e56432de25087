"""Shows that pod_security.py bites: each way out of the restricted level is found, and a good pod passes."""

import copy
import unittest

import pod_security

GOOD = {
    "metadata": {},
    "spec": {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "c",
                "resources": {"limits": {"memory": "1Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    },
}

# Where to set what in the good pod, and a word of the violation that must follow. None removes the key.
BAD = [
    (("spec", "hostNetwork"), True, "hostNetwork"),
    (("spec", "hostPID"), True, "hostPID"),
    (("spec", "hostIPC"), True, "hostIPC"),
    (("spec", "volumes"), [{"name": "v", "hostPath": {"path": "/"}}], "hostPath"),
    (("spec", "volumes"), [{"name": "v", "nfs": {}}], "nfs"),
    (("spec", "volumes"), [{"name": "v", "emptyDir": {}}], "sizeLimit"),
    (("spec", "securityContext", "runAsNonRoot"), None, "runAsNonRoot"),
    (("spec", "securityContext", "runAsUser"), 0, "runAsUser"),
    (("spec", "securityContext", "seccompProfile"), None, "seccompProfile"),
    (("spec", "securityContext", "seccompProfile"), {"type": "Unconfined"}, "seccompProfile"),
    (("spec", "securityContext", "sysctls"), [{"name": "kernel.msgmax", "value": "1"}], "sysctl"),
    (("spec", "securityContext", "seLinuxOptions"), {"type": "spc_t"}, "seLinuxOptions"),
    (("spec", "securityContext", "appArmorProfile"), {"type": "Unconfined"}, "appArmorProfile"),
    (("spec", "securityContext", "windowsOptions"), {"hostProcess": True}, "hostProcess"),
    (("spec", "containers", 0, "securityContext", "privileged"), True, "privileged"),
    (("spec", "containers", 0, "securityContext", "allowPrivilegeEscalation"), None, "allowPrivilegeEscalation"),
    (("spec", "containers", 0, "securityContext", "capabilities"), None, "drop ALL"),
    (("spec", "containers", 0, "securityContext", "capabilities"), {"drop": ["ALL"], "add": ["SYS_ADMIN"]}, "SYS_ADMIN"),
    (("spec", "containers", 0, "securityContext", "procMount"), "Unmasked", "procMount"),
    (("spec", "containers", 0, "securityContext", "runAsNonRoot"), False, "runAsNonRoot"),
    (("spec", "containers", 0, "securityContext", "runAsUser"), 0, "runAsUser"),
    (("spec", "containers", 0, "securityContext", "seccompProfile"), {"type": "Unconfined"}, "seccompProfile"),
    (("spec", "containers", 0, "securityContext", "readOnlyRootFilesystem"), None, "readOnlyRootFilesystem"),
    (("spec", "containers", 0, "ports"), [{"containerPort": 1, "hostPort": 1}], "hostPort"),
    (("spec", "containers", 0, "livenessProbe"), {"httpGet": {"host": "10.0.0.1"}}, "livenessProbe"),
    (("spec", "containers", 0, "lifecycle"), {"preStop": {"tcpSocket": {"host": "10.0.0.1"}}}, "preStop"),
    (("spec", "containers", 0, "resources"), None, "memory limit"),
    (("spec", "initContainers"), [{"name": "i"}], "i: allowPrivilegeEscalation"),
    (("spec", "automountServiceAccountToken"), None, "automountServiceAccountToken"),
    (
        ("metadata", "annotations"),
        {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"},
        "apparmor",
    ),
]


class PodSecurity(unittest.TestCase):
    def test_a_good_pod_passes(self):
        self.assertEqual(list(pod_security.violations(GOOD)), [])

    def test_each_way_out_is_found(self):
        for path, value, word in BAD:
            pod = copy.deepcopy(GOOD)
            place = pod
            for key in path[:-1]:
                place = place[key]
            if value is None:
                del place[path[-1]]
            else:
                place[path[-1]] = value
            with self.subTest(path=path, value=value):
                found = list(pod_security.violations(pod))
                self.assertTrue(any(word in violation for violation in found), found)

    def test_pods_are_found_in_every_kind(self):
        for kind, path in pod_security.POD_PATHS.items():
            document = copy.deepcopy(GOOD)
            for key in reversed(path):
                document = {key: document}
            document.update(kind=kind, metadata={"name": "n"})
            self.assertEqual(len(list(pod_security.pods_in([document, None, {"kind": "Service"}]))), 1, kind)


if __name__ == "__main__":
    unittest.main()
