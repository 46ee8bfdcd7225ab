"""How alike Moorage's API server and Kubernetes' own judge objects: thousands with mistakes, as dry runs to both.

KUBE_APISERVER=/path/to/kube-apiserver python bench/differential.py [--count 3000] [--seed 1] [--kind Pod]
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import ssl
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from moorage.api.kinds import find
from moorage.registry.schema import field_table
from mutations import GONE, Change, changed, draw
from serving import Serving, serving
from upstream import kubernetes

Data = dict[str, Any]
GATES = "TaintTolerationComparisonOperators=true"
OBJECTS = Path(__file__).with_suffix(".yaml")
JSON, MERGE = "application/json", "application/merge-patch+json"
DRY = "?dryRun=All"
RESPELT = re.compile(r"^(?:metadata\.)?(taints|nodeAffinity)\b")
"""Fields that Kubernetes names wrongly, and Moorage does not."""
PANIC = 599
"""Stands for no answer: Kubernetes' handlers panic over some objects."""
KEY = re.compile(r"\[[^]]*\]")


class Outcome(NamedTuple):
    """What a server says about an object."""

    code: int
    reason: str
    causes: frozenset[tuple[str, str]]
    message: str

    @property
    def same(self) -> tuple[int, str, frozenset[tuple[str, str]]]:
        """What must be alike."""
        return self.code, self.reason, self.causes


class Server:
    """An API server, asked as its administrator."""

    def __init__(self, name: str, serving: Serving) -> None:
        self.name = name
        self._trust = ssl.create_default_context(cafile=serving.authority)
        self._trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._address = urlsplit(serving.url).netloc
        self._headers = {"Authorization": f"Bearer {serving.token}"}
        self._connection = self._connected()

    def _connected(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._address, context=self._trust, timeout=60)

    def ask(
        self, method: str, path: str, body: Data | None = None, media: str = "application/json"
    ) -> tuple[int, Data]:
        data = None if body is None else json.dumps(body, separators=(",", ":"))
        headers = {**self._headers, "Content-Type": media}
        try:
            self._connection.request(method, path, data, headers)
            answer = self._connection.getresponse()
        except http.client.RemoteDisconnected:
            self._connection = self._connected()
            return PANIC, {}
        return answer.status, json.loads(answer.read())

    def judge(self, method: str, path: str, body: Data, media: str = JSON) -> Outcome:
        code, answer = self.ask(method, path + DRY, body, media)
        if code < 300:
            return Outcome(code, "", frozenset(), "")
        causes = answer.get("details", {}).get("causes", [])
        told = frozenset((RESPELT.sub(r"spec.\1", each.get("field", "")), each.get("reason", "")) for each in causes)
        return Outcome(code, answer.get("reason", ""), told, answer.get("message", ""))


@dataclass
class Tally:
    """What came out of one way of writing."""

    asked: int = 0
    same: int = 0
    alike: int = 0
    worded: int = 0
    refused: int = 0
    differing: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, changes: list[Change], theirs: Outcome, ours: Outcome) -> None:
        if theirs.code == PANIC:
            return
        self.asked += 1
        self.refused += theirs.code >= 300
        self.alike += (theirs.code < 300) == (ours.code < 300)
        self.worded += theirs == ours
        if theirs.same == ours.same:
            self.same += 1
            return
        group = f"{kind}: {described(theirs, ours)}"
        self.differing[group] += 1
        self.examples[group].append(
            f"{'; '.join(map(str, changes))}\n      Kubernetes: {theirs.code} {theirs.message[:600]}\n"
            f"      Moorage:    {ours.code} {ours.message[:600]}"
        )

    def told(self, name: str, examples: int) -> Iterator[str]:
        yield (
            f"{name}: {self.asked} asked, {self.refused} refused by Kubernetes; "
            f"{self.same / self.asked:.2%} the same to the field and reason, "
            f"{self.alike / self.asked:.2%} taken or refused alike, {self.worded / self.asked:.2%} in the same words"
        )
        for group, count in self.differing.most_common():
            yield f"  {count:4} {group}"
            yield from (f"    - {text}" for text in self.examples[group][:examples])


def described(theirs: Outcome, ours: Outcome) -> str:
    """A difference without what is special to one object: indices and keys."""
    lines = [f"{theirs.code} → {ours.code}"] if theirs.code != ours.code else []
    lines += [f"lacks {each}" for each in plain(theirs.causes - ours.causes)]
    lines += [f"adds {each}" for each in plain(ours.causes - theirs.causes)]
    return ", ".join(lines) or f"{theirs.reason} → {ours.reason}"


def plain(causes: frozenset[tuple[str, str]]) -> list[str]:
    return sorted({f"{KEY.sub('[]', path)} {reason.removeprefix('FieldValue')}" for path, reason in causes})


def collection(obj: Data) -> str:
    kind = find(obj["apiVersion"], obj["kind"])
    assert kind is not None
    base = f"/apis/{obj['apiVersion']}" if kind.group else f"/api/{obj['apiVersion']}"
    return f"{base}/namespaces/default/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"


def code_of(obj: Data) -> str:
    """The type of an object in the table of fields."""
    kind = find(obj["apiVersion"], obj["kind"])
    assert kind is not None
    code: str = field_table()["kinds"][f"{kind.group}/{kind.kind}"]
    return code


def merge_patch(old: Any, new: Any) -> Any:
    """The merge patch from one object to another."""
    patch = {name: None for name in old if name not in new}
    for name, value in new.items():
        if name not in old:
            patch[name] = value
        elif isinstance(value, dict) and isinstance(old[name], dict):
            if inner := merge_patch(old[name], value):
                patch[name] = inner
        elif value != old[name]:
            patch[name] = value
    return patch


def translated(changes: list[Change], theirs: Data, ours: Data) -> list[Change]:
    """Changes with what each server gives an object itself: its identity and its address."""
    pairs = [(part[0].get(part[2], ""), part[1].get(part[2], "")) for part in (
        (theirs["metadata"], ours["metadata"], "uid"),
        (theirs.get("spec", {}), ours.get("spec", {}), "clusterIP"),
    )]  # fmt: skip
    found = []
    for change in changes:
        text = "" if change.value is GONE else json.dumps(change.value)
        for old, new in pairs:
            text = text.replace(old, new) if old and new != "None" else text
        found.append(change if change.value is GONE else Change(change.path, json.loads(text)))
    return found


class Comparison:
    """Both servers, and what they said."""

    def __init__(self, theirs: Server, ours: Server, objects: list[Data]) -> None:
        self.servers = (theirs, ours)
        self.objects = objects
        self.tallies = {name: Tally() for name in ("creates", "PUTs", "merge patches")}

    def store(self) -> None:
        """Store every object on both servers; what one of them does not take is a mistake of the file."""
        for server in self.servers:
            for obj in self.objects:
                code, answer = server.ask("POST", collection(obj), obj)
                assert code == 201, f"{server.name}: {obj['kind']} {obj['metadata']['name']}: {code} {answer}"

    def run(self, random: Random, count: int) -> None:
        """Draw changes for each object in turn, and ask all three questions."""
        for number in range(count):
            obj = self.objects[number % len(self.objects)]
            self._create(obj, draw(random, code_of(obj), obj))
            self._update(random, obj)

    def _create(self, obj: Data, changes: list[Change]) -> None:
        fresh = {**obj, "metadata": {**obj["metadata"], "name": f"{obj['metadata']['name']}-new"}}
        body = changed(fresh, changes)
        self.tallies["creates"].add(
            obj["kind"], changes, *(server.judge("POST", collection(obj), body) for server in self.servers)
        )

    def _update(self, random: Random, obj: Data) -> None:
        path = f"{collection(obj)}/{obj['metadata']['name']}"
        stored = [server.ask("GET", path)[1] for server in self.servers]
        for name in ("PUTs", "merge patches"):
            changes = draw(random, code_of(obj), stored[0])
            outcomes = []
            for server, old in zip(self.servers, stored, strict=True):
                new = changed(old, translated(changes, stored[0], old))
                if name == "PUTs":
                    outcomes.append(server.judge("PUT", path, new))
                else:
                    outcomes.append(server.judge("PATCH", path, merge_patch(old, new), MERGE))
            self.tallies[name].add(obj["kind"], changes, *outcomes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", default="")
    parser.add_argument("--examples", type=int, default=1)
    options = parser.parse_args()
    objects = [obj for obj in yaml.safe_load(OBJECTS.read_text()) if options.kind in ("", obj["kind"])]
    gates = f"{GATES},DRADeviceTaintRules=true"
    with kubernetes(gates) as theirs, serving("apiserver", gates=GATES) as ours:
        comparison = Comparison(Server("Kubernetes", theirs), Server("Moorage", ours), objects)
        comparison.store()
        comparison.run(Random(options.seed), options.count)
        for name, tally in comparison.tallies.items():
            print("\n".join(tally.told(name, options.examples)))


if __name__ == "__main__":
    main()
