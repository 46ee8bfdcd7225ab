"""Answers about the cluster that the page shows, by the scheduler that follows it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from moorage.api.decode import DecodeError, convert
from moorage.api.manifests import ManifestError
from moorage.api.meta import Data, Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.rules import RulesError
from moorage.client import ApiError
from moorage.features import Gates
from moorage.page.accepted import accepted
from moorage.page.clustermap import ClusterMap
from moorage.page.decided import decided
from moorage.page.rules import WrittenRules, checked, error_data, rules_of, text_of, with_rules
from moorage.page.saving import CannotSave, Saving
from moorage.page.target import RulesTarget, owners_of, target_of, template_of
from moorage.page.vocabulary import vocabulary
from moorage.scheduler.asking import Asking
from moorage.scheduler.config import Configuration
from moorage.scheduler.scheduler import Scheduler
from moorage.tools.answers import why_data
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.tools.convert import pods_of, to_native
from moorage.tools.why import Explainer
from moorage.validation.update import pod_update_errors


class PageSubject(NamedTuple):
    """What is asked about: a pod, or the template of a workload."""

    pod: Pod | None
    target: RulesTarget
    """Where changes of its rules last."""


class Unanswerable(Exception):
    """One sentence that says why there is no answer."""


class PageAnswers:
    """Answers while the cluster goes on: the scheduler's table is kept up to date by its informers."""

    def __init__(self, scheduler: Scheduler, placement: ClusterMap) -> None:
        self._placement = placement
        self._gates = scheduler.handle.gates
        self._client = scheduler.client
        self._pods = scheduler.handle.informers.of(Pod)
        self._nodes = scheduler.handle.informers.of(Node)
        self._asking = Asking(self._gates, Configuration(), scheduler=scheduler)
        self._saving = Saving(self._client)

    async def why(self, name: str) -> Data | None:
        """What `moorage why` says of a pod or template, and the plugins that were asked; None when there is none."""
        pod = self._pod(name)
        if pod is not None:
            owners, _ = await owners_of(self._client, pod)
            return self._explained(pod, [owner.typed() for owner in owners])
        subject = await self._subject(name)
        return None if subject is None else self._explained(subject.target.typed(), ())

    async def rules(self, name: str) -> Data | None:
        """The rules of a pod or template as YAML, and where a change of them would go."""
        subject = await self._subject(name)
        if subject is None:
            return None
        target = subject.target
        where = {"target": target.name, "obstacle": target.obstacle, "consequence": target.consequence}
        return {"text": text_of(_rules(target)), **where}

    async def tried(self, name: str, text: str) -> Data | None:
        """What `why` would say if the pods had these rules instead, or what is wrong with them."""
        subject = await self._subject(name)
        if subject is None:
            return None
        try:
            written, errors, expressions = await asyncio.to_thread(_read, text, self._gates)
        except ManifestError as error:
            return {"errors": [error_data(error.message, error.line)], "expressions": []}
        if errors:
            return {"errors": errors, "expressions": expressions}
        try:
            answer, immutable = await self._with(subject, written.rules)
        except (RulesError, DecodeError) as error:
            raise Unanswerable(str(error)) from None
        return {"errors": [], "expressions": expressions, "immutable": immutable, **answer}

    async def decided(self, name: str, node_name: str, text: str) -> Data | None:
        """What decided about a node: the parts of expressions, and what plugins that accept it have found there.

        Of the rules that there are, or of a text.
        """
        node = self._nodes.get("", node_name)
        subject = await self._subject(name)
        if subject is None or node is None:
            return None
        try:
            written = WrittenRules(text or text_of(_rules(subject.target)))
            pod = _changed(subject, written.rules)
        except (ManifestError, RulesError, DecodeError):
            return {"parts": [], "accepted": {}}
        parts = await asyncio.to_thread(decided, written, node)
        room = self._placement.room(node_name)
        return {"parts": parts, "accepted": await asyncio.to_thread(accepted, pod, node, room, self._gates)}

    async def saved(self, name: str, text: str, digest: str) -> Data | None:
        """What saving rules would change; with the digest of what was seen, they are saved. Raises CannotSave."""
        subject = await self._subject(name)
        if subject is None:
            return None
        try:
            written, errors, _ = await asyncio.to_thread(_read, text, self._gates)
        except ManifestError as error:
            raise CannotSave(error.message) from None
        if errors:
            raise CannotSave(errors[0]["message"])
        if not digest:
            return {**(await self._saving.plan(subject.target, written.rules)).data(), "saved": False}
        plan, done = await self._saving.save(subject.target, written.rules, digest)
        return {**plan.data(), "saved": done}

    def vocabulary(self) -> Data:
        """What can be written into rules."""
        return vocabulary(self._gates)

    def _pod(self, name: str) -> Pod | None:
        namespace, _, own = name.partition("/")
        return self._pods.get(namespace, own)

    async def _subject(self, name: str) -> PageSubject | None:
        pod = self._pod(name)
        try:
            target = await (template_of(self._client, name) if pod is None else target_of(self._client, pod))
            if target is None:
                return None
            target.typed()
        except (ApiError, DecodeError) as error:
            raise Unanswerable(str(error)) from None
        return PageSubject(pod, target)

    async def _with(self, subject: PageSubject, rules: Data) -> tuple[Data, list[str]]:
        """The answer for other rules, and what of them an object that exists cannot get."""
        target = subject.target
        if subject.pod is None:
            return self._explained(target.typed(target.changed(rules)), ()), []
        changed, now = _changed(subject, rules), convert(to_native(_data(subject.pod)), Pod)
        immutable = pod_update_errors("spec", changed.spec, now.spec) if target.kind.kind == "Pod" else ()
        owners, _ = await owners_of(self._client, subject.pod)
        return self._explained(changed, [owner.typed() for owner in owners]), [str(each) for each in immutable]

    def _explained(self, item: Object, owners: Sequence[Object]) -> Data:
        asked = ClusterObject(item)
        cluster = Cluster([asked, *map(ClusterObject, owners)], is_complete=True)
        with self._placement.asking():
            explainer = Explainer(cluster, self._gates, items=[asked], exact=True, asking=self._asking)
            explanation = next(explainer.explain_all())
        runner = self._asking.scheduler.runners[explanation.answer.profile]
        return {**why_data(explanation), "plugins": [plugin.name for plugin in runner.profile.filters]}


def _read(text: str, gates: Gates) -> tuple[WrittenRules, list[Data], list[Data]]:
    """Rules, what is wrong with them, and what is known of their expressions. Raises ManifestError."""
    written = WrittenRules(text)
    expressions = [{**each._asdict(), **checked(each.env, each.source)} for each in written.expressions()]
    return written, written.errors(gates), expressions


def _rules(target: RulesTarget) -> Data:
    try:
        return target.rules()
    except (RulesError, DecodeError) as error:
        raise Unanswerable(str(error)) from None


def _changed(subject: PageSubject, rules: Data) -> Pod:
    """The pod, or one of the template, with other rules. Raises RulesError and DecodeError."""
    target = subject.target
    if subject.pod is None:
        return convert({"spec": next(pods_of(target.changed(rules)))["spec"]}, Pod)
    pod: Data = to_native(_data(subject.pod))
    is_own = target.kind.kind == "Pod"
    tried = rules if is_own else _made_from(rules_of(pod["spec"]), _canonical(_rules(target)), rules)
    return convert({**pod, "spec": with_rules(pod["spec"], tried)}, Pod)


def _data(pod: Pod) -> Data:
    data: Any = msgspec.to_builtins(pod)
    return {**data, "apiVersion": "v1", "kind": "Pod"}


def _canonical(rules: Data) -> Data:
    spec = _data(convert({"spec": rules}, Pod)).get("spec") or {}
    return rules_of(spec)


def _made_from(now: Data, template: Data, rules: Data) -> Data:
    """The rules of a pod of another template: what was added to those of the present one is added to it too."""
    known = template.get("tolerations") or []
    added = [each for each in now.get("tolerations") or () if each not in known]
    selects = template.get("nodeSelector") or {}
    more = {key: value for key, value in (now.get("nodeSelector") or {}).items() if selects.get(key) != value}
    return {
        **rules,
        "tolerations": [*(rules.get("tolerations") or ()), *added],
        "nodeSelector": {**more, **(rules.get("nodeSelector") or {})},
    }
