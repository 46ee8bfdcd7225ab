"""The options of the audit log, by the names that kube-apiserver gives them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moorage.cli.options import cannot_run

if TYPE_CHECKING:
    from moorage.apiserver.audit.log import AuditSettings

_FILE = click.Path(dir_okay=False, path_type=Path)
AUDIT_OPTIONS = (
    click.option("--audit-log-path", type=_FILE, help="Write down every request in this file, one JSON object a line."),
    click.option("--audit-policy-file", type=_FILE,
                 help="An audit policy (audit.k8s.io/v1): of which requests how much is written. "
                      "By default the metadata of all."),
    click.option("--audit-log-maxsize", type=click.IntRange(min=1), default=100, show_default=True, metavar="MB",
                 help="How large the file may become before it is moved away and begun again."),
    click.option("--audit-log-maxbackup", type=click.IntRange(min=0), default=0, show_default=True,
                 help="How many files that were moved away are kept; 0 keeps all."),
)  # fmt: skip


def audit_settings(path: Path | None, policy_file: Path | None, megabytes: int, backups: int) -> AuditSettings | None:
    """The audit log that is asked for; ends the command when its policy cannot be read."""
    from moorage.apiserver.audit.log import AuditSettings
    from moorage.apiserver.audit.policy import METADATA_OF_ALL, PolicyError, read_policy

    if path is None:
        if policy_file is not None:
            raise click.UsageError("--audit-policy-file needs --audit-log-path")
        return None
    try:
        policy = read_policy(policy_file) if policy_file else METADATA_OF_ALL
    except PolicyError as error:
        cannot_run(str(error))
    return AuditSettings(path, policy, megabytes << 20, backups)
