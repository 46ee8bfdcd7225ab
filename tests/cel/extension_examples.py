"""The functions of the language's own extensions, each with an example."""

from __future__ import annotations

from tests.cel.example import rows

STRINGS = rows(
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

LISTS = rows(
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

SETS = rows(
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
