"""How pods are printed."""

from __future__ import annotations

from moorage.registry.printing import cells
from moorage.registry.printing.ages import human
from moorage.registry.printing.cells import NONE, PrintedRow
from moorage.registry.printing.columns import AGE, NAME, Columns, column, wide

_COMPLETED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def _pod_ready(row: PrintedRow) -> str:
    """How many of the containers are ready."""
    return f"{row.pod.ready}/{row.pod.total}"


def _pod_status(row: PrintedRow) -> str:
    """The status of a pod in one word."""
    return row.pod.reason


def _pod_restarts(row: PrintedRow) -> str:
    """How often containers were restarted, and how long ago the last one was."""
    pod = row.pod
    if pod.restarts and pod.last_restart:
        return f"{pod.restarts} ({human((row.now - pod.last_restart).total_seconds())} ago)"
    return str(pod.restarts)


def _pod_ip(row: PrintedRow) -> str:
    """The first address."""
    addresses = row.status.get("podIPs")
    return (addresses[0].get("ip") if addresses else row.status.get("podIP")) or NONE


def _readiness_gates(row: PrintedRow) -> str:
    """How many of the readiness gates are true."""
    gates = row.spec.get("readinessGates")
    if not gates:
        return NONE
    conditions = row.status.get("conditions") or ()
    passed = sum(cells.condition_status(conditions, gate["conditionType"]) == "True" for gate in gates)
    return f"{passed}/{len(gates)}"


COLUMNS: Columns = (
    NAME,
    column("Ready", _pod_ready, "How many of its containers are ready."),
    column("Status", _pod_status, "What its containers are at."),
    column("Restarts", _pod_restarts, "How often its containers were restarted, and how long ago."),
    AGE,
    wide("IP", _pod_ip, "Its address."),
    wide("Node", cells.at("spec.nodeName", NONE), "Where it runs."),
    wide("Nominated Node", cells.at("status.nominatedNodeName", NONE), "Where room is being made for it."),
    wide("Readiness Gates", _readiness_gates, "How many of its further conditions for being ready hold."),
)


def row_conditions(row: PrintedRow) -> list[dict[str, str]]:
    """A pod that has ended is marked as completed."""
    phase = str(row.status.get("phase"))
    if phase not in _COMPLETED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _COMPLETED[phase]}]
