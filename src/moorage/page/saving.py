"""Saves rules to where they last, by server-side apply with the rights of whoever serves the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from hashlib import sha256
from typing import Any

import msgspec

from moorage.api.decode import DecodeError, convert
from moorage.api.meaning import cover_places
from moorage.api.meta import Data
from moorage.api.pod import Pod, Toleration
from moorage.api.rules import COVER, NODE_AFFINITY, TOLERATIONS, RulesError, rules_of
from moorage.api.yamlwriting import write
from moorage.client import ApiError, Client, Conflict
from moorage.features import NONE_ON, Gates
from moorage.page.rules import RULES
from moorage.page.target import RulesTarget
from moorage.scheduler.profile import ATTACHED_NAME
from moorage.tools.convert import SCHEDULER_NAME, all_to_annotations, pods_of
from moorage.tools.live import LiveReader
from moorage.validation.gates import gates_needed

MANAGER = "moorage-page"
_PARTS = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")
_AFFINITIES = ("nodeAffinity", "podAffinity", "podAntiAffinity")
RulePath = tuple[str, ...]
_LEAVES: tuple[RulePath, ...] = (
    *(("metadata", "annotations", name) for name in (TOLERATIONS, NODE_AFFINITY, COVER, SCHEDULER_NAME)),
    ("spec", "schedulerName"),
    ("spec", "nodeSelector"),
    *(("spec", "affinity", kind, part) for kind in _AFFINITIES for part in _PARTS),
    ("spec", "tolerations"),
    ("spec", "topologySpreadConstraints"),
)
"""What a save may write, each owned as a whole by its managers (of constraints, each one)."""
_EMPTY = {TOLERATIONS: "[]", NODE_AFFINITY: "{}", COVER: "[]"}
"""Rules that say nothing: what nobody else owns vanishes when it is not applied any more, what others own stays."""
_CONFLICT = re.compile(r'conflict with "([^"]*)"')
_SHOWN_MAX = 10
_CONTEXT = 3
_ATTEMPTS = 8
"""Controllers may write the status of the object at any time, which is no reason to ask somebody to look again."""


class CannotSave(Exception):
    """One sentence that says why."""


@dataclass(slots=True)
class SavePlan:
    """What a save would change, as the API server said to a dry run."""

    target: RulesTarget
    intent: Data
    """What is applied."""
    in_annotations: bool
    diff: list[str] = field(default_factory=list)
    """Lines of YAML that begin with a space, + or -: only rules, never what else is in the object."""
    conflicts: list[Data] = field(default_factory=list)
    """Managers, and which of their fields would be taken from them."""
    also: list[str] = field(default_factory=list)
    """Other fields that would change."""
    stays: list[str] = field(default_factory=list)
    """What was taken out of the rules and would stay all the same."""

    @property
    def digest(self) -> str:
        """Stands for what somebody has seen and agreed to."""
        seen = [self.target.name, self.target.data["metadata"]["uid"], self.diff, self.conflicts, self.also, self.stays]
        return sha256(msgspec.json.encode(seen)).hexdigest()

    def data(self) -> Data:
        """What the page shows of it."""
        return {
            "target": self.target.name, "consequence": self.target.consequence, "inAnnotations": self.in_annotations,
            "diff": self.diff, "conflicts": self.conflicts, "also": self.also, "stays": self.stays,
            "digest": self.digest,
        }  # fmt: skip


class Saving:
    """Plans saves and makes them. Raises CannotSave."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._taken: Gates | None = None
        """The gates of the API server: what it does not take goes into annotations."""

    async def plan(self, target: RulesTarget, rules: Data) -> SavePlan:
        """What saving these rules would change; nothing is changed."""
        if target.obstacle:
            raise CannotSave(target.obstacle)
        for _ in range(_ATTEMPTS):
            try:
                wanted, in_annotations = await self._wanted(target, rules)
                plan = SavePlan(target, _intent(target, wanted), in_annotations)
                await self._try(plan, wanted)
            except Conflict:  # it has changed since it was read, and what others did is no part of this change
                target = await self._again(target)
            except (ApiError, RulesError, DecodeError) as error:
                raise CannotSave(_sentence(error)) from None
            else:
                return plan
        raise _restless(target)

    async def save(self, target: RulesTarget, rules: Data, digest: str) -> tuple[SavePlan, bool]:
        """Save what somebody has seen and agreed to: the plan, and whether it was done.

        It is not when the object, or what the server makes of it, is another one by now.
        """
        for _ in range(_ATTEMPTS):
            plan = await self.plan(target, rules)
            if plan.digest != digest:
                return plan, False
            try:
                await self._apply(plan, force=bool(plan.conflicts))
            except Conflict:
                target = await self._again(target)
            except ApiError as error:
                raise CannotSave(_sentence(error)) from None
            else:
                return plan, True
        raise _restless(target)

    async def _again(self, target: RulesTarget) -> RulesTarget:
        metadata = target.data["metadata"]
        try:
            raw = await self._client.get(target.kind, metadata.get("namespace", ""), metadata["name"])
        except ApiError as error:
            raise CannotSave(str(error)) from None
        return RulesTarget(target.kind, msgspec.json.decode(raw))

    async def _wanted(self, target: RulesTarget, rules: Data) -> tuple[Data, bool]:
        """The object as it should be, and whether rules of it stand in annotations."""
        if self._taken is None:
            self._taken = await LiveReader(self._client).gates() or NONE_ON
        native = target.changed(rules)
        holder = next(pods_of(native))
        needed = gates_needed(convert({"spec": holder["spec"]}, Pod))
        if all(map(self._taken.enabled, needed)):
            return native, False
        attached = all_to_annotations([native], ATTACHED_NAME)[0]
        _keep_cover(target, next(pods_of(attached)))
        return attached, True

    async def _try(self, plan: SavePlan, wanted: Data) -> None:
        target = plan.target
        try:
            answer = await self._apply(plan, dry_run=True)
        except Conflict as conflict:
            if not conflict.causes:
                raise
            plan.conflicts = [_conflict_data(cause.message, cause.field) for cause in conflict.causes]
            answer = await self._apply(plan, dry_run=True, force=True)
        result: Data = msgspec.json.decode(answer)
        before, after = target.holder, RulesTarget(target.kind, result).holder
        plan.diff = _diff(target, before, after)
        plan.also = list(_others(target, result))[:_SHOWN_MAX]
        plan.stays = list(_left(next(pods_of(wanted)), after))

    async def _apply(self, plan: SavePlan, *, dry_run: bool = False, force: bool = False) -> bytes:
        """Apply to the object as it was read. Raises Conflict, without causes when it is another one by now."""
        seen = {"resourceVersion": plan.target.data["metadata"]["resourceVersion"]}
        intent = {**plan.intent, "metadata": {**plan.intent["metadata"], **seen}}
        return await self._client.apply(plan.target.kind, intent, MANAGER, dry_run=dry_run, force=force)


def _restless(target: RulesTarget) -> CannotSave:
    return CannotSave(f"{target.name} changes all the time: try again")


def _sentence(error: Exception) -> str:
    """What an error says without the difference that API servers add: the environment of containers may be in it."""
    return str(error).partition("\n@@")[0]


def _intent(target: RulesTarget, wanted: Data) -> Data:
    """What is applied: the leaves that change, and those applied here before, which would vanish otherwise."""
    metadata = target.data["metadata"]
    intent: Data = {"metadata": {name: metadata[name] for name in ("name", "namespace", "uid") if name in metadata}}
    steps = tuple(target.kind.pod_spec.split(".")[:-1])
    before, after = target.holder, next(pods_of(wanted))
    for leaf in _LEAVES:
        old, new, path = _at(before, leaf), _at(after, leaf), (*steps, *leaf)
        ours, others = _owners(target.data, path)
        if new is None and old is not None and others:
            new = _EMPTY.get(leaf[-1], new)
        if (old != new and (new is not None or others)) or (new is not None and ours):
            _set(intent, path, new)
    return intent


def _at(data: Data, path: RulePath) -> Any:
    """What is at a path; None when nothing is, or nothing but an empty map or list."""
    value: Any = data
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value or None


def _set(data: Data, path: RulePath, value: Any) -> None:
    for name in path[:-1]:
        data = data.setdefault(name, {})
    data[path[-1]] = value


def _owners(data: Data, path: RulePath) -> tuple[bool, bool]:
    """Whether a field was applied here before, and whether anybody else owns it too."""
    ours = others = False
    for entry in data["metadata"].get("managedFields") or ():
        fields: Any = entry.get("fieldsV1") or {}
        for name in path:
            fields = fields.get(f"f:{name}") if isinstance(fields, dict) else None
        if fields is not None:
            is_ours = (entry.get("manager"), entry.get("operation")) == (MANAGER, "Apply")
            ours, others = ours or is_ours, others or not is_ours
    return ours, others


def _keep_cover(target: RulesTarget, holder: Data) -> None:
    """A pod keeps the tolerations that were added only so that nobody else evicts what its rules allow."""
    if target.kind.kind != "Pod" or (rules := rules_of(target.holder["metadata"].get("annotations") or {})) is None:
        return
    listed = target.holder["spec"].get("tolerations") or []
    places = cover_places(convert(listed, tuple[Toleration, ...]), rules)
    if places:
        own = holder["spec"].get("tolerations") or []
        holder["spec"]["tolerations"] = [*(listed[at] for at in sorted(places)), *own]
        holder["metadata"]["annotations"][COVER] = target.holder["metadata"]["annotations"][COVER]


def _conflict_data(message: str, path: str) -> Data:
    found = _CONFLICT.match(message)
    return {"manager": found[1] if found else message, "field": path}


def _diff(target: RulesTarget, before: Data, after: Data) -> list[str]:
    leaves = [leaf for leaf in _LEAVES if leaf[-1] in RULES or _at(before, leaf) != _at(after, leaf)]
    old, new = (_lines(_shown(target, each, leaves)) for each in (before, after))
    lines = list(unified_diff(old, new, lineterm="", n=_CONTEXT))[2:]
    return [line for line in lines if not line.startswith("@@")]


def _shown(target: RulesTarget, holder: Data, leaves: Iterable[RulePath]) -> Data:
    """Only what a save may write, where it stands."""
    inner: Data = {}
    for leaf in leaves:
        if (value := _at(holder, leaf)) is not None:
            _set(inner, leaf, value)
    inner.setdefault("spec", {})
    for step in reversed(target.kind.pod_spec.split(".")[:-1]):
        inner = {step: inner}
    return inner


def _lines(shown: Data) -> list[str]:
    """As YAML; a specification without rules is not empty, only the rest of it is not shown."""
    return [line.removesuffix(" {}") for line in write([shown]).splitlines()]


def _others(target: RulesTarget, result: Data) -> Iterator[str]:
    """The paths of what else would change, in words that hold no value."""
    steps = target.kind.pod_spec.split(".")[:-1]
    written = {".".join((*steps, *leaf)) for leaf in _LEAVES}
    # Controllers write metadata and status at any time: that is not of this change.
    for path in _differing("spec", target.data.get("spec"), result.get("spec")):
        if not any(path == leaf or path.startswith(f"{leaf}.") for leaf in written):
            yield path


def _differing(path: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) or isinstance(new, dict):
        before, after = (each if isinstance(each, dict) else {} for each in (old, new))
        for name in sorted({*before, *after}):
            at = f"{path}.{name}".removeprefix(".")
            yield from _differing(at, before.get(name), after.get(name))
    elif old != new and (old or new):
        yield path


def _left(wanted: Data, after: Data) -> Iterator[str]:
    """Constraints that were taken out and stay: server-side apply removes only what nobody else owns."""
    path = ("spec", "topologySpreadConstraints")
    kept = [_identity(each) for each in _at(wanted, path) or ()]
    for each in _at(after, path) or ():
        if _identity(each) not in kept:
            yield f"the constraint for {each.get('topologyKey')} stays: another manager owns it, and must remove it"


def _identity(constraint: Data) -> Sequence[Any]:
    return constraint.get("topologyKey"), constraint.get("whenUnsatisfiable")
