"""The admission webhook of attach mode: what it changes, refuses and advises."""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from moorage.api.labels import parse
from moorage.api.meta import Object, ObjectMeta
from moorage.api.rules import COVER, DEVICE_TOLERATIONS, NODE_AFFINITY, TOLERATIONS
from moorage.apiserver.patch.jsonpatch import apply as apply_patch
from moorage.cel.env import kubernetes
from moorage.cel.types import DYN
from moorage.registry.pod.tolerations import WHITELIST
from moorage.tools.attach.webhook.conditions import claims_conditions, pods_conditions, volumes_conditions
from moorage.tools.attach.webhook.review import ReviewError, mutate, validate
from moorage.tools.attach.webhook.rewriting import WebhookSettings
from tests.plane import Data, pod

SLA = "example.com/sla"
GT = {"key": SLA, "operator": "Gt", "value": "950", "effect": "NoExecute"}
WILD = {"key": "readiness.k8s.io/*", "operator": "Exists", "effect": "NoExecute"}
OWN = {"key": "own", "operator": "Exists"}
ENTRY = {"key": SLA, "operator": "Exists", "effect": "NoExecute"}
DEAD = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for name in ("not-ready", "unreachable")
]
VERSIONS = {"key": "version", "operator": "SemverGt", "values": ["1.2.3"]}
HERE = WebhookSettings()
TEMPLATES = WebhookSettings(templates=True)


def ruled(
    *tolerations: Data, rules: str | None = f"- {{key: {SLA}, operator: Gt, value: '950', effect: NoExecute}}"
) -> Data:
    made = pod("a", schedulerName="default-scheduler", tolerations=[*tolerations, *DEAD])
    made["metadata"]["annotations"] = {TOLERATIONS: rules} if rules is not None else {}
    return made


def plain(*tolerations: Data, **spec: Any) -> Data:
    return pod("a", schedulerName="default-scheduler", tolerations=[*tolerations, *DEAD], **spec)


def deployment(holder: Data, kind: str = "Deployment") -> Data:
    template = {"metadata": holder["metadata"], "spec": holder["spec"]}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {"template": template}}


def affine(**preferred: Any) -> Data:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [VERSIONS]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms, **preferred}}


def review(item: Data, old: Data | None = None) -> bytes:
    request = {"uid": "u", "name": item["metadata"]["name"], "operation": "UPDATE" if old else "CREATE"}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return msgspec.json.encode({**body, "request": {**request, "object": item, "oldObject": old}})


def answered(body: bytes) -> Data:
    answer = msgspec.json.decode(body)
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"]["uid"] == "u"
    response: Data = answer["response"]
    return response


def stored(item: Data, old: Data | None = None, settings: WebhookSettings = HERE) -> Data:
    """What the API server stores after the webhook has answered."""
    response = answered(mutate(review(item, old), settings))
    assert response["allowed"], response
    if "patch" not in response:
        return item
    assert response["patchType"] == "JSONPatch"
    changed: Data = apply_patch(deepcopy(item), msgspec.json.decode(base64.b64decode(response["patch"])))
    assert "patch" not in answered(mutate(review(changed, old), settings)), "a second call must change nothing"
    return changed


def validated(item: Data, old: Data | None = None) -> Data:
    return answered(validate(review(item, old), HERE))


def refusal(item: Data, old: Data | None = None) -> str:
    response = validated(item, old)
    assert not response["allowed"]
    assert (response["status"]["code"], response["status"]["reason"]) == (422, "Invalid")
    return str(response["status"]["message"])


def test_a_pod_with_rules_gets_the_scheduler_that_knows_them_and_their_cover() -> None:
    made = stored(ruled(OWN))
    assert made["spec"]["schedulerName"] == "moorage"
    assert made["spec"]["tolerations"] == [ENTRY, OWN, *DEAD]
    assert msgspec.json.decode(made["metadata"]["annotations"][COVER]) == [ENTRY]


def test_before_a_cover_of_all_keys_stands_how_long_a_pod_stays_on_a_dead_node() -> None:
    made = stored(ruled(rules="[{key: 'readiness.k8s.io/*', operator: Exists}]"))
    everything = {"operator": "Exists", "effect": "NoExecute"}
    assert made["spec"]["tolerations"] == [*DEAD, everything, *DEAD]
    assert msgspec.json.decode(made["metadata"]["annotations"][COVER]) == [everything]


def test_another_scheduler_is_left_with_a_warning() -> None:
    item = ruled()
    item["spec"]["schedulerName"] = "volcano"
    made = stored(item)
    assert made["spec"]["schedulerName"] == "volcano"
    (warning,) = validated(made)["warnings"]
    assert warning.startswith("spec.schedulerName: volcano places the pod without the rules")


def test_native_spellings_of_a_pod_become_rules() -> None:
    made = stored(plain(GT, OWN, affinity=affine()))
    assert "affinity" not in made["spec"]
    assert made["spec"]["tolerations"] == [ENTRY, OWN, *DEAD]
    assert "operator: Gt" in made["metadata"]["annotations"][TOLERATIONS]
    assert "SemverGt" in made["metadata"]["annotations"][NODE_AFFINITY]
    assert validated(made)["allowed"]


def test_a_second_apply_of_a_bare_pod_keeps_what_the_first_one_got() -> None:
    for first in (ruled(OWN), plain(OWN, GT), plain(WILD, OWN), ruled({**ENTRY, "tolerationSeconds": 60})):
        old = stored(first)
        again = deepcopy(old)
        again["spec"]["tolerations"] = deepcopy(first["spec"]["tolerations"])  # what `kubectl apply` sends
        assert stored(again, old) == old


def test_a_replaced_pod_keeps_its_cover_its_record_and_its_scheduler() -> None:
    old = stored(ruled(OWN))
    again = stored(ruled(OWN), old)
    assert again["spec"] == old["spec"]
    assert again["metadata"]["annotations"][COVER] == old["metadata"]["annotations"][COVER]


def test_a_cover_stays_recorded_when_rules_are_gone() -> None:
    old = stored(ruled(OWN))
    bare = stored(ruled(OWN, rules=None), old)
    assert bare["spec"]["tolerations"] == [OWN, *DEAD, ENTRY]
    assert msgspec.json.decode(bare["metadata"]["annotations"][COVER]) == [ENTRY]


def test_a_cover_whose_seconds_are_changed_stays_recorded() -> None:
    old = stored(ruled(OWN))
    changed = deepcopy(old)
    limited = changed["spec"]["tolerations"][0] = {**ENTRY, "tolerationSeconds": 9999}
    made = stored(changed, old)
    assert made["spec"]["tolerations"] == [ENTRY, limited, OWN, *DEAD]
    assert msgspec.json.decode(made["metadata"]["annotations"][COVER]) == [limited, ENTRY]


def test_what_was_stored_natively_stays_native() -> None:
    old = plain(GT)
    changed = deepcopy(old)
    changed["metadata"]["labels"] = {"a": "b"}
    assert [each for each in stored(changed, old)["spec"]["tolerations"] if each["operator"] == "Gt"] == [GT]


def test_templates_are_left_unless_asked() -> None:
    item = deployment(plain(GT))
    assert stored(item) == item
    template = stored(item, settings=TEMPLATES)["spec"]["template"]
    assert template["spec"]["tolerations"] == DEAD
    assert template["spec"]["schedulerName"] == "moorage"
    assert "operator: Gt" in template["metadata"]["annotations"][TOLERATIONS]
    daemons = stored(deployment(plain(GT), "DaemonSet"), settings=TEMPLATES)["spec"]["template"]
    assert daemons["spec"]["tolerations"][0] == {"key": SLA, "operator": "Exists"}


def test_a_native_spelling_that_changes_in_a_template_replaces_the_rule() -> None:
    old = stored(deployment(plain(GT)), settings=TEMPLATES)
    for value in ("950", "900"):
        again = deepcopy(old)
        again["spec"]["template"]["spec"]["tolerations"] = [{**GT, "value": value}, *DEAD]
        made = stored(again, old, TEMPLATES)
        text = made["spec"]["template"]["metadata"]["annotations"][TOLERATIONS]
        assert [line for line in text.splitlines() if "value" in line] == [f'  value: "{value}"']
        assert (made == old) is (value == "950")


def test_rules_that_stand_in_both_places_are_refused() -> None:
    item = plain(affinity=affine())
    item["metadata"]["annotations"] = {NODE_AFFINITY: "{}"}
    response = answered(mutate(review(item), HERE))
    assert not response["allowed"]
    place, why = f"metadata.annotations[{NODE_AFFINITY}]", "write all of them in one place"
    assert response["status"]["message"].startswith(f'Pod "a" is invalid: {place}: Invalid value: ')
    assert response["status"]["details"]["causes"][0]["field"] == place
    assert why in response["status"]["message"]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("- {key: a, operator: Gt, value: '0950'}",
         'Pod "a" is invalid: metadata.annotations[moorage.dev/tolerations][0].value: Invalid value: "0950": '
         "must be a valid decimal integer in canonical form"),
        ("- {key: a, operator: Near}", "[0].operator: Unsupported value"),
        ("- key: [", "metadata.annotations[moorage.dev/tolerations]: Invalid value: line 1"),
        ("- {expression: 'foo == 1'}", "undeclared reference to 'foo'"),
    ],
)  # fmt: skip
def test_rules_are_refused_in_kubernetes_words(rules: str, said: str) -> None:
    assert said in refusal(ruled(rules=rules))
    assert said.replace('Pod "a"', 'Deployment.apps "a"').replace("metadata.", "spec.template.metadata.") in refusal(
        deployment(ruled(rules=rules))
    )


def test_an_object_that_was_stored_with_bad_rules_stays_writable() -> None:
    old = ruled(rules="- key: [")
    finalized = {**old, "metadata": {**old["metadata"], "finalizers": ["a/b"]}}
    assert validated(finalized, old)["allowed"]
    leaving = {**finalized, "metadata": {**finalized["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert "patch" not in answered(mutate(review(leaving, finalized), HERE))


def test_rules_that_cannot_be_read_are_refused_in_the_same_words_wherever_that_is_seen() -> None:
    for item in (ruled(rules="- key: ["), deployment(ruled(rules="- key: ["))):
        response = answered(mutate(review(item), TEMPLATES))
        assert response["status"] == validated(item)["status"]


def test_rules_that_are_refused_get_no_cover_which_the_api_server_would_refuse_first() -> None:
    bad = ruled(rules="- {key: 'a b', operator: Exists, effect: NoExecute}")
    assert stored(bad)["spec"]["tolerations"] == bad["spec"]["tolerations"]
    assert "[moorage.dev/tolerations][0].key" in refusal(bad)
    more = deepcopy(bad)
    more["spec"]["tolerations"].append({"key": "b", "operator": "Exists"})
    assert stored(more, bad)["spec"]["tolerations"] == more["spec"]["tolerations"]
    assert validated(more, bad)["allowed"]


def test_rules_of_a_pod_are_only_added_to() -> None:
    said = "existing toleration can not be modified except its tolerationSeconds"
    for rules in (f"- {{key: {SLA}, operator: Gt, value: '900', effect: NoExecute}}", None):
        assert said in refusal(ruled(rules=rules), ruled())
    more = f"{ruled()['metadata']['annotations'][TOLERATIONS]}\n- {{key: b, operator: Exists}}"
    assert validated(ruled(rules=more), ruled())["allowed"]
    moved = ruled()
    moved["metadata"]["annotations"][NODE_AFFINITY] = msgspec.json.encode(affine()["nodeAffinity"]).decode()
    assert "pod updates may not change this field" in refusal(moved, ruled())


def test_advice_comes_as_warnings() -> None:
    trap = f"- {{key: {SLA}, operator: Gt, value: '950', effect: NoExecute, tolerationSeconds: 300}}"
    (warning,) = validated(stored(ruled(rules=trap)))["warnings"]
    assert warning.startswith("metadata.annotations[moorage.dev/tolerations][0].tolerationSeconds: ")


def test_many_tolerations_get_no_advice_because_every_pair_would_be_compared() -> None:
    def advised(count: int) -> Data:
        return validated(stored(ruled(rules="- {key: a, operator: Gt, value: '5'}\n" * count)))

    assert advised(2)["warnings"]
    assert advised(800) == {"uid": "u", "allowed": True}


@pytest.mark.parametrize("body", [b"", b"{}", b"[" * 100_000, b'{"request": {"object": {"kind": "Pod"}}}', b"\xff"])
def test_other_bodies_are_no_reviews(body: bytes) -> None:
    for answer in (mutate, validate):
        with pytest.raises(ReviewError):
            answer(body, HERE)


ENVIRONMENT = kubernetes({"object": DYN, "oldObject": DYN})


def sends(conditions: list[Data], item: Data, old: Data | None = None) -> bool:
    answers = [ENVIRONMENT.compile(each["expression"]).evaluate(item, old) for each in conditions]
    assert all(isinstance(each, bool) for each in answers)
    return all(answers)


def preferring() -> Data:
    weighed = [{"weight": 1, "preference": {"matchExpressions": [VERSIONS]}}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighed}}


def test_only_objects_with_rules_are_sent() -> None:
    bare: Data = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}
    native = {"matchExpressions": [{"key": "cpu", "operator": "Gt", "values": ["4"]}, {"key": "a"}]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [native, {}]}}
    others = (
        bare,
        {"kind": "Pod", "metadata": {}, "spec": {}},
        plain(OWN, {"operator": "Exists"}, {"key": "a", "value": "b"}, {}),
        plain(affinity={"nodeAffinity": terms}),
        plain(affinity={"podAffinity": {}}),
        plain(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}),
        {**plain(), "metadata": {"name": "a", "annotations": {"example.com/tolerations": "x"}}},
    )
    ruled_ones = (
        ruled(),
        plain(GT),
        plain(WILD),
        plain(affinity=affine()),
        plain(affinity=preferring()),
        stored(ruled()),
    )
    for holder in ("object", "object.spec.template", "object.spec.jobTemplate.spec.template", "object.template"):
        conditions = pods_conditions(holder)

        def inside(item: Data, steps: str = holder) -> Data:
            for step in reversed(steps.split(".")[1:]):
                item = {"metadata": {}, step: item}
            return item

        assert [sends(conditions, inside(each)) for each in others] == [False] * len(others)
        assert [sends(conditions, inside(each), inside(bare)) for each in others] == [False] * len(others)
        assert [sends(conditions, inside(each)) for each in ruled_ones] == [True] * len(ruled_ones)
        assert sends(conditions, inside(bare), inside(ruled()))
        # What has nothing to do with rules is written also while nobody answers.
        assert [sends(conditions, inside(each), inside(each)) for each in ruled_ones] == [False] * len(ruled_ones)
        assert sends(conditions, inside(plain(GT)), inside(stored(plain(GT))))
    for conditions, name in ((volumes_conditions(), NODE_AFFINITY), (claims_conditions(), DEVICE_TOLERATIONS)):
        annotated = {"metadata": {"annotations": {name: "x"}}}
        assert not sends(conditions, bare)
        assert sends(conditions, annotated)
        assert sends(conditions, bare, annotated)
        assert not sends(conditions, annotated, annotated)
    leaving = {**ruled(), "metadata": {**ruled()["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert not sends(pods_conditions(), leaving, plain())


def within(labels: Data, annotations: Data | None = None) -> Object:
    return Object(metadata=ObjectMeta(name="here", labels=labels, annotations=annotations or {}))


def test_a_namespace_limits_the_rules_that_are_written_in_it() -> None:
    told = WebhookSettings(rule_namespaces=parse("rules=yes"))
    claim: Data = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    claim["metadata"] = {"name": "a", "annotations": {DEVICE_TOLERATIONS: "[{operator: Exists}]"}}
    for item, what in (
        (ruled(), "pods"),
        (deployment(ruled()), "deployments.apps"),
        (claim, "resourceclaims.resource"),
    ):
        assert answered(validate(review(item), told, within({"rules": "yes"})))["allowed"]
        refused = answered(validate(review(item), told, within({})))
        assert refused["status"]["reason"] == "Forbidden"
        assert refused["status"]["message"].startswith(what)
        assert "rules in annotations are not allowed in namespace here" in refused["status"]["message"]
        assert answered(validate(review(item, item), told, within({})))["allowed"], "what is stored stays writable"
    assert answered(validate(review(plain(), ruled()), told, within({})))["allowed"] is False, "rules are only added to"
    narrow = '[{"key": "example.com/sla", "operator": "Gt", "value": "960"}]'
    refused = answered(validate(review(ruled()), HERE, within({}, {WHITELIST: narrow})))
    assert "rules conflict with the whitelist of namespace here" in refused["status"]["message"]
