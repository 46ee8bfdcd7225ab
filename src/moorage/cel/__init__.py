"""A typed, costed CEL engine with the Kubernetes libraries. It knows nothing about pods.

An expression goes through the stages in this order, each a folder or a module:

1. `syntax`: source text to tokens to a syntax tree, macros expanded
2. `check`: types for every node, overloads for every call, and which keys of a map are read
3. `cost`: bounds of what one evaluation can cost
4. `codegen`: the checked tree as a Python code object
5. `evaluate`: the evaluator that walks the tree, for what native code cannot do and for errors that are absorbed
6. `program`: all of it together, ready to be evaluated many times

An `env` holds what expressions may mention: the standard library (`stdlib`), the extensions (`ext`), variables, objects
and functions of one's own; `environments` has those of Kubernetes. The names below are the public interface.
"""

from moorage.cel.cache import ProgramCache
from moorage.cel.check.checker import Checked
from moorage.cel.check.declarations import Field
from moorage.cel.env import Env, kubernetes
from moorage.cel.environments import DEVICE_ENV, NODE_ENV, TAINT_ENV
from moorage.cel.errors import CompileError, EvalError, Issue
from moorage.cel.library import Cost, Function, Library, define
from moorage.cel.program import Program
from moorage.cel.reasons import explain
from moorage.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    object_of,
    opaque,
    optional_of,
)
from moorage.cel.values import Duration, Optional, Timestamp, UInt

__all__ = [
    "BOOL",
    "BYTES",
    "DEVICE_ENV",
    "DOUBLE",
    "DURATION",
    "DYN",
    "INT",
    "NODE_ENV",
    "NULL",
    "STRING",
    "TAINT_ENV",
    "TIMESTAMP",
    "UINT",
    "Checked",
    "CompileError",
    "Cost",
    "Duration",
    "Env",
    "EvalError",
    "Field",
    "Function",
    "Issue",
    "Library",
    "Optional",
    "Program",
    "ProgramCache",
    "Timestamp",
    "Type",
    "UInt",
    "define",
    "explain",
    "kubernetes",
    "list_of",
    "map_of",
    "object_of",
    "opaque",
    "optional_of",
]
