"""Every operator, macro and function of the Kubernetes environment, each with an example that the tests evaluate."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """A row of the reference: `expression` is equal to `result`, and both are CEL."""

    library: str
    signature: str
    meaning: str
    expression: str
    result: str


def _rows(library: str, *rows: tuple[str, str, str, str]) -> list[Example]:
    return [Example(library, *row) for row in rows]


OPERATORS = _rows(
    "operators",
    ("bool ? T : T -> T", "the second operand when the first is true, else the third", "1 < 2 ? 'yes' : 'no'", "'yes'"),
    ("bool && bool -> bool", "both; false decides even beside an error", "1 / 0 == 1 && false", "false"),
    ("bool || bool -> bool", "either; true decides even beside an error", "1 / 0 == 1 || true", "true"),
    ("!bool -> bool", "not", "!(1 == 2)", "true"),
    ("T == T -> bool", "equal; behind `dyn` numbers of different types can be", "dyn(1) == 1.0", "true"),
    ("T != T -> bool", "not equal", "'a' != 'b'", "true"),
    ("T < T -> bool", "less: numbers of any type, strings, bytes, bools, timestamps, durations", "1 < 1.5", "true"),
    ("T <= T -> bool", "less or equal", "'a' <= 'a'", "true"),
    ("T > T -> bool", "greater", "duration('2h') > duration('90m')", "true"),
    ("T >= T -> bool", "greater or equal", "2u >= 1", "true"),
    (
        "T + T -> T",
        "sum of numbers or durations; concatenation of strings, bytes or lists",
        "[1] + [2, 3]",
        "[1, 2, 3]",
    ),
    (
        "T - T -> T",
        "difference of numbers, durations or times",
        "timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z')",
        "duration('24h')",
    ),
    ("T * T -> T", "product of numbers; an error when it does not fit", "6 * 7", "42"),
    ("T / T -> T", "quotient of numbers, towards zero for integers", "-7 / 2", "-3"),
    ("T % T -> T", "remainder of integers, with the sign of the first", "-7 % 2", "-1"),
    ("-T -> T", "the negative of a number", "-(-3)", "3"),
    ("list(T)[int] -> T", "an element, counted from 0; an error outside the list", "['a', 'b'][1]", "'b'"),
    ("map(K, V)[K] -> V", "the value of a key; an error without one", "{'a': 1}['a']", "1"),
    ("map(string, V).name -> V", "the value of a key that is a name", "{'a': 1}.a", "1"),
    ("T in list(T) -> bool", "whether an element is equal", "2 in [1, 2]", "true"),
    ("K in map(K, V) -> bool", "whether there is such a key", "'b' in {'a': 1}", "false"),
    ("list(T)[?int] -> optional(T)", "an element, if there is one", "[1, 2][?5].hasValue()", "false"),
    ("map(K, V)[?K] -> optional(V)", "the value of a key, if there is one", "{'a': 1}[?'a']", "optional.of(1)"),
    (
        "map(string, V).?name -> optional(V)",
        "the value of a key that is a name, if there is one",
        "{'a': 1}.?b.orValue(0)",
        "0",
    ),
    (
        "[?optional(T)] -> list(T)",
        "an element only if there is a value",
        "[1, ?optional.none(), ?optional.of(3)]",
        "[1, 3]",
    ),
    (
        "{?K: optional(V)} -> map(K, V)",
        "an entry only if there is a value",
        "{'a': 1, ?'b': optional.none()}",
        "{'a': 1}",
    ),
)

MACROS = _rows(
    "macros",
    ("has(e.field) -> bool", "whether a field is set or a map has the key", "has({'a': 1}.b)", "false"),
    (
        "list(T).all(x, bool) -> bool",
        "whether the test holds for every element, or every key of a map",
        "[1, 2].all(x, x > 0)",
        "true",
    ),
    ("list(T).exists(x, bool) -> bool", "whether it holds for some element", "[1, 2].exists(x, x > 1)", "true"),
    (
        "list(T).exists_one(x, bool) -> bool",
        "whether it holds for exactly one element",
        "[1, 2].exists_one(x, x > 0)",
        "false",
    ),
    ("list(T).existsOne(x, bool) -> bool", "the same as exists_one", "[1, 2].existsOne(x, x > 1)", "true"),
    ("list(T).filter(x, bool) -> list(T)", "the elements for which it holds", "[1, 2, 3].filter(x, x > 1)", "[2, 3]"),
    ("list(T).map(x, U) -> list(U)", "what becomes of each element", "[1, 2].map(x, x * 10)", "[10, 20]"),
    (
        "list(T).map(x, bool, U) -> list(U)",
        "what becomes of each element for which the test holds",
        "[1, 2, 3].map(x, x > 1, x * 10)",
        "[20, 30]",
    ),
)

TWO_VARIABLES = _rows(
    "two-variable comprehensions",
    (
        "map(K, V).all(k, v, bool) -> bool",
        "whether the test holds for every key and value, or every index and element of a list",
        "{'a': 1, 'b': 2}.all(k, v, k < 'c' && v < 3)",
        "true",
    ),
    (
        "map(K, V).exists(k, v, bool) -> bool",
        "whether it holds for some pair",
        "['a', 'b'].exists(i, x, i == 1 && x == 'b')",
        "true",
    ),
    (
        "map(K, V).exists_one(k, v, bool) -> bool",
        "whether it holds for exactly one pair",
        "[5, 5].exists_one(i, x, x == 5)",
        "false",
    ),
    ("map(K, V).existsOne(k, v, bool) -> bool", "the same as exists_one", "[5, 6].existsOne(i, x, x == 5)", "true"),
    (
        "map(K, V).transformList(k, v, U) -> list(U)",
        "a list of what becomes of each pair",
        "[7, 8].transformList(i, x, i * x)",
        "[0, 8]",
    ),
    (
        "map(K, V).transformList(k, v, bool, U) -> list(U)",
        "the same, of the pairs for which the test holds",
        "[7, 8].transformList(i, x, x > 7, i)",
        "[1]",
    ),
    (
        "map(K, V).transformMap(k, v, U) -> map(K, U)",
        "a map with the same keys and other values",
        "{'a': 1}.transformMap(k, v, v + 1)",
        "{'a': 2}",
    ),
    (
        "map(K, V).transformMap(k, v, bool, U) -> map(K, U)",
        "the same, of the pairs for which the test holds",
        "{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v * 10)",
        "{'b': 20}",
    ),
    (
        "map(K, V).transformMapEntry(k, v, map(L, U)) -> map(L, U)",
        "a map of the entries that are made for each pair; an error for a key that comes twice",
        "{'a': 'x'}.transformMapEntry(k, v, {v: k})",
        "{'x': 'a'}",
    ),
    (
        "map(K, V).transformMapEntry(k, v, bool, map(L, U)) -> map(L, U)",
        "the same, of the pairs for which the test holds",
        "{'a': 'x', 'b': 'y'}.transformMapEntry(k, v, k > 'a', {v: k})",
        "{'y': 'b'}",
    ),
)

STANDARD = _rows(
    "standard",
    (
        "size(string | bytes | list(T) | map(K, V)) -> int",
        "number of characters, bytes, elements or entries",
        "size('αβ')",
        "2",
    ),
    ("T.size() -> int", "the same, as a method", "[1, 2, 3].size()", "3"),
    ("string.contains(string) -> bool", "whether the text is in it", "'moorage'.contains('oor')", "true"),
    ("string.startsWith(string) -> bool", "whether it begins so", "'moorage'.startsWith('moor')", "true"),
    ("string.endsWith(string) -> bool", "whether it ends so", "'moorage'.endsWith('age')", "true"),
    (
        "string.matches(string) -> bool",
        "whether a regular expression (RE2) matches somewhere in it",
        "'abc'.matches('^a.c$')",
        "true",
    ),
    ("matches(string, string) -> bool", "the same, as a function", "matches('abc', 'b+')", "true"),
    ("bool(bool | string) -> bool", "true for `true`, `True`, `TRUE`, `t`, `1`", "bool('true')", "true"),
    ("bytes(bytes | string) -> bytes", "the UTF-8 encoding", "bytes('é')", "b'\\xc3\\xa9'"),
    ("double(double | int | uint | string) -> double", "the number as a double", "double('1.5')", "1.5"),
    (
        "duration(duration | string) -> duration",
        "a length of time in h, m, s, ms, us, ns",
        "duration('1h30m') == duration('90m')",
        "true",
    ),
    (
        "dyn(T) -> dyn",
        "the value without its type, for comparisons that would not type-check",
        "dyn('a') == 1",
        "false",
    ),
    (
        "int(int | uint | double | string | timestamp | duration) -> int",
        "a whole number, of a double towards zero; seconds of a timestamp, nanoseconds of a duration",
        "int('950')",
        "950",
    ),
    (
        "string(string | bool | int | uint | double | bytes | timestamp | duration) -> string",
        "the value as text",
        "string(1.5)",
        "'1.5'",
    ),
    (
        "timestamp(timestamp | string | int) -> timestamp",
        "a point in time, from RFC 3339 or seconds since 1970",
        "timestamp(0)",
        "timestamp('1970-01-01T00:00:00Z')",
    ),
    (
        "uint(uint | int | double | string) -> uint",
        "the number as an unsigned one; an error when it is negative",
        "uint(3)",
        "3u",
    ),
    ("type(T) -> type", "the type of a value", "type('a') == string", "true"),
    ("timestamp.getFullYear() -> int", "year", "timestamp('2026-01-02T03:04:05Z').getFullYear()", "2026"),
    ("timestamp.getMonth() -> int", "month, from 0", "timestamp('2026-01-02T03:04:05Z').getMonth()", "0"),
    (
        "timestamp.getDayOfYear() -> int",
        "day of the year, from 0",
        "timestamp('2026-01-02T03:04:05Z').getDayOfYear()",
        "1",
    ),
    (
        "timestamp.getDayOfMonth() -> int",
        "day of the month, from 0",
        "timestamp('2026-01-02T03:04:05Z').getDayOfMonth()",
        "1",
    ),
    ("timestamp.getDate() -> int", "day of the month, from 1", "timestamp('2026-01-02T03:04:05Z').getDate()", "2"),
    (
        "timestamp.getDayOfWeek() -> int",
        "day of the week, from 0 for Sunday",
        "timestamp('2026-01-02T03:04:05Z').getDayOfWeek()",
        "5",
    ),
    ("timestamp.getHours() -> int", "hour; of a duration, all of its hours", "duration('36h').getHours()", "36"),
    (
        "timestamp.getMinutes() -> int",
        "minute; of a duration, all of its minutes",
        "timestamp('2026-01-02T03:04:05Z').getMinutes()",
        "4",
    ),
    (
        "timestamp.getSeconds() -> int",
        "second; of a duration, all of its seconds",
        "duration('1m30s').getSeconds()",
        "90",
    ),
    (
        "timestamp.getMilliseconds() -> int",
        "millisecond of the second, of a duration too",
        "timestamp('2026-01-02T03:04:05.678Z').getMilliseconds()",
        "678",
    ),
    (
        "timestamp.getFullYear(string) -> int",
        "year in a time zone",
        "timestamp('2026-01-01T00:30:00Z').getFullYear('-01:00')",
        "2025",
    ),
    (
        "timestamp.getMonth(string) -> int",
        "month in a time zone",
        "timestamp('2026-01-01T00:30:00Z').getMonth('-01:00')",
        "11",
    ),
    (
        "timestamp.getDayOfYear(string) -> int",
        "day of the year in a time zone",
        "timestamp('2026-01-01T00:30:00Z').getDayOfYear('-01:00')",
        "364",
    ),
    (
        "timestamp.getDayOfMonth(string) -> int",
        "day of the month in a time zone, from 0",
        "timestamp('2026-01-01T00:30:00Z').getDayOfMonth('-01:00')",
        "30",
    ),
    (
        "timestamp.getDate(string) -> int",
        "day of the month in a time zone, from 1",
        "timestamp('2026-01-01T00:30:00Z').getDate('America/New_York')",
        "31",
    ),
    (
        "timestamp.getDayOfWeek(string) -> int",
        "day of the week in a time zone",
        "timestamp('2026-01-01T00:30:00Z').getDayOfWeek('-01:00')",
        "3",
    ),
    (
        "timestamp.getHours(string) -> int",
        "hour in a time zone",
        "timestamp('2026-01-01T00:30:00Z').getHours('+05:30')",
        "6",
    ),
    (
        "timestamp.getMinutes(string) -> int",
        "minute in a time zone",
        "timestamp('2026-01-01T00:30:00Z').getMinutes('+05:45')",
        "15",
    ),
    (
        "timestamp.getSeconds(string) -> int",
        "second in a time zone",
        "timestamp('2026-01-01T00:30:07Z').getSeconds('UTC')",
        "7",
    ),
    (
        "timestamp.getMilliseconds(string) -> int",
        "millisecond in a time zone",
        "timestamp('2026-01-01T00:30:00.5Z').getMilliseconds('UTC')",
        "500",
    ),
)

OPTIONALS = _rows(
    "optionals",
    ("optional.of(T) -> optional(T)", "an optional with a value", "optional.of(1).value()", "1"),
    (
        "optional.ofNonZeroValue(T) -> optional(T)",
        "an optional that is empty for 0, '', [] and their like",
        "optional.ofNonZeroValue('').hasValue()",
        "false",
    ),
    ("optional.none() -> optional(T)", "an empty optional", "optional.none().hasValue()", "false"),
    ("optional(T).hasValue() -> bool", "whether there is a value", "optional.of('a').hasValue()", "true"),
    ("optional(T).value() -> T", "the value; an error without one", "optional.of('a').value()", "'a'"),
    (
        "optional(T).or(optional(T)) -> optional(T)",
        "the first of the two that has a value",
        "optional.none().or(optional.of(2)).value()",
        "2",
    ),
    ("optional(T).orValue(T) -> T", "the value, or another without one", "{'a': 1}[?'b'].orValue(0)", "0"),
    (
        "optional(T).optMap(x, U) -> optional(U)",
        "what becomes of the value, if there is one",
        "optional.of(2).optMap(x, x * 2).value()",
        "4",
    ),
    (
        "optional(T).optFlatMap(x, optional(U)) -> optional(U)",
        "the optional that becomes of the value, if there is one",
        "{'a': {'b': 3}}.?a.optFlatMap(m, m.?b).orValue(0)",
        "3",
    ),
    ("list(T).first() -> optional(T)", "the first element, if there is one", "[1, 2].first().value()", "1"),
    ("list(T).last() -> optional(T)", "the last element, if there is one", "[1, 2].last().value()", "2"),
    (
        "optional.unwrap(list(optional(T))) -> list(T)",
        "the values that there are",
        "optional.unwrap([optional.of(1), optional.none()])",
        "[1]",
    ),
    (
        "list(optional(T)).unwrapOpt() -> list(T)",
        "the same, as a method",
        "[optional.of(1), optional.none()].unwrapOpt()",
        "[1]",
    ),
)

STRINGS = _rows(
    "strings",
    (
        "string.charAt(int) -> string",
        "one character, counted from 0; empty right behind the last",
        "'moor'.charAt(0)",
        "'m'",
    ),
    ("string.indexOf(string) -> int", "where the text first occurs, -1 if nowhere", "'moorage'.indexOf('o')", "1"),
    ("string.indexOf(string, int) -> int", "the same, from a position on", "'moorage'.indexOf('o', 2)", "2"),
    (
        "string.lastIndexOf(string) -> int",
        "where the text last occurs, -1 if nowhere",
        "'moorage'.lastIndexOf('o')",
        "2",
    ),
    (
        "string.lastIndexOf(string, int) -> int",
        "the same, at a position or before it",
        "'moorage'.lastIndexOf('o', 1)",
        "1",
    ),
    ("string.lowerAscii() -> string", "with A to Z in lower case", "'TacoCÆt'.lowerAscii()", "'tacocÆt'"),
    ("string.upperAscii() -> string", "with a to z in upper case", "'tacoCæt'.upperAscii()", "'TACOCæT'"),
    (
        "string.replace(string, string) -> string",
        "with every occurrence of a text replaced",
        "'a-b-c'.replace('-', '.')",
        "'a.b.c'",
    ),
    (
        "string.replace(string, string, int) -> string",
        "with so many occurrences replaced; all when negative",
        "'a-b-c'.replace('-', '.', 1)",
        "'a.b-c'",
    ),
    ("string.split(string) -> list(string)", "the pieces between separators", "'a/b/c'.split('/')", "['a', 'b', 'c']"),
    (
        "string.split(string, int) -> list(string)",
        "at most so many pieces, the last with the rest",
        "'a/b/c'.split('/', 2)",
        "['a', 'b/c']",
    ),
    ("string.substring(int) -> string", "from a position on", "'moorage'.substring(4)", "'age'"),
    (
        "string.substring(int, int) -> string",
        "from a position to before another",
        "'moorage'.substring(0, 4)",
        "'moor'",
    ),
    ("string.trim() -> string", "without white space at both ends", "'  a b\\n'.trim()", "'a b'"),
    ("list(string).join() -> string", "all put together", "['a', 'b'].join()", "'ab'"),
    (
        "list(string).join(string) -> string",
        "all put together with a text between them",
        "['a', 'b'].join(', ')",
        "'a, b'",
    ),
    (
        "string.format(list(dyn)) -> string",
        "with %s (text), %d (integer), %f and %e (double), %b, %o and %x (binary, octal, hexadecimal) replaced in turn",
        "'%s: %s'.format(['rack', 'full'])",
        "'rack: full'",
    ),
    (
        "strings.quote(string) -> string",
        "in quotes, with escapes for what cannot be printed",
        "strings.quote('a\\n')",
        "'\"a\\\\n\"'",
    ),
)

LISTS = _rows(
    "lists",
    (
        "list(T).slice(int, int) -> list(T)",
        "the elements from a position to before another",
        "[1, 2, 3, 4].slice(1, 3)",
        "[2, 3]",
    ),
    ("list(list(T)).flatten() -> list(T)", "the elements of the lists", "[[1], [2, 3]].flatten()", "[1, 2, 3]"),
    ("list(dyn).flatten(int) -> list(dyn)", "the same, so many levels deep", "[[[1]], [[2]]].flatten(2)", "[1, 2]"),
    ("list(T).sort() -> list(T)", "in ascending order", "[3, 1, 2].sort()", "[1, 2, 3]"),
    (
        "list(T).sortBy(x, U) -> list(T)",
        "in ascending order of what an expression gives for each",
        "['ccc', 'a', 'bb'].sortBy(s, s.size())",
        "['a', 'bb', 'ccc']",
    ),
    ("lists.range(int) -> list(int)", "the numbers from 0 to before this one", "lists.range(3)", "[0, 1, 2]"),
    ("list(T).reverse() -> list(T)", "from the last to the first", "[1, 2, 3].reverse()", "[3, 2, 1]"),
    ("list(T).distinct() -> list(T)", "each element once", "[1, 2, 2, 1].distinct()", "[1, 2]"),
)

KUBERNETES_LISTS = _rows(
    "Kubernetes lists",
    ("list(T).isSorted() -> bool", "whether the elements are in ascending order", "[1, 2, 2].isSorted()", "true"),
    ("list(T).sum() -> T", "the sum of numbers or durations", "[1, 2, 3].sum()", "6"),
    ("list(T).min() -> T", "the least element; an error for an empty list", "[3, 1, 2].min()", "1"),
    ("list(T).max() -> T", "the greatest element; an error for an empty list", "['a', 'c', 'b'].max()", "'c'"),
    ("list(T).indexOf(T) -> int", "the first position of an element, -1 if nowhere", "[1, 2, 2].indexOf(2)", "1"),
    (
        "list(T).lastIndexOf(T) -> int",
        "the last position of an element, -1 if nowhere",
        "[1, 2, 2].lastIndexOf(2)",
        "2",
    ),
)

SETS = _rows(
    "sets",
    (
        "sets.contains(list(T), list(T)) -> bool",
        "whether all of the second are in the first",
        "sets.contains([1, 2, 3], [2, 3])",
        "true",
    ),
    (
        "sets.equivalent(list(T), list(T)) -> bool",
        "whether the two have the same elements",
        "sets.equivalent([1, 2], [2, 1, 1])",
        "true",
    ),
    (
        "sets.intersects(list(T), list(T)) -> bool",
        "whether the two have an element in common",
        "sets.intersects([1], [2, 3])",
        "false",
    ),
)

URLS = _rows(
    "url",
    (
        "url(string) -> URL",
        "an absolute URL or path; an error for anything else",
        "url('https://a.example:80/b').getHost()",
        "'a.example:80'",
    ),
    ("isURL(string) -> bool", "whether `url` accepts it", "isURL('not a url')", "false"),
    (
        "URL.getScheme() -> string",
        "scheme in lower case, empty for a path",
        "url('https://a.example/').getScheme()",
        "'https'",
    ),
    ("URL.getHost() -> string", "host and port", "url('https://[::1]:80/').getHost()", "'[::1]:80'"),
    (
        "URL.getHostname() -> string",
        "host without brackets and port",
        "url('https://[::1]:80/').getHostname()",
        "'::1'",
    ),
    ("URL.getPort() -> string", "port, empty if there is none", "url('https://a.example:80/').getPort()", "'80'"),
    (
        "URL.getEscapedPath() -> string",
        "path, escaped",
        "url('https://a.example/with space').getEscapedPath()",
        "'/with%20space'",
    ),
    (
        "URL.getQuery() -> map(string, list(string))",
        "parameters, each with all its values",
        "url('/?k=a&k=b').getQuery()",
        "{'k': ['a', 'b']}",
    ),
)

REGEX = _rows(
    "regex",
    (
        "string.find(string) -> string",
        "the first match of a regular expression, empty if there is none",
        "'abc 123'.find('[0-9]+')",
        "'123'",
    ),
    ("string.findAll(string) -> list(string)", "all matches", "'1 a 2'.findAll('[0-9]')", "['1', '2']"),
    (
        "string.findAll(string, int) -> list(string)",
        "at most so many matches; all when negative",
        "'1 a 2'.findAll('[0-9]', 1)",
        "['1']",
    ),
)

QUANTITIES = _rows(
    "quantity",
    (
        "quantity(string) -> Quantity",
        "a resource quantity; an error for anything else",
        "quantity('1Gi') == quantity('1024Mi')",
        "true",
    ),
    ("isQuantity(string) -> bool", "whether `quantity` accepts it", "isQuantity('200K')", "false"),
    ("sign(Quantity) -> int", "-1, 0 or 1", "sign(quantity('-2k'))", "-1"),
    ("Quantity.isInteger() -> bool", "whether `asInteger` gives a number", "quantity('1.5').isInteger()", "false"),
    (
        "Quantity.asInteger() -> int",
        "the number; an error when it is not whole or too large",
        "quantity('50k').asInteger()",
        "50000",
    ),
    (
        "Quantity.asApproximateFloat() -> double",
        "the number, perhaps rounded",
        "quantity('500m').asApproximateFloat()",
        "0.5",
    ),
    ("Quantity.add(Quantity) -> Quantity", "sum", "quantity('50k').add(quantity('20k'))", "quantity('70k')"),
    ("Quantity.sub(Quantity) -> Quantity", "difference", "quantity('50k').sub(quantity('20k'))", "quantity('30k')"),
    ("Quantity.add(int) -> Quantity", "sum with an integer", "quantity('50k').add(20)", "quantity('50020')"),
    ("Quantity.sub(int) -> Quantity", "difference from an integer", "quantity('50k').sub(20000)", "quantity('30k')"),
    ("Quantity.isLessThan(Quantity) -> bool", "less", "quantity('50M').isLessThan(quantity('50Mi'))", "true"),
    (
        "Quantity.isGreaterThan(Quantity) -> bool",
        "greater",
        "quantity('10Gi').isGreaterThan(quantity('200Mi'))",
        "true",
    ),
    (
        "Quantity.compareTo(Quantity) -> int",
        "-1 when less, 0 when equal, 1 when greater",
        "quantity('200M').compareTo(quantity('0.2G'))",
        "0",
    ),
)

IP = _rows(
    "ip",
    (
        "ip(string) -> net.IP",
        "an IPv4 or IPv6 address; an error for anything else",
        "ip('::1') == ip('0:0:0:0:0:0:0:1')",
        "true",
    ),
    (
        "isIP(string) -> bool",
        "whether `ip` accepts it: no zone, no IPv4 in IPv6 form, no leading zeros",
        "isIP('127.0.0.01')",
        "false",
    ),
    (
        "ip.isCanonical(string) -> bool",
        "whether the address is written in the usual way",
        "ip.isCanonical('2001:DB8::1')",
        "false",
    ),
    ("net.IP.family() -> int", "4 or 6", "ip('::1').family()", "6"),
    ("net.IP.isUnspecified() -> bool", "0.0.0.0 or ::", "ip('0.0.0.0').isUnspecified()", "true"),
    ("net.IP.isLoopback() -> bool", "127.0.0.0/8 or ::1", "ip('127.0.0.1').isLoopback()", "true"),
    (
        "net.IP.isLinkLocalMulticast() -> bool",
        "224.0.0.0/24, or ff02::/16 and its like",
        "ip('224.0.0.1').isLinkLocalMulticast()",
        "true",
    ),
    (
        "net.IP.isLinkLocalUnicast() -> bool",
        "169.254.0.0/16 or fe80::/10",
        "ip('fe80::1').isLinkLocalUnicast()",
        "true",
    ),
    (
        "net.IP.isGlobalUnicast() -> bool",
        "none of the above, no multicast, no broadcast; private addresses count",
        "ip('192.168.0.1').isGlobalUnicast()",
        "true",
    ),
    ("string(net.IP) -> string", "the address in the usual form", "string(ip('2001:DB8:0:0::1'))", "'2001:db8::1'"),
)

CIDR = _rows(
    "cidr",
    ("cidr(string) -> net.CIDR", "a network; an error for anything else", "cidr('10.0.0.0/8').prefixLength()", "8"),
    ("isCIDR(string) -> bool", "whether `cidr` accepts it", "isCIDR('10.0.0.0/33')", "false"),
    (
        "net.CIDR.containsIP(string | net.IP) -> bool",
        "whether the address is in the network",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3')",
        "true",
    ),
    (
        "net.CIDR.containsCIDR(string | net.CIDR) -> bool",
        "whether the whole of a network is in it",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
        "true",
    ),
    ("net.CIDR.ip() -> net.IP", "the address that it was written with", "cidr('10.1.2.3/8').ip()", "ip('10.1.2.3')"),
    (
        "net.CIDR.masked() -> net.CIDR",
        "the same network with all other bits zero",
        "cidr('10.1.2.3/8').masked()",
        "cidr('10.0.0.0/8')",
    ),
    ("net.CIDR.prefixLength() -> int", "how many bits the network has", "cidr('::/48').prefixLength()", "48"),
    ("string(net.CIDR) -> string", "the network in the usual form", "string(cidr('10.0.0.0/8'))", "'10.0.0.0/8'"),
)

FORMATS = _rows(
    "format",
    (
        "format.named(string) -> optional(Format)",
        "the format of that name, if there is one",
        "format.named('uuid').hasValue()",
        "true",
    ),
    (
        "Format.validate(string) -> optional(list(string))",
        "what is wrong with a text, empty if nothing",
        "format.uuid().validate('x').value()",
        "['does not match the UUID format']",
    ),
    ("format.dns1123Label() -> Format", "a DNS label", "format.dns1123Label().validate('my-name').hasValue()", "false"),
    (
        "format.dns1123Subdomain() -> Format",
        "a DNS name",
        "format.dns1123Subdomain().validate('apps.k8s.io').hasValue()",
        "false",
    ),
    (
        "format.dns1035Label() -> Format",
        "a DNS label that begins with a letter",
        "format.dns1035Label().validate('1a').hasValue()",
        "true",
    ),
    (
        "format.qualifiedName() -> Format",
        "a label key",
        "format.qualifiedName().validate('example.com/MyName').hasValue()",
        "false",
    ),
    (
        "format.dns1123LabelPrefix() -> Format",
        "the beginning of a DNS label: it may end in a dash",
        "format.dns1123LabelPrefix().validate('pre-').hasValue()",
        "false",
    ),
    (
        "format.dns1123SubdomainPrefix() -> Format",
        "the beginning of a DNS name",
        "format.dns1123SubdomainPrefix().validate('a.pre-').hasValue()",
        "false",
    ),
    (
        "format.dns1035LabelPrefix() -> Format",
        "the beginning of a DNS label that begins with a letter",
        "format.dns1035LabelPrefix().validate('pre-').hasValue()",
        "false",
    ),
    ("format.labelValue() -> Format", "a label value", "format.labelValue().validate('-x').hasValue()", "true"),
    (
        "format.uri() -> Format",
        "what `url` accepts",
        "format.uri().validate('x').value()",
        "['parse \"x\": invalid URI for request']",
    ),
    (
        "format.uuid() -> Format",
        "a UUID, with or without dashes",
        "format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        "false",
    ),
    ("format.byte() -> Format", "Base64", "format.byte().validate('aGVsbG8=').hasValue()", "false"),
    ("format.date() -> Format", "a date", "format.date().validate('2026-02-29').value()", "['invalid date']"),
    (
        "format.datetime() -> Format",
        "a date and time",
        "format.datetime().validate('2026-01-01T00:00:00Z').hasValue()",
        "false",
    ),
)

SEMVER = _rows(
    "semver",
    (
        "semver(string) -> Semver",
        "a complete semantic version; an error for anything else",
        "semver('1.2.3').minor()",
        "2",
    ),
    (
        "semver(string, bool) -> Semver",
        "when true, a leading v, leading zeros and missing numbers are allowed",
        "semver('v1.02', true)",
        "semver('1.2.0')",
    ),
    ("isSemver(string) -> bool", "whether `semver` accepts it", "isSemver('v1.0')", "false"),
    (
        "isSemver(string, bool) -> bool",
        "whether `semver` accepts it with the same second argument",
        "isSemver('v1.0', true)",
        "true",
    ),
    ("Semver.major() -> int", "the first number", "semver('1.2.3').major()", "1"),
    ("Semver.minor() -> int", "the second number", "semver('1.2.3').minor()", "2"),
    ("Semver.patch() -> int", "the third number", "semver('1.2.3').patch()", "3"),
    (
        "Semver.isLessThan(Semver) -> bool",
        "lower precedence: a pre-release is below its release",
        "semver('1.2.3-rc.1').isLessThan(semver('1.2.3'))",
        "true",
    ),
    (
        "Semver.isGreaterThan(Semver) -> bool",
        "higher precedence",
        "semver('1.10.0').isGreaterThan(semver('1.9.0'))",
        "true",
    ),
    (
        "Semver.compareTo(Semver) -> int",
        "-1 when lower, 0 when equal, 1 when higher; build metadata does not count",
        "semver('1.0.0+a').compareTo(semver('1.0.0+b'))",
        "0",
    ),
    (
        "semver.compare(string, string) -> bool",
        "whether a version fits a constraint: comparisons joined by spaces (and) and || (or), `x` for any number",
        "semver.compare('v3.27.2', '>=3.25.0 <4.0.0 || 5.x')",
        "true",
    ),
)

EXAMPLES = [
    *OPERATORS,
    *MACROS,
    *TWO_VARIABLES,
    *STANDARD,
    *OPTIONALS,
    *STRINGS,
    *LISTS,
    *KUBERNETES_LISTS,
    *SETS,
    *URLS,
    *REGEX,
    *QUANTITIES,
    *IP,
    *CIDR,
    *FORMATS,
    *SEMVER,
]
