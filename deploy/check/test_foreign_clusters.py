"""The chart in clusters that are not ours: each test renders values that some cluster, cloud or other chart asks for, and looks at what becomes of
them. $HELM is the program; chart.sh sets it, and has kubeconform look at each of SETS for three versions of Kubernetes."""

import pathlib
import unittest

import yaml
from test_chart import CHART, configuration, pod, render
from test_odd_values import wrong_types

# Sets of values, each with a name: what operators of other clusters write.
SETS = yaml.safe_load(pathlib.Path(__file__).with_name("foreign_values.yaml").read_text(encoding="utf-8"))
COMPILER, RUNNER = ("StatefulSet", "antares-compiler"), ("Deployment", "antares-runner")


class ForeignClusters(unittest.TestCase):
    def rendered(self, name):
        return render(SETS[name])

    def test_every_set_has_the_right_types(self):
        self.assertGreaterEqual(len(SETS), 40)
        for name, values in SETS.items():
            with self.subTest(name):
                objects = render(values)
                self.assertEqual(list(wrong_types(list(objects.values()))), [])
                self.assertNotEqual(objects, render({}), "a set that changes nothing")

    def test_openshift_chooses_users(self):
        objects = self.rendered("openshift")
        for spec in (pod(objects, *COMPILER), pod(objects, *RUNNER), objects[("Pod", "antares-smoke")]["spec"]):
            context = spec["securityContext"]
            self.assertFalse({"runAsUser", "runAsGroup", "fsGroup"} & set(context))
            self.assertIs(context["runAsNonRoot"], True)
        egress = objects[("NetworkPolicy", "antares-runner")]["spec"]["egress"][0]
        self.assertEqual({port["port"] for port in egress["ports"]}, {5353})
        one = pod(self.rendered("user-of-the-runner"), *RUNNER)["securityContext"]
        self.assertNotIn("fsGroup", one)
        self.assertEqual(one["runAsUser"], 1000680000)
        self.assertEqual(pod(self.rendered("user-of-the-runner"), *COMPILER)["securityContext"]["runAsUser"], 65532)

    def test_addresses_of_both_families(self):
        for name, listens in (("ipv6", "[::]"), ("dual-stack", "[::]"), ("one-family", "0.0.0.0"), ("own-address", "[fd00::1]")):
            with self.subTest(name):
                objects = self.rendered(name)
                for component in ("antares-compiler", "antares-runner"):
                    config = configuration(objects, component)
                    self.assertEqual(config["listen"]["address"], f"{listens}:50051")
                    self.assertEqual(config["metrics"]["address"], f"{listens}:9464")
        services = [thing["spec"] for (kind, _), thing in self.rendered("dual-stack").items() if kind == "Service"]
        self.assertEqual({spec["ipFamilyPolicy"] for spec in services}, {"RequireDualStack"})
        self.assertEqual([spec["ipFamilies"] for spec in services], [["IPv6", "IPv4"]] * len(services))

    def test_registries_of_ones_own(self):
        objects = self.rendered("registry")
        self.assertEqual(pod(objects, *RUNNER)["containers"][0]["image"].split(":")[0], "mirror.example/apps/antares/runner")
        self.assertEqual([secret["name"] for secret in pod(objects, *RUNNER)["imagePullSecrets"]], ["pull", "more", "own"])
        self.assertEqual(objects[("Pod", "antares-smoke")]["spec"]["imagePullSecrets"][0], {"name": "pull"})
        moved = pod(self.rendered("registry-in-the-name"), *RUNNER)["containers"][0]["image"]
        self.assertTrue(moved.startswith("mirror.example:5000/team/runner:"), moved)

    def test_nodes_of_several_architectures(self):
        for spec in (pod(render(), *COMPILER), pod(render(), *RUNNER), render()[("Pod", "antares-smoke")]["spec"]):
            self.assertEqual(spec["nodeSelector"]["kubernetes.io/arch"], "amd64")
        tainted = self.rendered("smoke-on-a-pool")[("Pod", "antares-smoke")]["spec"]
        self.assertEqual((tainted["nodeSelector"]["pool"], tainted["tolerations"][0]["key"]), ("vm", "dedicated"))
        self.assertNotIn("nodeSelector", pod(self.rendered("no-selector"), *RUNNER))

    def test_load_balancers_of_clouds(self):
        service = self.rendered("load-balancer")[("Service", "antares-runner")]
        self.assertEqual(service["metadata"]["annotations"]["service.beta.kubernetes.io/aws-load-balancer-scheme"], "internal")
        spec = service["spec"]
        self.assertEqual((spec["loadBalancerClass"], spec["externalTrafficPolicy"]), ("service.k8s.aws/nlb", "Local"))
        self.assertEqual((spec["loadBalancerSourceRanges"], spec["allocateLoadBalancerNodePorts"]), (["10.0.0.0/8"], False))
        self.assertEqual(self.rendered("node-port")[("Service", "antares-runner")]["spec"]["ports"][0]["nodePort"], 30051)
        headless = self.rendered("load-balancer")[("Service", "antares-runner-headless")]
        self.assertFalse({"loadBalancerClass", "externalTrafficPolicy"} & set(headless["spec"]))
        for values in ({"loadBalancerClass": "a"}, {"nodePort": 30000}, {"externalTrafficPolicy": "Local"}):
            with self.assertRaisesRegex(ValueError, f"service.{next(iter(values))} is not for service.type ClusterIP"):
                render({"service": values})

    def test_proxies_are_told_of_encryption(self):
        def told(values):
            return {port["appProtocol"] for (kind, _), thing in render(values).items() if kind == "Service" for port in thing["spec"]["ports"] if port["name"] == "grpc"}

        self.assertEqual(told({}), {"kubernetes.io/h2c"})
        self.assertEqual(told({"tls": {"secret": "tls", "clients": False}}), {"https"})
        self.assertEqual(told(SETS["protocol"]), {"grpc"})

    def test_what_policies_let_out(self):
        def peers(name, component="antares-compiler"):
            return [rule for rule in self.rendered(name)[("NetworkPolicy", component)]["spec"]["egress"]]

        metadata = peers("workload-identity")[1]
        self.assertEqual({port["port"] for port in metadata["ports"]}, {80, 988})
        self.assertIn({"ipBlock": {"cidr": "169.254.169.254/32"}}, metadata["to"])
        self.assertEqual(peers("extra-egress")[-1]["to"], [{"ipBlock": {"cidr": "10.9.0.0/16"}}])
        self.assertIn({"ipBlock": {"cidr": "169.254.20.10/32"}}, peers("node-local-dns", "antares-runner")[0]["to"])
        ingress = self.rendered("extra-egress")[("NetworkPolicy", "antares-runner")]["spec"]["ingress"]
        self.assertEqual(ingress[-1]["ports"], [{"port": 50051, "protocol": "TCP"}])

    def test_labels_of_pods_do_not_reach_selectors(self):
        objects = self.rendered("workload-identity")
        compiler = next(thing for (kind, name), thing in objects.items() if kind == "Deployment" and name == "antares-compiler")
        self.assertEqual(compiler["spec"]["template"]["metadata"]["labels"]["azure.workload.identity/use"], "true")
        self.assertNotIn("azure.workload.identity/use", compiler["spec"]["selector"]["matchLabels"])
        self.assertNotIn("azure.workload.identity/use", compiler["metadata"]["labels"])

    def test_volumes(self):
        def claim(name):
            return self.rendered(name)[COMPILER]["spec"]["volumeClaimTemplates"][0]

        self.assertEqual(claim("no-storage-class")["spec"]["storageClassName"], "")
        self.assertNotIn("storageClassName", render({})[COMPILER]["spec"]["volumeClaimTemplates"][0]["spec"])
        self.assertEqual(claim("claim-of-a-volume")["spec"]["selector"]["matchLabels"], {"disk": "fast"})
        self.assertEqual(claim("claim-of-a-volume")["metadata"]["annotations"], {"backup": "false"})
        own = self.rendered("existing-claim")
        self.assertNotIn("volumeClaimTemplates", own[COMPILER]["spec"])
        self.assertIn({"name": "cache", "persistentVolumeClaim": {"claimName": "mine"}}, pod(own, *COMPILER)["volumes"])
        policy = self.rendered("claim-that-goes")[COMPILER]["spec"]["persistentVolumeClaimRetentionPolicy"]
        self.assertEqual(policy, {"whenDeleted": "Delete", "whenScaled": "Retain"})

    def test_containers_and_objects_beside(self):
        objects = self.rendered("sidecars")
        spec = pod(objects, *RUNNER)
        self.assertEqual([container["name"] for container in spec["containers"]], ["runner", "proxy"])
        self.assertEqual([container["name"] for container in spec["initContainers"]], ["wait"])
        self.assertEqual(spec["containers"][0]["envFrom"], [{"configMapRef": {"name": "env"}}])
        objects = self.rendered("extra-objects")
        self.assertEqual(objects[("ConfigMap", "plain")]["data"], {"a": "b"})
        self.assertEqual(objects[("ConfigMap", "antares-templated")]["data"], {"namespace": "default"})

    def test_budgets_replicas_and_probes(self):
        budgets = {name: thing["spec"] for (kind, name), thing in self.rendered("budgets").items() if kind == "PodDisruptionBudget"}
        self.assertEqual(budgets["antares-runner"]["minAvailable"], "50%")
        self.assertNotIn("maxUnavailable", budgets["antares-runner"])
        self.assertEqual(budgets["antares-compiler"]["maxUnavailable"], 0)
        self.assertEqual(budgets["antares-compiler"]["unhealthyPodEvictionPolicy"], "AlwaysAllow")
        self.assertEqual(self.rendered("asleep")[RUNNER]["spec"]["replicas"], 0)
        container = pod(self.rendered("probes"), *RUNNER)["containers"][0]
        self.assertEqual(container["startupProbe"]["failureThreshold"], 300)
        self.assertEqual(container["readinessProbe"]["httpGet"], {"path": "/healthz", "port": "metrics"})
        self.assertNotIn("livenessProbe", container)

    def test_contexts_of_containers(self):
        container = pod(self.rendered("writable-root"), *RUNNER)["containers"][0]
        self.assertIs(container["securityContext"]["readOnlyRootFilesystem"], False)
        self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
        for context in ({"privileged": True}, {"allowPrivilegeEscalation": True}, {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}):
            with self.assertRaises(ValueError):
                render({"containerSecurityContext": context})
        with self.assertRaises(ValueError):
            render({"podSecurityContext": {"runAsUser": 0}})

    def test_labels_and_annotations_everywhere(self):
        for (kind, name), thing in self.rendered("everywhere").items():
            with self.subTest(f"{kind} {name}"):
                self.assertEqual(thing["metadata"]["labels"]["team"], "vm")
                self.assertEqual(thing["metadata"]["annotations"]["cost-center"], "7")
                self.assertEqual(thing["metadata"]["namespace"], "elsewhere")

    def test_the_ingress_leads_to_both(self):
        spec = self.rendered("ingress")[("Ingress", "antares")]["spec"]
        paths = {path["path"]: path["backend"]["service"]["name"] for path in spec["rules"][0]["http"]["paths"]}
        self.assertEqual(paths["/antares.v1.RunnerService"], "antares-runner")
        self.assertEqual(paths["/antares.v1.CompilerService"], "antares-compiler")
        self.assertFalse(any("Admin" in path for path in paths))
        self.assertEqual((spec["ingressClassName"], spec["rules"][0]["host"]), ("nginx", "vm.example"))

    def test_the_smoke_test_shows_who_it_is(self):
        container = self.rendered("smoke-with-identity")[("Pod", "antares-smoke")]["spec"]["containers"][0]
        env = {one["name"]: one["value"] for one in container["env"]}
        self.assertEqual(env["ANTARES_TLS_CERT"], "/etc/antares-smoke/tls.crt")
        self.assertEqual((env["ANTARES_TLS_CA"], env["ANTARES_TOKEN_FILE"]), ("/etc/antares-tls/ca.crt", "/etc/antares-token/token"))
        self.assertNotIn(("Pod", "antares-smoke"), self.rendered("no-smoke"))

    def test_a_service_monitor_finds_each_pod_once(self):
        objects = self.rendered("service-monitor")
        monitor = objects[("ServiceMonitor", "antares")]["spec"]
        chosen = [thing for (kind, _), thing in objects.items() if kind == "Service" and monitor["selector"]["matchLabels"].items() <= thing["metadata"]["labels"].items()]
        self.assertEqual([service["metadata"]["name"] for service in chosen], ["antares-metrics"])
        self.assertIs(chosen[0]["spec"]["publishNotReadyAddresses"], True)
        for workload in (COMPILER, RUNNER):
            labels = objects[workload]["spec"]["template"]["metadata"]["labels"]
            self.assertLessEqual(chosen[0]["spec"]["selector"].items(), labels.items())
        self.assertEqual(monitor["endpoints"][0]["relabelings"][0], {"targetLabel": "job", "replacement": "antares"})
        self.assertEqual((monitor["sampleLimit"], monitor["endpoints"][0]["scrapeTimeout"]), (20000, "10s"))
        elsewhere = self.rendered("pod-monitor-elsewhere")[("PodMonitor", "antares")]
        self.assertEqual(elsewhere["spec"]["namespaceSelector"], {"matchNames": ["default"]})
        with self.assertRaisesRegex(ValueError, "scrape each pod twice"):
            render({"monitoring": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}})

    def test_rules_of_ones_own(self):
        def alerts(values):
            groups = render(values)[("PrometheusRule", "antares")]["spec"]["groups"]
            return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}

        before, after = alerts({"monitoring": {"rules": {"enabled": True}}}), alerts(SETS["rules"])
        self.assertEqual(set(before) - set(after), {"AntaresProfilePush"})
        own = after["AntaresCompileQueue"]
        self.assertEqual(own["expr"], before["AntaresCompileQueue"]["expr"].replace("> 16", "> 64"))
        self.assertEqual((own["for"], own["labels"]), ("30m", {"severity": "page", "team": "vm"}))
        self.assertEqual(after["AntaresQueueWait"]["labels"]["team"], "search")
        self.assertEqual(after["AntaresDown"]["annotations"]["runbook_url"], "https://wiki.example/antares#antaresdown")
        self.assertEqual(after["AntaresDown"]["expr"], before["AntaresDown"]["expr"])
        files = yaml.safe_load((CHART / "files/antares.rules.yml").read_text(encoding="utf-8"))
        self.assertEqual(render({"monitoring": {"rules": {"enabled": True}}})[("PrometheusRule", "antares")]["spec"], files)
        for rules in ({"disabled": ["AntaresNoSuch"]}, {"overrides": {"AntaresNoSuch": {"for": "1m"}}}):
            with self.assertRaisesRegex(ValueError, "there is no alert AntaresNoSuch"):
                render({"monitoring": {"rules": rules | {"enabled": True}}})

    def test_a_condition_of_another_chart(self):
        self.assertEqual(render({"enabled": True, "global": {"somebody": "else's"}}), render({}))

    def test_maps_that_are_null(self):
        """What can be empty can be null; what cannot is named in the refusal, and templates do not break on it."""
        values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
        for key, value in values.items():
            for path in [(key,)] + [(key, inner) for inner in (value if isinstance(value, dict) else ())]:
                with self.subTest(".".join(path)):
                    null = {path[0]: None} if len(path) == 1 else {path[0]: {path[1]: None}}
                    try:
                        render(null)
                    except ValueError as error:
                        self.assertIn(path[-1], str(error))
                        self.assertNotIn("nil pointer", str(error))


if __name__ == "__main__":
    unittest.main()
