"""Source text to tokens, with one regular expression; what it does not match is an error, as ANTLR would report it."""

from __future__ import annotations

import re
from typing import NamedTuple

from moorage.cel.errors import Issue, Source

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_DOUBLE = rf'"(?:[^\\"\n\r]++|{_ESCAPE})*+'
_SINGLE = rf"'(?:[^\\'\n\r]++|{_ESCAPE})*+"

_TOKEN = re.compile(
    rf"""
    (?P<space>[\t\ \r\n\f]+|//[^\n]*)
  | (?P<string>[bB]?(?:
        [rR](?:\"\"\"[\s\S]*?\"\"\"|\'\'\'[\s\S]*?\'\'\'|"[^"\n\r]*"|'[^'\n\r]*')
      | \"\"\"(?:[^\\"]++|{_ESCAPE}|"(?!""))*+\"\"\"
      | \'\'\'(?:[^\\']++|{_ESCAPE}|'(?!''))*+\'\'\'
      | {_DOUBLE}" | {_SINGLE}'))
  | (?P<ident>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<quoted>`[A-Za-z0-9_.\-/\ ]+`)
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<op>&&|\|\||==|!=|<=|>=|[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)

# How far ANTLR's lexer reads before it gives up; the character it stopped at is dropped too.
_BROKEN = re.compile(
    rf"""
    (?:{_DOUBLE}|{_SINGLE})
        (?:\\(?:[0-3][0-7]?|[xX][0-9a-fA-F]?|u[0-9a-fA-F]{{0,3}}|U[0-9a-fA-F]{{0,7}})?)?[\s\S]?
  | `[A-Za-z0-9_.\-/\ ]*[\s\S]?
  | [&|=][\s\S]?
  | [\s\S]
    """,
    re.VERBOSE,
)

_KEYWORDS = frozenset(("in", "true", "false", "null"))


class Token(NamedTuple):
    """A kind (the text itself for operators, keywords and brackets), the text, and where it starts."""

    kind: str
    text: str
    offset: int


END = "<EOF>"


def tokens(source: Source) -> tuple[list[Token], list[Issue]]:
    """All tokens, closed by an END token, and what could not be read as any."""
    text = source.text
    lexed: list[Token] = []
    issues: list[Issue] = []
    position, size = 0, len(text)
    match = _TOKEN.match
    append = lexed.append
    while position < size:
        hit = match(text, position)
        if hit is None:
            broken = _BROKEN.match(text, position)
            assert broken is not None  # its last alternative takes any character
            shown = broken[0].replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
            issues.append(Issue(position, f"Syntax error: token recognition error at: '{shown}'"))
            position = broken.end()
            continue
        kind = hit.lastgroup
        if kind != "space":
            word = hit[0]
            append(Token(word if kind == "op" or word in _KEYWORDS else kind, word, position))  # type: ignore[arg-type]
        position = hit.end()
    append(Token(END, END, size))
    return lexed, issues
