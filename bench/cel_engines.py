"""CEL engines for Python side by side: the same cases of the specification, the same expressions."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from math import copysign, isnan
from pathlib import Path
from typing import Any, NamedTuple

from cel_expr_python import cel as google  # type: ignore[import-untyped]
from cel_expr_python.ext import ext_optional, ext_strings  # type: ignore[import-untyped]

from moorage import cel
from moorage.cel.ext import strings
from moorage.cel.stdlib.optionals import OPTIONALS
from moorage.cel.stdlib.standard import TWO_VARIABLE_COMPREHENSIONS
from moorage.cel.values import from_key, to_key, type_name

SPECIFICATION = Path(__file__).parents[2] / "shared" / "cel-spec"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SpecCase = dict[str, Any]
Evaluation = Callable[[], Any]


class TypeName(str):
    """A value of CEL's that is a type."""

    __slots__ = ()


class Failed(NamedTuple):
    """What an expression gives that does not compile or fails."""

    message: str


class Engine(NamedTuple):
    name: str
    answer: Callable[[SpecCase], Any]
    """What a case of the specification gives, as plain Python."""
    compile: Callable[[str, str], Callable[[Any], Evaluation]]
    """An expression over `taint` or `node`, to be evaluated with an input that is converted beforehand."""


def cases() -> Iterator[SpecCase]:
    for file in sorted(SPECIFICATION.glob("*.jsonl")):
        yield from map(json.loads, file.read_text().splitlines())


def passed(engine: Engine) -> int:
    return sum(passes(engine, case) for case in cases())


def passes(engine: Engine, case: SpecCase) -> bool:
    try:
        answer = engine.answer(case)
    except Exception as error:  # noqa: BLE001 - engines raise what they like
        answer = Failed(str(error))
    if "error" in case["want"]:
        return isinstance(answer, Failed)
    return same(plain(case["want"]["value"]), answer)


def same(one: Any, other: Any) -> bool:
    """Equality that tells 1 from 1.0 and true, but not 1 from 1u, which not every engine does outside."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float):
        return (isnan(one) and isnan(other)) or (one == other and copysign(1, one) == copysign(1, other))
    return bool(one == other)


def moment(parts: list[int]) -> datetime:
    return EPOCH + span(parts)


def span(parts: list[int]) -> timedelta:
    """Python has no nanoseconds."""
    return timedelta(seconds=parts[0], microseconds=parts[1] // 1000)


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "int": int, "uint": int, "double": float, "bytes": base64.b64decode, "null": lambda _: None, "timestamp": moment,
    "duration": span, "type": TypeName,
    "list": lambda items: [plain(item) for item in items],
    "map": lambda pairs: {plain(key): plain(held) for key, held in pairs},
}  # fmt: skip


def plain(tagged: Mapping[str, Any]) -> Any:
    """A value of the specification's cases as plain Python."""
    ((tag, content),) = tagged.items()
    return _PLAIN.get(tag, lambda same: same)(content)


def declared(text: str, named: Mapping[str, Any], list_of: Callable[..., Any], map_of: Callable[..., Any]) -> Any:
    """A type such as `map(string, list(int))`, in an engine's own terms."""
    name, _, rest = text.partition("(")
    if name == "list":
        return list_of(declared(rest[:-1], named, list_of, map_of))
    if name == "map":
        key, _, held = rest[:-1].partition(", ")
        return map_of(declared(key, named, list_of, map_of), declared(held, named, list_of, map_of))
    return named.get(name, named["dyn"])


def variables(case: SpecCase) -> dict[str, str]:
    """The declared types by name; everything is dynamic in a case that is not to be checked."""
    return dict.fromkeys((*case["vars"], *case["bindings"]), "dyn") if case.get("disable_check") else case["vars"]


_NAMES = ("bool", "int", "uint", "double", "string", "bytes", "null", "timestamp", "duration", "dyn")
_OURS = {name: getattr(cel, name.upper()) for name in _NAMES}
_GOOGLE = {name: getattr(google.Type, name.upper()) for name in _NAMES}


def _our_answer(case: SpecCase) -> Any:
    types = {name: declared(text, _OURS, cel.list_of, cel.map_of) for name, text in variables(case).items()}
    env = cel.Env(
        (OPTIONALS, TWO_VARIABLE_COMPREHENSIONS, strings.LATEST),
        types,
        container=case.get("container", ""),
        cross_type_comparison=True,
    )
    program = env.compile(case["expr"], lenient=bool(case.get("disable_check")))
    return _our_plain(program.evaluate(*(_our_value(case["bindings"][name]) for name in types)))


def _our_value(tagged: Mapping[str, Any]) -> Any:
    ((tag, content),) = tagged.items()
    match tag:
        case "uint":
            return cel.UInt(content)
        case "timestamp" | "duration":
            of = cel.Timestamp if tag == "timestamp" else cel.Duration
            return of(content[0] * 10**9 + content[1])
        case "list":
            return [_our_value(item) for item in content]
        case "map":
            return {to_key(_our_value(key)): _our_value(held) for key, held in content}
    return plain(tagged)


def _our_plain(value: Any) -> Any:
    match value:
        case cel.UInt():
            return int(value)
        case cel.Type():
            return TypeName(type_name(value))
        case cel.Timestamp():
            return moment(list(divmod(value.nanos, 10**9)))
        case cel.Duration():
            return span(list(divmod(value.nanos, 10**9)))
        case list():
            return [_our_plain(item) for item in value]
        case dict():
            return {_our_plain(from_key(key)): _our_plain(held) for key, held in value.items()}
    return value


def _google_answer(case: SpecCase) -> Any:
    types = {name: declared(text, _GOOGLE, google.Type.List, google.Type.Map) for name, text in variables(case).items()}
    env = google.NewEnv(
        variables=types,
        extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()],
        container=case.get("container"),
    )
    value = env.compile(case["expr"]).eval(data={name: plain(bound) for name, bound in case["bindings"].items()})
    if value.type() == google.Type.ERROR:
        return Failed(value.value())
    return _google_plain(value.plain_value())


def _type_name(name: str) -> str:
    """The specification's name of a type that an engine names in its own way."""
    if name in ("timestamp", "duration"):
        return f"google.protobuf.{name.title()}"
    return "null_type" if name in ("null", "none") else name


def _google_plain(value: Any) -> Any:
    match value:
        case google.Type():
            return TypeName(_type_name(value.name().partition("<")[0].lower()))
        case bytearray():
            return bytes(value)
        case list():
            return [_google_plain(item) for item in value]
        case dict():
            return {key: _google_plain(held) for key, held in value.items()}
    return value


_TEXTS = google.Type.Map(google.Type.STRING, google.Type.STRING)
_GOOGLE_ENVS = {
    "taint": google.NewEnv(variables={"taint": _TEXTS}),
    "node": google.NewEnv(variables={"node": google.Type.Map(google.Type.STRING, _TEXTS)}),
}
_OUR_ENVS = {"taint": cel.TAINT_ENV, "node": cel.NODE_ENV}


def _our_compile(text: str, variable: str) -> Callable[[Any], Evaluation]:
    evaluate = _OUR_ENVS[variable].compile(text).evaluate
    return lambda value: lambda: evaluate(value)


def _google_compile(text: str, variable: str) -> Callable[[Any], Evaluation]:
    env = _GOOGLE_ENVS[variable]
    program = env.compile(text)

    def bind(value: Any) -> Evaluation:
        ready = env.Activation({variable: members(value)})
        return lambda: program.eval(ready).value()

    return bind


def members(value: Any) -> dict[str, Any]:
    """An object as a dict, which is how other engines take it."""
    return {name: getattr(value, name) for name in type(value).__slots__}


def _celpy() -> Engine:
    celpy = import_module("celpy")
    kinds = import_module("celpy.celtypes")
    values: dict[str, Callable[[Any], Any]] = {
        "bool": kinds.BoolType, "int": kinds.IntType, "uint": kinds.UintType, "double": kinds.DoubleType,
        "string": kinds.StringType, "bytes": lambda text: kinds.BytesType(base64.b64decode(text)),
        "null": lambda _: None, "timestamp": lambda parts: kinds.TimestampType(moment(parts)),
        "duration": lambda parts: kinds.DurationType(span(parts)),
        "list": lambda items: kinds.ListType(map(convert, items)),
        "map": lambda pairs: kinds.MapType([(convert(key), convert(held)) for key, held in pairs]),
    }  # fmt: skip

    def convert(tagged: Mapping[str, Any]) -> Any:
        ((tag, content),) = tagged.items()
        return values[tag](content)

    def answer(case: SpecCase) -> Any:
        env = celpy.Environment(package=case.get("container"))
        bindings = {name: convert(bound) for name, bound in case["bindings"].items()}
        return _celpy_plain(kinds, env.program(env.compile(case["expr"])).evaluate(bindings))

    def compile_(text: str, variable: str) -> Callable[[Any], Evaluation]:
        env = celpy.Environment(runner_class=celpy.CompiledRunner)
        program = env.program(env.compile(text))

        def bind(value: Any) -> Evaluation:
            ready = {variable: celpy.json_to_cel(members(value))}
            return lambda: program.evaluate(ready)

        return bind

    return Engine("celpy", answer, compile_)


def _celpy_plain(kinds: Any, value: Any) -> Any:
    if isinstance(value, type):
        return TypeName(_type_name(value.__name__.removesuffix("Type").lower()))
    if isinstance(value, dict):
        return {_celpy_plain(kinds, key): _celpy_plain(kinds, held) for key, held in value.items()}
    if isinstance(value, list):
        return [_celpy_plain(kinds, item) for item in value]
    if isinstance(value, kinds.BoolType):
        return bool(value)
    if isinstance(value, int | float | str | bytes):
        plain_type: Any = next(python for python in (int, float, str, bytes) if isinstance(value, python))
        return plain_type(value)
    if isinstance(value, datetime):
        return EPOCH + (value - EPOCH)
    return timedelta(seconds=value.total_seconds()) if isinstance(value, timedelta) else value


ENGINES = [
    Engine("moorage.cel", _our_answer, _our_compile),
    Engine("cel-expr-python", _google_answer, _google_compile),
    *([_celpy()] if find_spec("celpy") else []),
]
