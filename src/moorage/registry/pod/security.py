"""Validation of what the security contexts of pods and of their containers have in common."""

from __future__ import annotations

import re

from moorage.api.meta import Data
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, syntax
from moorage.registry.pod.volumesources import descending
from moorage.validation.field import duplicate, invalid, not_supported, required, too_long

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_MAX_PROFILE = 4095
_MAX_SYSCTL = 253
_SYSCTL = re.compile(r"(?:[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?")
_SYSCTL_TEXT = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_ODD_USER = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_MAX_USER = 104


def profile_errors(path: str, context: Data) -> Errors:
    """Validate the profiles of seccomp and AppArmor, and the options for Windows."""
    if (seccomp := context.get("seccompProfile")) is not None:
        yield from _seccomp_errors(f"{path}.seccompProfile", seccomp)
    if (windows := context.get("windowsOptions")) is not None:
        yield from _windows_errors(f"{path}.windowsOptions", windows)
    if (profile := context.get("appArmorProfile")) is not None:
        yield from _app_armor_errors(f"{path}.appArmorProfile", profile)


def _type_errors(path: str, kind: str, holder: str) -> Errors:
    if not kind:
        yield required(f"{path}.type", f"type is required when {holder} is set")
    elif kind not in _PROFILES:
        yield not_supported(f"{path}.type", kind, _PROFILES)


def _seccomp_errors(path: str, profile: Data) -> Errors:
    kind, place = profile.get("type", ""), profile.get("localhostProfile")
    yield from _type_errors(path, kind, "seccompProfile")
    if kind == "Localhost" and place is None:
        yield required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    elif kind == "Localhost" and place is not None:
        yield from descending(f"{path}.localhostProfile", place)
    elif place is not None:
        yield invalid(f"{path}.localhostProfile", profile, "can only be set when seccomp type is Localhost")


def _app_armor_errors(path: str, profile: Data) -> Errors:
    kind, name = profile.get("type", ""), profile.get("localhostProfile", "")
    here = f"{path}.localhostProfile"
    yield from _type_errors(path, kind, "appArmorProfile")
    if kind == "Localhost":
        if not name:
            yield required(here, "must be set when AppArmor type is Localhost")
        elif name != name.strip():
            yield invalid(here, name, "must not be padded with whitespace")
        if len(name) > _MAX_PROFILE:
            yield too_long(here, _MAX_PROFILE)
    elif "localhostProfile" in profile and kind in _PROFILES:
        yield invalid(here, name, "can only be set when AppArmor type is Localhost")


def _windows_errors(path: str, options: Data) -> Errors:
    if (name := options.get("gmsaCredentialSpecName")) is not None:
        yield from syntax(f"{path}.gmsaCredentialSpecName", name, namesyntax.subdomain(name))
    if options.get("gmsaCredentialSpec") == "":
        yield invalid(f"{path}.gmsaCredentialSpec", "", "gmsaCredentialSpec cannot be an empty string")
    if (whole := options.get("runAsUserName")) is None:
        return
    problems = [f"runAsUserName {problem}" for problem in _user_problems(whole)]
    yield from syntax(f"{path}.runAsUserName", whole, problems)


def _user_problems(whole: str) -> list[str]:
    *_, user = whole.split("\\")
    if not whole:
        return ["cannot be an empty string"]
    if whole.count("\\") > 1:
        return ["cannot contain more than one backslash"]
    problems = [] if user else ["User cannot be empty"]
    if len(user) > _MAX_USER:
        problems.append(f"User length must not be longer than {_MAX_USER} characters")
    if user and not user.strip(". "):
        problems.append("User cannot contain only periods or spaces")
    if _ODD_USER.search(user):
        problems.append('User cannot contain the following characters: "/\\:;|=,+*?<>@[]')
    return problems


def sysctl_errors(path: str, settings: list[Data]) -> Errors:
    """Validate settings of the kernel."""
    seen: set[str] = set()
    for index, setting in enumerate(settings):
        here, name = f"{path}[{index}].name", setting.get("name", "")
        if not name:
            yield required(here)
        elif len(name) > _MAX_SYSCTL or not _SYSCTL.fullmatch(name):
            yield invalid(here, name, f"must have at most {_MAX_SYSCTL} characters and match regex {_SYSCTL_TEXT}")
        elif name in seen:
            yield duplicate(here, name)
        seen.add(name)
