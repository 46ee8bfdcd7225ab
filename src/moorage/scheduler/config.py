"""The configuration of the scheduler: which profiles there are, and which plugins each has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from moorage.api import yamltext
from moorage.api.decode import DecodeError, convert
from moorage.api.meta import Wire
from moorage.client.leases import SCHEDULER_LEASE, LeaseTerms
from moorage.gotext import seconds
from moorage.scheduler.framework import Handle, Plugin, overrides
from moorage.scheduler.plugins.attachedrules import COVERS, COVERS_NATIVE, RULE_NAMESPACES, AttachedRules
from moorage.scheduler.plugins.registry import DEFAULTS
from moorage.scheduler.profile import DEFAULT_NAME, POINTS, Profile
from moorage.scheduler.queue import FIRST_BACKOFF, LAST_BACKOFF

ENTRY_POINTS = "moorage.scheduler.plugins"
_API_VERSION, _KIND = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
_EVERY = "*"


class ConfigurationError(ValueError):
    """A configuration that cannot be used; the sentence names the field."""


class PluginRef(Wire):
    """A plugin by name."""

    name: str = ""
    weight: int | None = None


class PluginSet(Wire):
    """Plugins to have and not to have at an extension point."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class PluginConfig(Wire):
    """The arguments of a plugin."""

    name: str = ""
    args: dict[str, Any] = {}


class ProfileSpec(Wire):
    """A profile as it is written."""

    scheduler_name: str = DEFAULT_NAME
    plugins: dict[str, PluginSet] = {}
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElection(Wire):
    """Whether one of several schedulers works at a time, and by which lease."""

    leader_elect: bool = True
    resource_name: str = ""
    resource_namespace: str = ""
    lease_duration: str = ""
    renew_deadline: str = ""
    retry_period: str = ""

    def terms(self) -> LeaseTerms:
        """The lease and its times: ours where nothing is written. Raises ConfigurationError."""
        own = LeaseTerms(SCHEDULER_LEASE)
        terms = LeaseTerms(
            self.resource_name or own.name,
            self.resource_namespace or own.namespace,
            _seconds(self.lease_duration, own.lease_duration),
            _seconds(self.renew_deadline, own.renew_deadline),
            _seconds(self.retry_period, own.retry_period),
        )
        if problem := terms.problem():
            raise ConfigurationError(f"leaderElection: {problem}")
        return terms


def _seconds(text: str, default: float) -> float:
    parsed = seconds(text) if text else default
    if parsed is None:
        raise ConfigurationError(f"leaderElection: {text!r} is not a duration such as 15s")
    return parsed


class _File(Wire):
    api_version: str = ""
    kind: str = ""
    profiles: tuple[ProfileSpec, ...] = ()
    leader_election: LeaderElection = LeaderElection()
    pod_initial_backoff_seconds: int | None = None
    pod_max_backoff_seconds: int | None = None
    extenders: tuple[dict[str, Any], ...] = ()


def built_in() -> dict[str, type[Plugin]]:
    """Our plugins by name."""
    return {plugin.name: plugin for plugin, _ in DEFAULTS}


def registered() -> dict[str, type[Plugin]]:
    """All plugins by name: ours, and those that other packages register, which only a configuration can name."""
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    plugins = built_in()
    for entry_point in entry_points(group=ENTRY_POINTS):
        plugin = entry_point.load()
        plugins[plugin.name] = plugin
    return plugins


@dataclass(frozen=True, slots=True)
class Configuration:
    """How a scheduler is set up."""

    specs: tuple[ProfileSpec, ...] = (ProfileSpec(),)
    first_backoff: float = FIRST_BACKOFF
    last_backoff: float = LAST_BACKOFF
    leader_elect: bool = True
    lease: LeaseTerms = field(default_factory=lambda: LeaseTerms(SCHEDULER_LEASE))
    registry: Mapping[str, type[Plugin]] = field(default_factory=built_in)

    @staticmethod
    def read(file: Path) -> Configuration:
        """The configuration in a file. Raises ConfigurationError."""
        try:
            documents = [root for root in yamltext.parse(file.read_text("utf-8")) if root]
        except OSError as error:
            raise ConfigurationError(f"{file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigurationError(f"{file}: not text in UTF-8") from None
        except yamltext.YAMLTextError as error:
            sentence = error.message.removeprefix("bad YAML: ")
            raise ConfigurationError(f"{file}:{error.line}: not YAML: {sentence}") from None
        try:
            return Configuration.of(documents[0].data if len(documents) == 1 else None)
        except ConfigurationError as error:
            raise ConfigurationError(f"{file}: {error}") from None

    @staticmethod
    def of(data: Any) -> Configuration:
        """The configuration that parsed YAML holds. Raises ConfigurationError."""
        if not isinstance(data, dict):
            raise ConfigurationError("a configuration is a map of fields")
        try:
            written = convert(data, _File)
        except DecodeError as error:
            raise ConfigurationError(str(error)) from None
        if (written.api_version, written.kind) != (_API_VERSION, _KIND):
            raise ConfigurationError(f"apiVersion and kind must be {_API_VERSION} and {_KIND}")
        if written.extenders:
            raise ConfigurationError("extenders: not supported: write a plugin instead, it is one small file")
        specs = written.profiles or (ProfileSpec(),)
        if len({spec.scheduler_name for spec in specs}) < len(specs):
            raise ConfigurationError("profiles: each must have a schedulerName of its own")
        configuration = Configuration(
            specs,
            FIRST_BACKOFF if written.pod_initial_backoff_seconds is None else written.pod_initial_backoff_seconds,
            LAST_BACKOFF if written.pod_max_backoff_seconds is None else written.pod_max_backoff_seconds,
            written.leader_election.leader_elect,
            written.leader_election.terms(),
            registered(),
        )
        if configuration.first_backoff <= 0 or configuration.last_backoff < configuration.first_backoff:
            raise ConfigurationError("podInitialBackoffSeconds must be above 0, podMaxBackoffSeconds not below it")
        for number, spec in enumerate(specs):
            configuration.check(spec, f"profiles[{number}]")
        return configuration

    def attached(self, rule_namespaces: str = "", *, covers_native: bool = True) -> Configuration:
        """The same for a cluster whose other components evict natively: rules in annotations get a native cover.

        Only pods in namespaces with such labels may have rules. Native comparisons are covered too, unless every
        component is known to have their gate on.
        """
        told = {COVERS: True, COVERS_NATIVE: covers_native, RULE_NAMESPACES: rule_namespaces}
        added = PluginConfig(AttachedRules.name, told)
        specs = tuple(msgspec.structs.replace(each, plugin_config=(*each.plugin_config, added)) for each in self.specs)
        return replace(self, specs=specs)

    def check(self, spec: ProfileSpec, where: str) -> None:
        """Refuse a profile that names what does not exist."""
        for point, plugin_set in spec.plugins.items():
            if point not in POINTS and point != "multiPoint":
                raise ConfigurationError(f"{where}.plugins.{point}: no such extension point: {', '.join(POINTS)}")
            for plugin in plugin_set.enabled:
                if plugin.name not in self.registry:
                    known = ", ".join(sorted(self.registry))
                    raise ConfigurationError(f"{where}.plugins.{point}: no plugin {plugin.name!r}: there are {known}")
        if len(_at_point(spec, "queueSort", self.registry)) != 1:
            raise ConfigurationError(f"{where}.plugins.queueSort: exactly one plugin must be enabled")
        if not _at_point(spec, "bind", self.registry):
            raise ConfigurationError(f"{where}.plugins.bind: at least one plugin must be enabled")

    def profiles(self, handle: Handle) -> dict[str, Profile]:
        """The profiles by name."""
        return {spec.scheduler_name: self._profile(spec, handle) for spec in self.specs}

    def _profile(self, spec: ProfileSpec, handle: Handle) -> Profile:
        args = {configured.name: configured.args for configured in spec.plugin_config}
        at = {point: _at_point(spec, point, self.registry) for point in POINTS}
        names = dict.fromkeys(plugin.name for point in at.values() for plugin in point)
        plugins = {}
        for name in names:
            try:
                plugins[name] = self.registry[name](handle, args.get(name, {}))
            except (KeyError, TypeError, ValueError) as error:
                raise ConfigurationError(f"pluginConfig of {name}: {error}") from None
        weights = {plugin.name: plugin.weight or 1 for plugin in at["score"]}
        chosen = {point: [plugins[plugin.name] for plugin in refs] for point, refs in at.items()}
        return Profile.of(spec.scheduler_name, weights, chosen)


def _at_point(spec: ProfileSpec, point: str, registry: Mapping[str, type[Plugin]]) -> list[PluginRef]:
    """The plugins of an extension point: those named for it, then those named for every point."""
    everywhere = _merged(
        [PluginRef(plugin.name, weight) for plugin, weight in DEFAULTS], spec.plugins.get("multiPoint", PluginSet())
    )
    own = spec.plugins.get(point, PluginSet())
    off = {plugin.name for plugin in own.disabled}
    named = {plugin.name for plugin in own.enabled}
    rest = [plugin for plugin in everywhere if plugin.name not in off | named and _EVERY not in off]
    return [plugin for plugin in (*own.enabled, *rest) if overrides(registry[plugin.name], POINTS[point])]


def _merged(defaults: Iterable[PluginRef], plugin_set: PluginSet) -> list[PluginRef]:
    off = {plugin.name for plugin in plugin_set.disabled}
    replaced = {plugin.name: plugin for plugin in plugin_set.enabled}
    kept = []
    for plugin in defaults:
        if plugin.name in replaced:
            kept.append(_weighed(replaced.pop(plugin.name), plugin))
        elif plugin.name not in off and _EVERY not in off:
            kept.append(plugin)
    return [*kept, *replaced.values()]


def _weighed(plugin: PluginRef, default: PluginRef) -> PluginRef:
    return plugin if plugin.weight else msgspec.structs.replace(plugin, weight=default.weight)
