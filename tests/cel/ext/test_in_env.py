from __future__ import annotations

from typing import Any

import pytest

from moorage.cel.env import KUBERNETES, Env, kubernetes
from moorage.cel.errors import CompileError, EvalError
from moorage.cel.ext import k8s_lists, strings
from moorage.cel.library import Library
from moorage.cel.types import STRING, list_of

ENV = kubernetes(
    {"words": list_of(STRING), "text": STRING}, {}, sizes={("words",): 10, ("words", "@items"): 20, ("text",): 30}
)
GIVEN = (["pear", "fig", "apple"], "a-b-c")


def evaluate(source: str) -> Any:
    return ENV.compile(source).evaluate(*GIVEN)


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("words.sortBy(w, w.size())", ["fig", "pear", "apple"]),
        ("words.sortBy(w, -w.size()).map(w, w.charAt(0))", ["a", "p", "f"]),
        ("words.sortBy(w, words.sortBy(v, v)[0] == w)", ["pear", "fig", "apple"]),
        ("[1, 2].sortBy(x, true)", [1, 2]),
        ("text.split('-').sort().reverse().join('')", "cba"),
        ("dyn(words).indexOf('fig')", 1),
        ("dyn(text).indexOf('b')", 2),
        ("dyn(words).join('+')", "pear+fig+apple"),
        ("[dyn(1), dyn(1.0)].distinct()", [1]),
        ("type(ip('::1')) == net.IP && type(cidr('::/8')) == net.CIDR", True),
        ("ip('1.2.3.4') in [ip('1.2.3.4'), ip('::1')]", True),
        ("[quantity('1k'), quantity('1000')].distinct().size()", 1),
        ("[semver('1.0.0')].indexOf(semver('1.0.0+build'))", 0),
        ("url('/a') == url('/a') && url('/a') != url('/b')", True),
        ("format.named('date') == optional.of(format.date())", True),
        ("dyn(ip('::1')) == '::1'", False),
        ("text.format([]) == text", True),
    ],
)
def test_values(source: str, want: Any) -> None:
    assert evaluate(source) == want


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("dyn([dyn(1), dyn('a')]).sort()", "list elements must have the same type"),
        ("dyn(['a']).sum()", "no such overload"),
        ("words.slice(0, 4)", "cannot slice(0, 4), list is length 3"),
        ("semver('1.0').major()", "No Major.Minor.Patch elements found"),
        ("quantity('x').asInteger()", "quantities must match the regular expression"),
        ("cidr('10.0.0.0/8').containsIP(text)", "unable to parse IP"),
        ("text.find(text + '[')", "Illegal regex: error parsing regexp: missing closing ]: `[`"),
        ("(text + '%d').format(['a'])", "error during formatting: decimal clause can only be used on integers"),
    ],
)
def test_errors(source: str, message: str) -> None:
    with pytest.raises(EvalError) as caught:
        evaluate(source)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("source", "place", "message"),
    [
        ("text.find('[')", 11, "invalid find argument"),
        ("text.findAll('(', 1)", 14, "invalid findAll argument"),
        (
            "'%d'.format(['a'])",
            14,
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%s'.format([[ip('::1')]])", 17, "was given net.IP"),
        (
            "'%s'.format([{'a': text, 'b': text}]) == ''.format([text])",
            51,
            "too many arguments supplied to string.format",
        ),
        ("'%d %d'.format([1])", 15, "index 1 out of range"),
        ("'%z'.format([1])", 12, 'could not parse formatting clause: unrecognized formatting clause "z"'),
        (
            "1.sortBy(x, x)",
            1,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        ),
        ("words.sortBy(w.x, w)", 15, "argument is not an identifier"),
        ("words.sortBy(w, [w])", 13, "found no matching overload for '@sortByAssociatedKeys'"),
        ("text.reverse()", 13, "found no matching overload for 'reverse' applied to 'string.()'"),
        ("words.includes('fig')", 15, "undeclared reference to 'includes'"),
        ("quantity('1').sign()", 19, "found no matching overload for 'sign'"),
    ],
)
def test_what_does_not_compile(source: str, place: int, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        ENV.compile(source)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"ERROR: <input>:1:{place}: "), first
    assert message in first


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        ("text.split('-').all(p, p.size() > 0)", 1 + 6 + 30 * 6 + 1),
        ("words.join(',').size()", 1 + 42 + 1),
        ("words.min().size()", 1 + 10 * 3 + 1),
        ("words.sort().size()", 1 + (210 + 11) + 1),
        ("url(text).getHost().size()", 1 + 3 + 1 + 1),
    ],
)
def test_costs(source: str, cost: int) -> None:
    assert ENV.compile(source).cost.max == cost


def test_nested_loops_over_the_pieces_of_a_short_text_are_not_cheap() -> None:
    source = "','.split(',').all(x, " * 20 + "true" + ")" * 20
    assert kubernetes({}, {}).compile(source).cost.max > 2**20


def test_loops_over_flattened_lists_are_not_cheap() -> None:
    flat = "[lists.range(1000), lists.range(1000)].flatten()"
    assert kubernetes({}, {}).compile(f"{flat}.all(x, x >= 0)").cost.max > 2 * 1000 * 4


def latest(module: Any, library: Library) -> Env:
    return Env([*(one for one in KUBERNETES if one is not module.LIBRARY), library])


def test_an_environment_can_have_later_versions() -> None:
    assert (
        latest(strings, strings.LATEST).compile("'%s'.format([['a'].reverse()]) + 'bc'.reverse()").evaluate() == "[a]cb"
    )
    assert latest(k8s_lists, k8s_lists.LATEST).compile("[1, 2].includes(2) && 'a'.includes('a')").evaluate() is True
