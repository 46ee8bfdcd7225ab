from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moorage.semver import Version, VersionError, parse, parse_constraint, parse_tolerant, release

UINT64_MAX = 2**64 - 1

# The chain that semver.org gives, with what lies around it; each sorts below the next.
CHAIN = [
    "0.0.0-0",
    "0.0.0",
    "0.9.9",
    "1.0.0--",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.1.0",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.9.0",
    "1.10.0",
    "2.0.0-1",
    "2.0.0-9",
    "2.0.0-10",
    "2.0.0-1a",
    "2.0.0-A",
    "2.0.0-a",
    "2.0.0",
    "5.15.0-1034-aws",
    "5.15.0",
    f"{UINT64_MAX}.{UINT64_MAX}.{UINT64_MAX}",
]

small = st.integers(0, 3)
numbers = small | st.integers(0, UINT64_MAX)
alphanumerics = st.text(st.sampled_from("019azAZ-"), min_size=1, max_size=4)
words = alphanumerics.filter(lambda word: not word.isdigit())
prereleases = st.lists(
    small.map(str) | st.sampled_from(["a", "A", "rc", "-", "1a"]) | numbers.map(str) | words, max_size=3
)
builds = st.lists(alphanumerics, max_size=2)


@st.composite
def version_texts(draw: st.DrawFn) -> str:
    text = ".".join(str(draw(numbers)) for _ in range(3))
    if pre := draw(prereleases):
        text += "-" + ".".join(pre)
    if build := draw(builds):
        text += "+" + ".".join(build)
    return text


versions = (st.sampled_from(CHAIN) | version_texts()).map(parse)
releases = st.tuples(small, small, small).map(lambda parts: release(*parts))
near = releases | st.sampled_from(CHAIN).map(parse)
noise = st.text() | st.text(st.sampled_from("0123456789.vx-+ \t|<>=!a\u0663\uff15"), max_size=12)


def sign(one: Version, other: Version) -> int:
    return (one > other) - (one < other)


def by_the_book(one: str, other: str) -> int:
    """Rule 11 of SemVer 2.0, clause by clause, over texts."""
    (core, pre), (other_core, other_pre) = (text.partition("+")[0].partition("-")[::2] for text in (one, other))
    for number, other_number in zip(core.split("."), other_core.split("."), strict=True):
        if number != other_number:
            return 1 if int(number) > int(other_number) else -1
    if not pre or not other_pre:
        return bool(other_pre) - bool(pre)
    for word, other_word in itertools.zip_longest(pre.split("."), other_pre.split(".")):
        if word == other_word:
            continue
        if word is None or other_word is None:
            return -1 if word is None else 1
        if word.isdigit() and other_word.isdigit():
            return 1 if int(word) > int(other_word) else -1
        if word.isdigit() or other_word.isdigit():
            return -1 if word.isdigit() else 1
        return 1 if word > other_word else -1
    return 0


@pytest.mark.parametrize("parser", [parse, parse_tolerant])
def test_the_precedence_chain_of_semver_org_holds(parser: Callable[[str], Version]) -> None:
    chain = [parser(text) for text in CHAIN]
    for (low, one), (high, other) in itertools.product(enumerate(chain), repeat=2):
        assert sign(one, other) == (low > high) - (low < high), f"{one} against {other}"


@given(version_texts(), version_texts() | st.sampled_from(CHAIN))
def test_order_is_rule_eleven_of_semver(one: str, other: str) -> None:
    assert sign(parse(one), parse(other)) == by_the_book(one, other)


@given(versions, versions)
def test_order_is_total_and_antisymmetric(one: Version, other: Version) -> None:
    assert [one < other, one == other, one > other].count(True) == 1
    assert sign(one, other) == -sign(other, one)
    assert (one <= other) == (one < other or one == other)
    assert (one >= other) == (other <= one)
    assert (one <= other and other <= one) == (one == other)


@given(versions, versions, versions)
def test_order_is_transitive(one: Version, two: Version, three: Version) -> None:
    low, middle, high = sorted((one, two, three))
    assert low <= middle <= high
    assert low <= high
    assert (low == high) == (low == middle and middle == high)


@given(version_texts(), builds)
def test_build_metadata_does_not_count(text: str, build: list[str]) -> None:
    version = parse(text)
    rebuilt = parse("+".join([text.partition("+")[0], *([".".join(build)] if build else [])]))
    assert rebuilt == version
    assert hash(rebuilt) == hash(version)
    assert rebuilt.build == ".".join(build)


@given(version_texts())
def test_a_version_prints_as_it_was_written(text: str) -> None:
    assert str(parse(text)) == text
    assert str(parse_tolerant(text)) == text


@given(near | versions)
def test_the_parts_of_a_version_are_at_hand(version: Version) -> None:
    core, _, rest = str(version).partition("+")[0].partition("-")
    assert core == f"{version.major}.{version.minor}.{version.patch}"
    assert version.prerelease == rest


@given(
    numbers,
    st.none() | st.tuples(numbers, st.none() | numbers),
    st.sampled_from(["", "v"]),
    st.integers(0, 30),
    st.sampled_from(["", " ", "\t\n", "\u3000", "\xa0 "]),
)
def test_tolerance_drops_spaces_a_v_and_zeros_and_adds_what_is_missing(
    major: int, rest: tuple[int, int | None] | None, v: str, zeros: int, space: str
) -> None:
    minor, patch = rest or (0, None)
    given_numbers = [major, *([minor] if rest else []), *([patch] if patch is not None else [])]
    text = space + v + ".".join("0" * zeros + str(number) for number in given_numbers) + space
    assert parse_tolerant(text) == release(major, minor, patch or 0)


TOLERATED = [
    ("1", "1.0.0"),
    ("v1.31", "1.31.0"),
    (" v1.2.3 ", "1.2.3"),
    ("00.00.00", "0.0.0"),
    ("v01.002.0003-rc.1+b", "1.2.3-rc.1+b"),
    ("5.15.0-1034-aws", "5.15.0-1034-aws"),
    ("6.8.0-1015.16+b4e", "6.8.0-1015.16+b4e"),
    ("1.2.-3", "1.2.0-3"),
    ("1.2.3----", "1.2.3----"),
    ("1.2.3+0001", "1.2.3+0001"),
    (f"{UINT64_MAX}", f"{UINT64_MAX}.0.0"),
    (f"1.0.0-{UINT64_MAX}", f"1.0.0-{UINT64_MAX}"),
    ("0" * 5000 + "7.1", "7.1.0"),
]


@pytest.mark.parametrize(("text", "canonical"), TOLERATED, ids=[text[:20] for text, _ in TOLERATED])
def test_a_version_reads_as_people_write_it(text: str, canonical: str) -> None:
    assert str(parse_tolerant(text)) == canonical


REFUSED = [
    ("", 'parsing "": invalid syntax'),
    ("v", 'parsing "": invalid syntax'),
    ("vv1.2.3", 'Invalid character(s) found in major number "v1"'),
    ("V1.2.3", 'Invalid character(s) found in major number "V1"'),
    ("containerd://2.1.4", 'Invalid character(s) found in major number "containerd://2"'),
    ("high", 'Invalid character(s) found in major number "high"'),
    ("-1.0.0", 'Invalid character(s) found in major number "0-1"'),
    ("1.x", 'Invalid character(s) found in minor number "x"'),
    ("v1.2.x", 'Invalid character(s) found in patch number "x"'),
    ("1.2.3.4", 'Invalid character(s) found in patch number "3.4"'),
    ("1.2.3 rc", 'Invalid character(s) found in patch number "3 rc"'),
    ("1.2.٣", 'Invalid character(s) found in patch number "٣"'),
    ("１.2.3", 'Invalid character(s) found in major number "１"'),
    ("\x1c1.2.3", 'Invalid character(s) found in major number "\\x1c1"'),
    ("1..3", 'parsing "": invalid syntax'),
    ("1.2.", 'parsing "": invalid syntax'),
    ("1-rc", "Short version cannot contain PreRelease/Build meta data"),
    ("1.2-rc.1", "in minor number"),
    ("1.2+build", "Short version cannot contain PreRelease/Build meta data"),
    ("1.2.3-", "Prerelease is empty"),
    ("1.2.3-rc..1", "Prerelease is empty"),
    ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
    ("1.2.3-α", 'Invalid character(s) found in prerelease "α"'),
    ("5.15.0-1034-aws_x86_64", 'Invalid character(s) found in prerelease "1034-aws_x86_64"'),
    ("1.2.3+", "Build meta data is empty"),
    ("1.2.3+a+b", 'Invalid character(s) found in build meta data "a+b"'),
    (f"{UINT64_MAX + 1}", f'parsing "{UINT64_MAX + 1}": value out of range'),
    (f"1.{UINT64_MAX + 1}.0", "value out of range"),
    (f"1.0.0-{UINT64_MAX + 1}", "value out of range"),
    ("1" * 5000, "value out of range"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), REFUSED, ids=[ascii(text)[:20] for text, _ in REFUSED])
def test_what_is_no_version_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(VersionError) as caught:
        parse_tolerant(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize("text", ["1", "1.2", "v1.2.3", " 1.2.3", "01.2.3", "1.02.3", "1.2.03", "1.2.-3", ""])
def test_the_strict_reading_forgives_nothing(text: str) -> None:
    with pytest.raises(VersionError):
        parse(text)


@given(noise)
@example("\x1c1.2.3")
@example("1.2.3\ud800")
@example("1.\n2.3")
def test_any_text_is_a_version_or_a_version_error(text: str) -> None:
    for parser in (parse, parse_tolerant):
        try:
            version = parser(text)
        except VersionError as error:
            assert str(error)  # noqa: PT017
        else:
            assert parse(str(version)) == version


@given(noise)
@example("1.x\ud800")
@example("1" * 5000 + ".x")
@example(">=" + "9" * 21)
def test_any_text_is_a_constraint_or_a_version_error(text: str) -> None:
    try:
        constraint = parse_constraint(text)
    except VersionError as error:
        assert str(error)  # noqa: PT017
    else:
        assert constraint(release(1, 2, 3)) in (True, False)


def holds(constraint: str, version: Version) -> bool:
    return parse_constraint(constraint)(version)


bounds = near | versions


@given(near | versions, bounds)
def test_comparisons_are_the_order_and_their_opposites(version: Version, bound: Version) -> None:
    assert holds(f"<{bound}", version) == (version < bound)
    assert holds(f">{bound}", version) == (version > bound)
    assert holds(f"={bound}", version) == (version == bound)
    assert holds(f"<={bound}", version) is not holds(f">{bound}", version)
    assert holds(f">={bound}", version) is not holds(f"<{bound}", version)
    assert holds(f"!={bound}", version) is not holds(f"={bound}", version)
    assert holds(f"!{bound}", version) is holds(f"!={bound}", version)
    assert holds(f"{bound}", version) is holds(f"={bound}", version) is holds(f"=={bound}", version)


comparisons = st.tuples(st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), near).map(
    lambda pair: pair[0] + str(pair[1])
)


@given(near, comparisons, comparisons, comparisons, st.sampled_from([" ", "   "]))
def test_a_space_means_and_bars_mean_or_and_and_binds_tighter(
    version: Version, one: str, two: str, three: str, space: str
) -> None:
    first, second, third = (holds(each, version) for each in (one, two, three))
    assert holds(f"{one}{space}{two}", version) is (first and second)
    assert holds(f"{one}{space}||{space}{two}", version) is (first or second)
    assert holds(f"{one} {two} || {three}", version) is ((first and second) or third)
    assert holds(f"{one} || {two} {three}", version) is (first or (second and third))


@given(near, small, small, st.sampled_from(["", "v"]))
def test_a_wildcard_is_the_whole_range_below_it(version: Version, major: int, minor: int, v: str) -> None:
    for wildcard, first, after in (
        (f"{v}{major}.x", f"{major}.0.0", f"{major + 1}.0.0"),
        (f"{v}{major}.x.x", f"{major}.0.0", f"{major + 1}.0.0"),
        (f"{v}{major}.{minor}.x", f"{major}.{minor}.0", f"{major}.{minor + 1}.0"),
    ):
        inside = holds(f">={first} <{after}", version)
        assert holds(wildcard, version) is holds(f"={wildcard}", version) is holds(f"=={wildcard}", version) is inside
        assert holds(f"!={wildcard}", version) is holds(f"!{wildcard}", version) is not inside
        assert holds(f"<{wildcard}", version) is holds(f"<{first}", version)
        assert holds(f">={wildcard}", version) is holds(f">={first}", version)
        assert holds(f"<={wildcard}", version) is holds(f"<{after}", version)
        assert holds(f">{wildcard}", version) is holds(f">={after}", version)


def test_the_next_major_pre_release_is_inside_a_wildcard_and_its_own_is_not() -> None:
    assert holds("1.x", parse("2.0.0-rc.1"))
    assert not holds("1.x", parse("1.0.0-rc.1"))


def test_a_wildcard_at_the_edge_of_sixty_four_bits_includes_the_edge() -> None:
    edge = f"{UINT64_MAX}.x"
    assert holds(edge, release(UINT64_MAX, UINT64_MAX, UINT64_MAX))
    assert not holds(f">{edge}", release(UINT64_MAX, UINT64_MAX, UINT64_MAX))


BAD_CONSTRAINTS = [
    "", "   ", "||", "<1.2.3 ||", "|| 1.0.0", "1.0.0 || || 2.0.0", "1.0.0||2.0.0", "> 1.0.0", ">=", ">>1.0.0",
    "=>1.0.0", "^1.2", "~1.2", ">=1.0.0,<2.0.0", ">=a.b.c", "x", ">=x", "*", "1.*", "1.X", "x.1.2", "1.x.2", "1.2.3.x",
    "1.2.x.x", "1.x.x.x", "1.2.x-rc", "vv1.x", "1.2-rc", "1.2.3\t<2", f"{UINT64_MAX + 1}.x", f"1.{UINT64_MAX + 1}.x",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_CONSTRAINTS)
def test_what_is_no_constraint_is_refused(text: str) -> None:
    with pytest.raises(VersionError):
        parse_constraint(text)


def test_a_refused_constraint_is_quoted_with_what_is_wrong_in_it() -> None:
    with pytest.raises(
        VersionError, match=r'version "1\.y" in ">=1\.y": Invalid character\(s\) found in minor number "y"'
    ):
        parse_constraint(">=1.y <2")
    with pytest.raises(VersionError, match=r'"~" in "~1\.2" is not one of < <= > >= = == != !'):
        parse_constraint("~1.2")
    with pytest.raises(VersionError, match=r'constraint "1\.2\.3 \|\|" has no comparison beside \|\|'):
        parse_constraint("1.2.3 ||")
