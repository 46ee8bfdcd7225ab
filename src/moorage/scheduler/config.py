"""Profiles as they are without any configuration."""

from __future__ import annotations

from moorage.scheduler.framework import Handle
from moorage.scheduler.plugins.registry import DEFAULTS
from moorage.scheduler.profile import Profile

DEFAULT_NAME = "default-scheduler"


def default_profiles(handle: Handle) -> dict[str, Profile]:
    """The one profile that there is when nobody says otherwise."""
    plugins = [plugin(handle, {}) for plugin, _ in DEFAULTS]
    weights = {plugin.name: weight for plugin, weight in DEFAULTS}
    return {DEFAULT_NAME: Profile(DEFAULT_NAME, plugins, weights, handle)}
