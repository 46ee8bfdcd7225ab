"""The small languages that fields and parameters are written in, drawn at random: valid, at the edge, and broken."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from mutations import KEYS, TEXTS, WORDS

LONG = 3_000
STRANGE = (
    "", " ", "\x00", "\x7f", "\ufeff", "\u2028", "é", "ß", "İ", "١", "²", "\U0001f600", "\U0010ffff", "a\u0301",
    "a" * 63, "a" * 64, "a" * 253, "a" * 254, "-", ".", "..", "/", "//", "%", "%00", "%zz", "+", "~1", "~", "~2", "\\",
    '"', "'", "`", "$", "${x}", "{{.}}", "null", "NaN", "-0", "1e400", "0x10", "1_000", "__proto__", "__class__",
)  # fmt: skip
EDGES: tuple[Any, ...] = (
    0, -0.0, 1, -1, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 1.5,
    1e308, 5e-324, True, None, "", [], {}, [[]], [None], {"": None},
)  # fmt: skip
LABELS = ("app", "zone", "a", "example.com/sla", "kubernetes.io/hostname", "tier", "node-role.kubernetes.io/x")


def word(random: Random) -> str:
    """Some text: a usual one, or one that is likely to be read wrongly."""
    if random.random() < 0.02:
        return random.choice(STRANGE[1:]) * random.randrange(LONG)
    return random.choice(random.choice((TEXTS, WORDS, KEYS, STRANGE)))


def edge(random: Random) -> Any:
    """A value at the edge of a type, or of one that is not expected."""
    return copy.deepcopy(random.choice(EDGES))


def pick(random: Random, *usual: Any) -> Any:
    """One of the usual values, now and then another."""
    return edge(random) if random.random() < 0.15 else random.choice(usual)


def label_selector(random: Random) -> str:
    """A label selector, some of them broken."""
    forms = (
        "{k}={v}",
        "{k}=={v}",
        "{k}!={v}",
        "{k}",
        "!{k}",
        "{k} in ({v},{w})",
        "{k} notin ({v})",
        "{k}>{n}",
        "{k}<{n}",
    )
    broken = (
        "{k} in",
        "{k} in (",
        "in (a)",
        "{k} notin {v}",
        ",",
        "{k}=,",
        "!{k}={v}",
        "{k} in ()",
        "({v})",
        "{k}!{v}",
    )
    return ",".join(
        _filled(random, forms, broken) for _ in range(random.choices((1, 2, 3, 199, 201), (50, 30, 18, 1, 1))[0])
    )


def field_selector(random: Random) -> str:
    """A field selector, some of them broken."""
    fields = ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase", "type", "involvedObject.name")
    forms = tuple(f"{field}{sign}{{v}}" for field in fields for sign in ("=", "!=", "=="))
    broken = ("{k}={v}", "metadata.name", "metadata.name>{v}", "=", "metadata.name=\\", "metadata.name=a\\,b", ",")
    return ",".join(_filled(random, forms, broken) for _ in range(random.choices((1, 2, 201), (70, 29, 1))[0]))


def _filled(random: Random, forms: tuple[str, ...], broken: tuple[str, ...]) -> str:
    form = random.choice(broken if random.random() < 0.1 else forms)
    key = word(random) if random.random() < 0.1 else random.choice(LABELS)
    values = {"v": word(random), "w": random.choice(TEXTS)} if random.random() < 0.2 else {"v": "x0", "w": "web"}
    return form.format(k=key, n=random.randrange(-5, 2**33), **values)


def quantity(random: Random) -> Any:
    """A quantity: any digits with any suffix."""
    if random.random() < 0.1:
        return random.choice((*EDGES, word(random)))
    digits = random.choice(
        ("0", "1", "100", "1.5", ".5", "5.", "0.0000000001", "9" * 30, "1" + "0" * random.randrange(60))
    )
    suffix = random.choice(
        (
            "",
            "m",
            "u",
            "n",
            "k",
            "M",
            "G",
            "T",
            "P",
            "E",
            "Ki",
            "Mi",
            "Ei",
            "e3",
            "E-3",
            "e999",
            "e-99999999999",
            "i",
            "KiB",
        )
    )
    return random.choice(("", "", "", "-", "+", " ")) + digits + suffix


def schedule(random: Random) -> str:
    """A schedule of a CronJob."""
    if random.random() < 0.2:
        span = random.choice(("1s", "0s", "-1h", "1h30m", "999999h", ".5s", "1e3s", "1", "9" * 400 + "h", "1ns", ""))
        return random.choice(
            (f"@every {span}", "@hourly", "@yearly", "@reboot", "@", f"@every{span}", f"@EVERY {span}")
        )
    fields = " ".join(_cron_field(random) for _ in range(random.choice((5, 5, 5, 5, 5, 4, 6, 0, 60))))
    zone = random.choice(
        ("", "", "", "", "TZ=UTC ", "CRON_TZ=Europe/Berlin ", "TZ=../../etc/passwd ", "TZ= ", "TZ=Nowhere ")
    )
    return zone + fields


def _cron_field(random: Random) -> str:
    number = random.choice(("0", "1", "5", "12", "23", "30", "31", "59", "60", "-1", "jan", "SUN", "7", "l", "9" * 40))
    forms = (
        "*",
        "*",
        "*",
        "?",
        number,
        f"*/{number}",
        f"{number}-{number}",
        f"1-5/{number}",
        f"{number},1",
        "5-1",
        "*/0",
        "",
    )
    return random.choice(forms)


def version(random: Random) -> str:
    """A version, or a constraint on versions."""
    part = random.choice(("1", "0", "01", "x", "*", "9" * 40, "", "-1"))
    text = random.choice(
        (f"1.{part}.3", f"{part}", f"v1.2.{part}", f"1.2.3-{part}.a+b", f"1.{part}", "1.2.3+", "1.2.3-")
    )
    sign = random.choice(("", "", ">=", "<", "~", "^", "!=", "=", "=>", "~>", ">"))
    return f"{sign}{text}" + random.choice(("", "", f" || {sign}{text}", f", <{text}", f" - {text}", " ||", " 1"))


_ATOMS = (
    "true", "false", "null", "1", "-1", "0", "1u", "1.5", "9223372036854775807", "-9223372036854775808", "'a'", "b'a'",
    '"\\u00e9"', "r'\\d'", "[]", "{}", "[1, 2, 3]", "{'a': 1}", "taint", "taint.key", "taint.value", "taint.effect",
    "taint.timeAdded", "node", "node.labels", "node.labels['zone']", "node.name", "device", "device.driver",
    "device.attributes['gpu.example.com']", "device.attributes['a'].b", "device.capacity['a'].b", "self", "x", "1/0",
    "timestamp('2020-01-01T00:00:00Z')", "duration('1h')", "quantity('1Gi')", "semver('1.2.3')", "type(1)",
    "[[[[[]]]]]",
    "9223372036854775808", "1e400", "'\\x'", "'", "(", "ip('10.0.0.1')", "cidr('10.0.0.0/8')", "url('http://a')",
    "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29]",
)  # fmt: skip
_SHAPES = (
    "{a} == {b}", "{a} != {b}", "{a} && {b}", "{a} || {b}", "!{a}", "-{a}", "({a})", "{a} ? {b} : {c}", "{a} in {b}",
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} % {b}", "{a} < {b}", "{a}[{b}]", "[{a}, {b}]",
    "{{{a}: {b}}}", "size({a})", "string({a})", "int({a})", "double({a})", "bytes({a})", "dyn({a})", "has({a})",
    "{a}.startsWith({b})", "{a}.matches({b})", "{a}.contains({b})", "{a}.split({b})", "{a}.all(v, {b})",
    "{a}.exists(v, v == {b})", "{a}.map(v, {b})", "{a}.filter(v, {b})", "{a}.all(k, v, {b})", "{a}.exists_one(v, {b})",
    "semver.compare({a}, {b})", "{a}.replace({b}, {c})", "{a}.orValue({b})", "{a}.?b", "{a}.format([{b}])",
    "cel.bind(v, {a}, {b})", "{a}.substring({b})", "sets.contains({a}, {b})", "math.greatest({a}, {b})",
    "{a}.join({b})",
    "quantity({a}).isGreaterThan({b})", "optional.of({a})", "{a}.reverse()", "{a}.sort()", "{a}.slice({b}, {c})",
)  # fmt: skip


_TRUTHS = (
    "true", "taint.key.startsWith('a')", "taint.effect == 'NoExecute' || taint.value != ''",
    "node.labels['zone'] == 'a'",
    "node.labels.exists(k, k.startsWith('kubernetes.io'))", "node.labels.all(k, node.labels.all(l, k.matches(l)))",
    "semver.compare(node.labels['v'], '>=1.2')", "device.driver == 'gpu.example.com'", "'zone' in node.labels",
    "device.attributes['gpu.example.com'].model == 'a'", "node.labels.map(k, node.labels[k]).all(v, v.size() > 0)",
    "[1, 2, 3].all(a, [1, 2, 3].all(b, a / (b - 2) > 0))", "taint.timeAdded < timestamp('2020-01-01T00:00:00Z')",
)  # fmt: skip


def expression(random: Random, depth: int = 4) -> str:
    """A CEL expression: nested, costly, wrongly typed or no expression at all."""
    if depth == 4 and random.random() < 0.05:
        opened = random.choice(("(", "[", "!", "-", "{1:", "a.", "[1].all(v, ", "1+", "x?x:", "\\"))
        return opened * random.choice((10, 49, 300, LONG)) + "1"
    if depth == 4 and random.random() < 0.4:
        return random.choice((" && ", " || ")).join(random.choices(_TRUTHS, k=random.randrange(1, 4)))
    if depth == 0 or random.random() < 0.3:
        return word(random) if random.random() < 0.02 else random.choice(_ATOMS)
    parts = {name: expression(random, depth - 1) for name in "abc"}
    return random.choice(_SHAPES).format(**parts)[:12_000]


def label_key(random: Random) -> str:
    """The key of a label, a taint or a resource."""
    return random.choice((random.choice(LABELS), word(random), f"{word(random)}/{word(random)}", "example.com/*", "*"))


LANGUAGES: dict[str, Callable[[Random], Any]] = {
    "schedule": schedule,
    "expression": expression,
    "key": label_key,
    "topologyKey": label_key,
    "cpu": quantity,
    "memory": quantity,
    "storage": quantity,
    "pods": quantity,
}
"""What is drawn for a field of a name, in place of another text."""
