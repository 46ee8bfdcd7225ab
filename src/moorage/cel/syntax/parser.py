"""Tokens to a syntax tree, without recursion: brackets and operands wait on explicit stacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from moorage.cel.ast import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Message,
    Select,
    children,
)
from moorage.cel.errors import NOWHERE, CompileError, Issue, Source
from moorage.cel.syntax.lexer import END, Token, tokens
from moorage.cel.syntax.literals import number, unquote
from moorage.cel.syntax.macros import Expander, Macro, MacroError

NESTING_MAX = 250
_CODE_POINTS_MAX = 100_000
_DEPTH_FREE_TOKENS = 80

MacroKey = tuple[str, int, bool]

_OR, _AND, _RELATION, _ADD, _MULTIPLY = 1, 2, 3, 4, 5
_BINARY = {
    "||": (_OR, "_||_"),
    "&&": (_AND, "_&&_"),
    "<": (_RELATION, "_<_"),
    "<=": (_RELATION, "_<=_"),
    ">": (_RELATION, "_>_"),
    ">=": (_RELATION, "_>=_"),
    "==": (_RELATION, "_==_"),
    "!=": (_RELATION, "_!=_"),
    "in": (_RELATION, "@in"),
    "+": (_ADD, "_+_"),
    "-": (_ADD, "_-_"),
    "*": (_MULTIPLY, "_*_"),
    "/": (_MULTIPLY, "_/_"),
    "%": (_MULTIPLY, "_%_"),
}
_PREFIX = {"!": "!_", "-": "-_"}

_RESERVED = frozenset((
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
    "namespace", "return", "var", "void", "while",
))  # fmt: skip
_CONSTANTS = {"true": True, "false": False, "null": None}
_CLOSERS = {"(": ")", "[": "]", "index": "]", "call": ")", "{": "}", "message": "}", "then": ":", "start": END}
_SEPARATED = frozenset(("[", "call", "{", "message"))
_OPTIONALS = frozenset(("[", "{", "message", "index"))


def parse(source: Source, macros: Mapping[MacroKey, Macro], *, optional_syntax: bool = True) -> Expr:
    """The syntax tree of an expression with its macros expanded; CompileError with everything that is wrong."""
    if len(source.text) > _CODE_POINTS_MAX:
        size = f"expression code point size exceeds limit: size: {len(source.text)}, limit {_CODE_POINTS_MAX}"
        raise CompileError(source, [Issue(NOWHERE, size)])
    stream, issues = tokens(source)
    parser = _Parser(stream, issues, macros, optional_syntax)
    expr = parser.run()
    if expr is not None and len(stream) > _DEPTH_FREE_TOKENS and _too_deep(expr):
        issues.append(recursion_issue())
    if issues or expr is None:
        raise CompileError(source, issues)
    return expr


def recursion_issue() -> Issue:
    """The error of an expression that is nested too deeply."""
    return Issue(NOWHERE, f"expression recursion limit exceeded: {NESTING_MAX}")


class _SyntaxError(Exception):
    """The rest cannot be read: `issues` has the reason."""


class _Frame:
    """An open bracket, or an open branch of `?:`, with the operands and operators collected in it so far."""

    __slots__ = (
        "items", "key", "kind", "mark", "name", "offset", "operands", "operators", "optionals", "plain", "prefix",
        "target",
    )  # fmt: skip

    def __init__(self, kind: str, offset: int, name: str = "", target: Expr | None = None) -> None:
        self.kind = kind
        self.offset = offset
        self.name = name
        self.target = target
        self.operands: list[Expr] = []
        self.operators: list[tuple[int, str, int]] = []
        self.prefix: tuple[str, int] | None = None
        self.items: list[Any] = []
        self.key: tuple[Any, int] | None = None
        self.mark = False
        self.optionals: set[int] = set()
        self.plain = False

    @property
    def empty(self) -> bool:
        """Nothing has been read since the bracket or the last comma."""
        return not self.operands and self.prefix is None and not self.mark and self.key is None


class _Parser:
    """Reads tokens one by one; `complete` says whether the innermost frame has an operand or waits for one."""

    def __init__(
        self, stream: list[Token], issues: list[Issue], macros: Mapping[MacroKey, Macro], optional_syntax: bool
    ) -> None:
        self.stream = stream
        self.position = 0
        self.issues = issues
        self.macros = macros
        self.optional_syntax = optional_syntax
        self.new_id = count(1).__next__
        self.frames = [_Frame("start", 0)]
        self.complete = False

    def run(self) -> Expr | None:
        """The tree, or None after a syntax error: the issues have the reason."""
        start = self.frames[0]
        try:
            while self.frames:
                token = self.stream[self.position]
                self.position += 1
                if self.complete:
                    self.operator(self.frames[-1], token)
                else:
                    self.operand(self.frames[-1], token)
        except _SyntaxError:
            return None
        return start.operands[0]

    def report(self, offset: int, message: str) -> Literal:
        """Note an error that does not keep the rest from being read; the node takes the place of what is wrong."""
        self.issues.append(Issue(offset, message))
        return Literal(self.new_id(), offset, None)

    def unexpected(self, token: Token, expected: str) -> _SyntaxError:
        """Note a token that fits nowhere."""
        kind = "extraneous" if expected == END else "mismatched"
        self.issues.append(Issue(token.offset, f"Syntax error: {kind} input '{token.text}' expecting {expected}"))
        return _SyntaxError()

    def push(self, frame: _Frame) -> None:
        """Open a bracket or branch."""
        self.frames.append(frame)
        self.complete = False
        if len(self.frames) > NESTING_MAX:
            self.issues.append(recursion_issue())
            raise _SyntaxError

    def give(self, expr: Expr, *, plain: bool = False) -> None:
        """Hand an operand to the innermost frame."""
        frame = self.frames[-1]
        frame.operands.append(expr)
        frame.plain = plain
        self.complete = True

    def operand(self, frame: _Frame, token: Token) -> None:
        """Read a token where an operand must start."""
        kind = token.kind
        if frame.kind == "message" and frame.key is None and kind not in ("?", ",", "}"):
            self.field(frame, token)
        elif kind in _OPERANDS:
            _OPERANDS[kind](self, token)
        elif kind in _PREFIX:
            self.sign(frame, token)
        elif kind == "?" and frame.empty and frame.kind in _OPTIONALS:
            self.optional(frame, token)
        elif frame.empty and self.closes_empty(frame, token):
            self.close(frame)
        else:
            raise self.unexpected(token, "an expression")

    def constant(self, token: Token) -> None:
        """Read `true`, `false` or `null`."""
        self.give(Literal(self.new_id(), token.offset, _CONSTANTS[token.kind]))

    def bracket(self, token: Token) -> None:
        """Open a bracket that starts an operand."""
        self.push(_Frame(token.kind, token.offset))

    def root_name(self, dot: Token) -> None:
        """Read a name that a dot makes absolute."""
        token = self.stream[self.position]
        self.position += 1
        if token.kind != "ident":
            raise self.unexpected(token, "a name")
        self.name(token, dot)

    def name(self, token: Token, dot: Token | None = None) -> None:
        """Read a variable, or the start of a call."""
        text = "." + token.text if dot else token.text
        following = self.stream[self.position]
        if token.text in _RESERVED and following.kind != "{":
            self.report((dot or token).offset, f"reserved identifier: {token.text}")
        if following.kind == "(":
            self.position += 1
            self.push(_Frame("call", following.offset, text))
        else:
            self.give(Ident(self.new_id(), token.offset, text), plain=True)

    def sign(self, frame: _Frame, token: Token) -> None:
        """Read all the `!` or `-` before an operand: pairs cancel out, and one `-` belongs to a number behind it."""
        start = self.position
        while self.stream[self.position].kind == token.kind:
            self.position += 1
        number = self.stream[self.position]
        if token.kind == "-" and self.position == start and number.kind in ("int", "float"):
            self.position += 1
            self.number(number, token)
        elif frame.prefix:
            raise self.unexpected(token, "an expression")
        else:
            odd = (self.position - start) % 2 == 0
            frame.prefix = (_PREFIX[token.kind] if odd else "", token.offset)

    def optional(self, frame: _Frame, token: Token) -> None:
        """Read the `?` of an element, key, field or index that may be absent."""
        if not self.optional_syntax:
            index = frame.kind == "index"
            self.report(frame.offset if index else token.offset, f"unsupported syntax '{'[?' if index else '?'}'")
        frame.mark = True

    def closes_empty(self, frame: _Frame, token: Token) -> bool:
        """Whether a bracket may close here: it is empty, or its last comma may stand before the bracket."""
        if frame.kind not in _SEPARATED:
            return False
        if token.kind == "," and not frame.items and frame.kind != "call":
            closer = self.stream[self.position]
            self.position += 1
            return closer.kind == _CLOSERS[frame.kind]
        return token.kind == _CLOSERS[frame.kind] and (not frame.items or frame.kind != "call")

    def field(self, frame: _Frame, token: Token) -> None:
        """Read `name:` in a message."""
        if token.kind not in ("ident", "quoted"):
            raise self.unexpected(token, "a field name")
        colon = self.stream[self.position]
        self.position += 1
        if colon.kind != ":":
            raise self.unexpected(colon, "':'")
        frame.key = (token.text.strip("`"), colon.offset)

    def operator(self, frame: _Frame, token: Token) -> None:
        """Read a token behind a complete operand."""
        kind = token.kind
        if kind == ".":
            self.select(frame, token)
            return
        if kind == "[":
            self.push(_Frame("index", token.offset, target=frame.operands.pop()))
            return
        if kind == "{" and frame.plain:
            name = _qualified(frame.operands.pop())
            self.push(_Frame("message", token.offset, name))
            return
        if frame.prefix:
            self.unary(frame)
        if kind in _BINARY:
            precedence, function = _BINARY[kind]
            self.reduce(frame, precedence if precedence > _AND else precedence + 1)
            frame.operators.append((precedence, function, token.offset))
            self.complete = False
        else:
            self.reduce(frame, 0)
            self.end(frame, token)

    def end(self, frame: _Frame, token: Token) -> None:
        """Read a token that ends an operand of a frame: a comma, a bracket, `?` or `:`, or the end of the source."""
        kind = token.kind
        entry = frame.kind in ("{", "message")
        if kind == "?" and frame.kind != "then":
            self.push(_Frame("then", token.offset, target=frame.operands.pop()))
        elif frame.kind == "else":
            # What ends the branch also belongs to the frame around it.
            self.position -= 1
            self.close(frame)
        elif entry and frame.key is None:
            if kind != ":":
                raise self.unexpected(token, "':'")
            frame.key = (frame.operands.pop(), token.offset)
            self.complete = False
        elif kind == "," and frame.kind in _SEPARATED:
            self.item(frame)
            self.complete = False
        elif kind == _CLOSERS[frame.kind]:
            self.close(frame)
        else:
            closer = _CLOSERS[frame.kind]
            raise self.unexpected(token, closer if closer == END else f"'{closer}'")

    def select(self, frame: _Frame, dot: Token) -> None:
        """Read `.field`, `.?field` or the start of `.method(…)`."""
        token = self.stream[self.position]
        self.position += 1
        optional = token.kind == "?"
        if optional:
            token = self.stream[self.position]
            self.position += 1
        if token.kind not in ("ident", "quoted"):
            raise self.unexpected(token, "a field name")
        operand = frame.operands.pop()
        following = self.stream[self.position]
        if following.kind == "(" and token.kind == "ident" and not optional:
            self.position += 1
            self.push(_Frame("call", following.offset, token.text, operand))
        elif not optional:
            plain = frame.plain and token.kind == "ident"
            self.give(Select(self.new_id(), dot.offset, operand, token.text.strip("`")), plain=plain)
        elif not self.optional_syntax:
            self.give(self.report(dot.offset, "unsupported syntax '.?'"))
        else:
            field = Literal(self.new_id(), token.offset, token.text.strip("`"))
            self.give(Call(self.new_id(), dot.offset, "_?._", [operand, field]))

    def unary(self, frame: _Frame) -> None:
        """Apply the prefix that waited for its operand."""
        assert frame.prefix is not None
        function, offset = frame.prefix
        frame.prefix = None
        if function:
            frame.operands[-1] = Call(self.new_id(), offset, function, [frame.operands[-1]])

    def reduce(self, frame: _Frame, floor: int) -> None:
        """Apply the operators of at least this precedence. A chain of && or || becomes a balanced tree."""
        operands, operators = frame.operands, frame.operators
        while operators and operators[-1][0] >= floor:
            precedence, function, offset = operators[-1]
            if precedence > _AND:
                operators.pop()
                right = operands.pop()
                operands[-1] = Call(self.new_id(), offset, function, [operands[-1], right])
                continue
            first = len(operators)
            while first and operators[first - 1][0] == precedence:
                first -= 1
            offsets = [entry[2] for entry in operators[first:]]
            terms = operands[-len(offsets) - 1 :]
            del operators[first:], operands[-len(terms) :]
            operands.append(self.balanced(function, terms, offsets, 0, len(offsets) - 1))

    def balanced(self, function: str, terms: list[Expr], offsets: list[int], low: int, high: int) -> Expr:
        """A tree of logarithmic depth over `terms[low : high + 2]`."""
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else self.balanced(function, terms, offsets, low, middle - 1)
        right = terms[middle + 1] if middle == high else self.balanced(function, terms, offsets, middle + 1, high)
        return Call(self.new_id(), offsets[middle], function, [left, right])

    def item(self, frame: _Frame) -> None:
        """Add the finished operand to the elements, arguments or entries of its bracket."""
        value = frame.operands.pop()
        if frame.key is not None:
            key, offset = frame.key
            frame.items.append(MapEntry(self.new_id(), offset, key, value, frame.mark))
            frame.key = None
        else:
            if frame.mark:
                frame.optionals.add(len(frame.items))
            frame.items.append(value)
        frame.mark = False

    def close(self, frame: _Frame) -> None:
        """Take the innermost frame away and hand what it makes to the one around it."""
        if frame.kind in _SEPARATED and frame.operands:
            self.item(frame)
        self.frames.pop()
        _CLOSES[frame.kind](self, frame)

    def close_call(self, frame: _Frame) -> None:
        """Make a call."""
        self.give(self.call(frame.name, frame.target, frame.items, frame.offset))

    def close_index(self, frame: _Frame) -> None:
        """Make an index."""
        assert frame.target is not None
        function = "_[?_]" if frame.mark else "_[_]"
        self.give(Call(self.new_id(), frame.offset, function, [frame.target, frame.operands[0]]))

    def close_list(self, frame: _Frame) -> None:
        """Make a list."""
        self.give(ListLiteral(self.new_id(), frame.offset, frame.items, frozenset(frame.optionals)))

    def close_map(self, frame: _Frame) -> None:
        """Make a map."""
        self.give(MapLiteral(self.new_id(), frame.offset, frame.items))

    def close_message(self, frame: _Frame) -> None:
        """Make a message."""
        self.give(Message(self.new_id(), frame.offset, frame.name, frame.items))

    def close_then(self, frame: _Frame) -> None:
        """Go on with what stands behind the colon."""
        branch = _Frame("else", frame.offset, target=frame.target)
        branch.items = frame.operands
        self.push(branch)

    def close_else(self, frame: _Frame) -> None:
        """Make a conditional."""
        assert frame.target is not None
        self.give(Call(self.new_id(), frame.offset, "_?_:_", [frame.target, *frame.items, frame.operands[0]]))

    def call(self, name: str, target: Expr | None, args: list[Expr], offset: int) -> Expr:
        """A call, or what the macro of its name makes of it."""
        macro = self.macros.get((name, len(args), target is not None))
        if macro is None:
            return Call(self.new_id(), offset, name, args, target)
        try:
            expansion = macro.expand(Expander(self.new_id, offset), target, args)
        except MacroError as error:
            return self.report(error.offset, error.message)
        if expansion is None:
            return Call(self.new_id(), offset, name, args, target)
        if isinstance(expansion, Comprehension):
            expansion.macro = Call(self.new_id(), offset, name, args, target)
        return expansion

    def number(self, token: Token, minus: Token | None = None) -> None:
        """Read an int, uint or double literal."""
        value = number(token.kind, "-" if minus else "", token.text)
        offset = (minus or token).offset
        if value is None:
            name = "double" if token.kind == "float" else token.kind
            self.give(self.report(offset, f"invalid {name} literal"))
        else:
            self.give(Literal(self.new_id(), offset, value))

    def text(self, token: Token) -> None:
        """Read a string or bytes literal."""
        try:
            self.give(Literal(self.new_id(), token.offset, unquote(token.text)))
        except ValueError as error:
            self.give(self.report(token.offset, str(error)))


_OPERANDS: dict[str, Callable[[_Parser, Token], None]] = {
    "ident": _Parser.name,
    "string": _Parser.text,
    "int": _Parser.number,
    "uint": _Parser.number,
    "float": _Parser.number,
    "true": _Parser.constant,
    "false": _Parser.constant,
    "null": _Parser.constant,
    "(": _Parser.bracket,
    "[": _Parser.bracket,
    "{": _Parser.bracket,
    ".": _Parser.root_name,
}

_CLOSES: dict[str, Callable[[_Parser, _Frame], None]] = {
    "start": lambda _, __: None,
    "(": lambda parser, frame: parser.give(frame.operands[0]),
    "call": _Parser.close_call,
    "index": _Parser.close_index,
    "[": _Parser.close_list,
    "{": _Parser.close_map,
    "message": _Parser.close_message,
    "then": _Parser.close_then,
    "else": _Parser.close_else,
}


def _qualified(expr: Expr) -> str:
    parts: list[str] = []
    while isinstance(expr, Select):
        parts.append(expr.field)
        expr = expr.operand
    parts.append(expr.name if isinstance(expr, Ident) else "")
    return ".".join(reversed(parts))


def _too_deep(expr: Expr) -> bool:
    """Whether later stages, which do recurse, could run out of stack."""
    level = [expr]
    for _ in range(NESTING_MAX):
        level = [child for node in level for child in children(node)]
        if not level:
            return False
    return True
