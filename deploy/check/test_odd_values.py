"""Values that YAML could take for something else: whatever a release is called and whatever labels say, Kubernetes gets strings where it
wants strings. $HELM is the program; chart.sh sets it."""

import re
import unittest

from test_chart import rendered as render

# Texts that YAML reads as a number, a boolean, null, a date or a map.
ODD = ["123", "1e3", "0x10", "0o17", "1_000", ".5", "-1", "+1", "1:30", "yes", "no", "on", "off", "y", "true", "null", "~", "2026-11-26", ".inf", "12e03"]
# Names of releases: DNS labels. Those that begin with a digit need a prefix of objects that does not.
RELEASES = ["123", "1e3", "0x10", "0o17", "1-000", "yes", "no", "on", "off", "y", "true", "null", "2026-11-26", "12e03", "0"]
# What no object may be called, wherever a name is taken, and in a prefix of names.
NO_NAMES = ["a.b-", "A", "a b", "a_b", "-a", "a/b"]


STRING_MAPS = {"labels", "annotations", "matchLabels", "nodeSelector", "selector", "data", "binaryData"}
STRINGS = {
    "name", "namespace", "image", "imagePullPolicy", "serviceAccountName", "serviceName", "priorityClassName", "runtimeClassName",
    "storageClassName", "secretName", "kind", "apiVersion", "key", "topologyKey", "effect", "operator", "schedule", "type",
}


def wrong_types(thing, place=""):
    """Places where a string is wanted and something else stands."""
    if isinstance(thing, list):
        for index, part in enumerate(thing):
            yield from wrong_types(part, f"{place}[{index}]")
        return
    if not isinstance(thing, dict):
        return
    for key, part in thing.items():
        at = f"{place}.{key}"
        if not isinstance(key, str):
            yield f"{at}: the key is {key!r}"
        elif key in STRING_MAPS and isinstance(part, dict) and not set(part) & {"matchLabels", "matchExpressions"}:
            yield from (f"{at}.{name}: {value!r}" for name, value in part.items() if not isinstance(name, str) or not isinstance(value, str))
        elif key in STRINGS and not isinstance(part, str):
            yield f"{at}: {part!r}"
        elif key != "data":
            yield from wrong_types(part, at)


def in_all_places(text):
    """Values in which the text stands wherever the chart takes a word."""
    own = {"podAnnotations": {"note": text}, "nodeSelector": {"pool": text}}
    is_name = re.fullmatch("[a-z0-9]([-a-z0-9.]*[a-z0-9])?", text)
    name = text if is_name else ""
    own |= {"priorityClassName": name, "runtimeClassName": name}
    return {
        "commonLabels": {"team": text},
        "compiler": own | {"cache": {"storageClass": name}},
        "runner": own,
        "serviceAccount": {"annotations": {"role": text}},
        "monitoring": {"labels": {"release": text}, "podMonitor": {"enabled": True}, "rules": {"enabled": True}},
        "tls": {"secret": "tls", "clients": False},
    }


class OddValues(unittest.TestCase):
    def expect_strings(self, objects, namespace):
        self.assertEqual(list(wrong_types(objects)), [])
        for thing in objects:
            self.assertEqual(thing["metadata"]["namespace"], namespace, thing["kind"])

    def test_values_that_look_like_something_else(self):
        for text in ODD:
            with self.subTest(text):
                objects = render(in_all_places(text))
                self.expect_strings(objects, "default")
                pods = [thing["spec"]["template"] for thing in objects if thing["kind"] in ("Deployment", "StatefulSet")]
                for pod in pods:
                    found = {pod["metadata"]["labels"]["team"], pod["metadata"]["annotations"]["note"], pod["spec"]["nodeSelector"]["pool"]}
                    self.assertEqual(found, {text})

    def test_releases_and_namespaces_that_look_like_something_else(self):
        for text in RELEASES:
            with self.subTest(text):
                prefix = f"a-{text}" if text[0].isdigit() else text
                self.expect_strings(render({"fullnameOverride": prefix, "nameOverride": text}, release=text, namespace=text), text)

    def test_names_that_kubernetes_refuses_are_refused_with_their_value(self):
        one, other = NO_NAMES, [*NO_NAMES, "a.b"]
        places = {
            "fullnameOverride": [*other, "1"], "nameOverride": other, "namespaceOverride": other, "tls.secret": one, "auth.jwksSecret": one,
            "serviceAccount.name": one, "compiler.cache.existingClaim": one, "runner.priorityClassName": one, "dashboard.namespace": other,
        }
        for place, names in places.items():
            for name in names:
                values = name
                for key in reversed(place.split(".")):
                    values = {key: values}
                with self.subTest(f"{place}: {name}"), self.assertRaisesRegex(ValueError, place.rpartition(".")[2]):
                    render(values)
        for release in ("1", "a.b"):
            with self.subTest(release), self.assertRaisesRegex(ValueError, "set fullnameOverride"):
                render({}, release=release)
            render({"fullnameOverride": "a"}, release=release)

    def test_values_that_are_no_strings_become_some(self):
        for value, text in ((123, "123"), (20261126, "20261126"), (True, "true"), (1.5, "1.5"), (0, "0")):
            with self.subTest(value):
                objects = render(in_all_places(text) | {"commonLabels": {"team": value}})
                self.expect_strings(objects, "default")
                self.assertEqual({thing["metadata"]["labels"]["team"] for thing in objects}, {text})

    def test_what_is_null_is_left_out(self):
        objects = render({"commonLabels": {"team": None}, "runner": {"podAnnotations": {"note": None}, "nodeSelector": None}})
        self.expect_strings(objects, "default")
        self.assertFalse(any("team" in thing["metadata"]["labels"] for thing in objects))

    def test_what_the_chart_sets_cannot_be_set_twice(self):
        taken = {"app.kubernetes.io/name": "other", "app.kubernetes.io/component": "other", "app.kubernetes.io/instance": "other"}
        for thing in render({"commonLabels": taken, "monitoring": {"labels": taken, "podMonitor": {"enabled": True}}}):
            self.assertNotIn("other", thing["metadata"]["labels"].values())

    def test_targets_of_scalers_are_plain_numbers_and_never_zero(self):
        for queue, text in ((1_000_000, "1000000"), (1, "1")):
            with self.subTest(queue):
                scaling = {"enabled": True, "kind": "keda", "prometheus": "http://p:9090", "queue": queue}
                objects = render({"runner": {"autoscaling": scaling}})
                triggers = [each for thing in objects if thing["kind"] == "ScaledObject" for each in thing["spec"]["triggers"]]
                self.assertEqual([each["metadata"]["threshold"] for each in triggers if each["type"] == "prometheus"], [text])

    def test_long_releases_that_begin_alike_do_not_meet(self):
        names = [{thing["metadata"]["name"] for thing in render({}, release="a" * 45 + end)} for end in "bc"]
        self.assertFalse(names[0] & names[1])
        self.assertTrue(all(len(name) <= 63 for name in names[0] | names[1]))


if __name__ == "__main__":
    unittest.main()
