"""The entries of a kubeconfig: clusters, users, contexts and exec plugins, with kubectl's names."""

from __future__ import annotations

from typing import Any

import msgspec

Texts = list[str] | None


class NamedExtension(msgspec.Struct):
    """What another program keeps in a kubeconfig."""

    name: str = ""
    extension: Any = None


class ClusterEntry(msgspec.Struct, rename="kebab"):
    """An API server."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[NamedExtension] | None = None


class ExecVariable(msgspec.Struct):
    """An environment variable of an exec plugin."""

    name: str = ""
    value: str = ""


class ExecEntry(msgspec.Struct, rename="camel"):
    """A command that prints credentials."""

    command: str = ""
    args: Texts = None
    env: list[ExecVariable] | None = None
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class UserEntry(msgspec.Struct, rename="kebab"):
    """Who asks."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    impersonate: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: Texts = None
    as_user_extra: dict[str, list[str]] | None = None
    auth_provider: Any = None
    exec: ExecEntry | None = None


class ContextEntry(msgspec.Struct):
    """A cluster, a user and a namespace, under one name."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""
