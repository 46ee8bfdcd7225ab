"""The one matcher: does this toleration tolerate that taint, does this node satisfy that selector.

The names below are the public interface: three questions, which take typed objects and plain dicts alike.
"""

from moorage.api.decode import DecodeError
from moorage.features import ALL_ON, NONE_ON, Gate, GateError, Gates
from moorage.features import parse as parse_gates
from moorage.match.questions import explain, selects, tolerates
from moorage.match.verdict import Verdict

__all__ = [
    "ALL_ON",
    "NONE_ON",
    "DecodeError",
    "Gate",
    "GateError",
    "Gates",
    "Verdict",
    "explain",
    "parse_gates",
    "selects",
    "tolerates",
]
