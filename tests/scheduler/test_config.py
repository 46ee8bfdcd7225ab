"""A scheduler does what its configuration says, and a configuration that cannot be used says which field is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.client.leases import LeaseTerms
from moorage.scheduler import config
from moorage.scheduler.config import Configuration, ConfigurationError, registered
from moorage.scheduler.framework import Cycle, Plugin
from moorage.scheduler.profile import Profile
from moorage.scheduler.table.nodes import Mask, Rows
from moorage.scheduler.table.shape import PodInfo, Shape
from tests.scheduler.profile_on_table import ProfileOnTable, node, pod
from tests.scheduler.stage import stage

Data = dict[str, Any]


def written(*profiles: Data, **more: Any) -> Data:
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**kind, "profiles": list(profiles), **more}


def profile(plugins: Data | None = None, args: Mapping[str, Data] | None = None, **more: Any) -> Profile:
    given = [{"name": name, "args": told} for name, told in (args or {}).items()]
    configuration = Configuration.of(written({"plugins": plugins or {}, "pluginConfig": given, **more}))
    return ProfileOnTable(configuration=configuration).profile


def scores(of: Profile) -> dict[str, int]:
    return {each.plugin.name: each.weight for each in of.scores}


def test_plugins_have_the_order_and_weights_of_kube_scheduler() -> None:
    default = ProfileOnTable(configuration=Configuration()).profile
    order = [
        "AttachedRules", "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts",
        "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone",
        "PodTopologySpread", "InterPodAffinity", "DynamicResources",
    ]  # fmt: skip
    assert [plugin.name for plugin in default.filters] == order  # the first is ours
    expected = {
        "TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2, "NodeResourcesFit": 1,
        "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1,
    }  # fmt: skip
    assert scores(default).items() >= expected.items()
    assert default.binder.name == "DefaultBinder"


def test_a_plugin_can_be_left_out_at_one_point_and_stay_at_the_others() -> None:
    found = profile({"score": {"disabled": [{"name": "TaintToleration"}]}})
    assert "TaintToleration" not in scores(found)
    assert "TaintToleration" in [plugin.name for plugin in found.filters]


def test_a_plugin_can_be_left_out_everywhere() -> None:
    found = profile({"multiPoint": {"disabled": [{"name": "TaintToleration"}]}})
    assert "TaintToleration" not in scores(found)
    assert "TaintToleration" not in [plugin.name for plugin in found.filters]


def test_all_may_be_left_out_but_for_some() -> None:
    found = profile({"filter": {"enabled": [{"name": "NodePorts"}], "disabled": [{"name": "*"}]}})
    assert [plugin.name for plugin in found.filters] == ["NodePorts"]


def test_weights_can_be_set_at_one_point_or_for_all() -> None:
    at_score = profile({"score": {"enabled": [{"name": "ImageLocality", "weight": 9}]}})
    assert scores(at_score)["ImageLocality"] == 9
    everywhere = profile({"multiPoint": {"enabled": [{"name": "NodeResourcesFit", "weight": 5}]}})
    assert scores(everywhere)["NodeResourcesFit"] == 5
    assert scores(everywhere)["TaintToleration"] == 3


def test_a_plugin_keeps_its_weight_when_it_is_named_without_one() -> None:
    assert scores(profile({"multiPoint": {"enabled": [{"name": "TaintToleration"}]}}))["TaintToleration"] == 3


def test_plugins_named_for_a_point_come_first() -> None:
    found = profile({"filter": {"enabled": [{"name": "NodeResourcesFit"}, {"name": "NodePorts"}]}})
    assert [plugin.name for plugin in found.filters][:2] == ["NodeResourcesFit", "NodePorts"]


def test_most_allocated_packs_pods_together() -> None:
    packed = Configuration.of(
        written(
            {
                "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}},
                "pluginConfig": [
                    {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
                ],
            }
        )
    )
    engine = ProfileOnTable(configuration=packed)
    for name in ("empty", "used"):
        engine.table.set_node(node(name))
    engine.table.add_pod(engine.info(pod({"cpu": "1"}), "used"))
    assert engine.best(pod({"cpu": "1"})) == {"used"}


async def test_profiles_of_several_names_place_pods_each_in_its_own_way(tmp_path: Path) -> None:
    configuration = Configuration.of(
        written(
            {"schedulerName": "default-scheduler"},
            {"schedulerName": "careless", "plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}},
        )
    )
    async with stage(tmp_path, configuration=configuration) as here:
        await here.node("tainted", taints=[{"key": "gpu", "effect": "NoSchedule"}])
        await here.pod("careful")
        await here.pod("careless", schedulerName="careless")
        await here.pod("nobodys", schedulerName="somebody-else")
        assert await here.node_of("careless") == "tainted"
        assert "untolerated taint(s)" in await here.unschedulable("careful")
        assert "nobodys" not in {entry.info.key[1] for entry in here.scheduler.queue.pods.values()}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "a configuration is a map of fields"),
        ({"apiVersion": "kubescheduler.config.k8s.io/v1beta3", "kind": "KubeSchedulerConfiguration"}, "apiVersion and"),
        ({"apiVersion": "v1", "kind": "Pod"}, "apiVersion and kind must be"),
        (written(extenders=[{"urlPrefix": "http://x"}]), "extenders: not supported"),
        (written({"schedulerName": "a"}, {"schedulerName": "a"}), "a schedulerName of its own"),
        (written({"plugins": {"filtre": {}}}), "profiles[0].plugins.filtre: no such extension point"),
        (written({"plugins": {"filter": {"enabled": [{"name": "Nope"}]}}}), "no plugin 'Nope': there are "),
        (written({}, {"schedulerName": "b", "plugins": {"queueSort": {"disabled": [{"name": "*"}]}}}),
         "profiles[1].plugins.queueSort: exactly one plugin"),
        (written({"plugins": {"bind": {"disabled": [{"name": "DefaultBinder"}]}}}), "plugins.bind: at least"),
        (written(podInitialBackoffSeconds=0), "podInitialBackoffSeconds must be above 0"),
        (written(podInitialBackoffSeconds=5, podMaxBackoffSeconds=4), "podMaxBackoffSeconds not below it"),
        (written({"plugins": []}), "profiles[0].plugins"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_be_used_says_what_is_wrong(data: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Configuration.of(data)
    assert words in str(raised.value)


FIT, RATIO = "NodeResourcesFit", "RequestedToCapacityRatio"


@pytest.mark.parametrize(
    ("plugin", "args", "words"),
    [
        (FIT, {"scoringStrategy": {"type": "Best"}}, "scoringStrategy.type: 'Best': there are LeastAllocated, Most"),
        (FIT, {"scoringStrategy": {"type": RATIO}}, "shape: points must have rising utilizations"),
        (FIT, {"scoringStrategy": {"type": RATIO, "requestedToCapacityRatio": {"shape": [{"score": 11}]}}}, "0 to 10"),
        (FIT, {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}}, "a weight from 1 to 100"),
        (FIT, {"scoringStrategy": {"resources": [{"name": "cpu", "weight": -1}]}}, "a weight from 1 to 100"),
        (FIT, {"ignoredResources": "cpu"}, "ignoredResources: expected a list"),
        ("NodeResourcesBalancedAllocation", {"resources": [{"weight": 1}]}, "each must have a name"),
        ("NodeAffinity", {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]}}}, "Affinity: a Like"),
        ("DefaultPreemption", {"minCandidateNodesPercentage": 101}, "must be from 0 to 100"),
        ("DefaultPreemption", {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}, "must be from 0"),
    ],
)  # fmt: skip
def test_what_a_plugin_cannot_be_told_is_refused(plugin: str, args: Data, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        profile(args={plugin: args})
    assert str(raised.value).startswith(f"pluginConfig of {plugin}: ")
    assert words in str(raised.value)


def test_a_file_is_read_and_named_when_it_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(written(podMaxBackoffSeconds=60, leaderElection={"leaderElect": False})))
    found = Configuration.read(file)
    assert (found.last_backoff, found.leader_elect) == (60, False)
    for text, words in (("a: [", "not YAML"), ("- 1", "a map of fields")):
        file.write_text(text)
        with pytest.raises(ConfigurationError, match=words) as raised:
            Configuration.read(file)
        assert str(raised.value).startswith(str(file))
    with pytest.raises(ConfigurationError, match="No such file"):
        Configuration.read(tmp_path / "missing.yaml")


class EvenNames(Plugin):
    """A plugin that somebody else wrote."""

    name = "EvenNames"
    reason = "node(s) had an odd name"

    def applies(self, shape: Shape) -> bool:
        """Whether it was told so."""
        return bool(self.args.get("even"))

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """The name has an even number of letters."""
        table = self.handle.table
        mask = table.alive.copy()
        for name, row in table.rows.items():
            mask[row] &= len(name) % 2 == 0
        return mask[rows]


def test_a_plugin_of_another_package_is_found_and_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("EvenNames", f"{__name__}:EvenNames", config.ENTRY_POINTS)
    points = {config.ENTRY_POINTS: [point]}
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points.get(group, []))
    assert registered()["EvenNames"] is EvenNames
    given = {"plugins": {"filter": {"enabled": [{"name": "EvenNames"}]}}}
    told = [{"name": "EvenNames", "args": {"even": True}}]
    engine = ProfileOnTable(configuration=Configuration.of(written({**given, "pluginConfig": told})))
    for name in ("abc", "abcd"):
        engine.table.set_node(node(name))
    assert engine.best(pod()) == {"abcd"}
    engine.table.remove_node("abcd")
    assert engine.message(pod()) == "0/1 nodes are available: 1 node(s) had an odd name."


def test_the_lease_is_the_one_that_is_written() -> None:
    assert Configuration.of(written()).lease == LeaseTerms("moorage-scheduler", "kube-system", 15, 10, 2)
    election = {
        "leaderElect": True, "resourceName": "mine", "resourceNamespace": "ours", "leaseDuration": "1m",
        "renewDeadline": "40s", "retryPeriod": "500ms",
    }  # fmt: skip
    assert Configuration.of(written(leaderElection=election)).lease == LeaseTerms("mine", "ours", 60, 40, 0.5)


@pytest.mark.parametrize(
    ("election", "problem"),
    [
        ({"leaseDuration": "soon"}, "leaderElection: 'soon' is not a duration such as 15s"),
        ({"leaseDuration": "5s"}, "leaderElection: leaseDuration must be greater than renewDeadline"),
    ],
)
def test_a_lease_that_cannot_be_kept_is_refused(election: Data, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Configuration.of(written(leaderElection=election))


class Clumsy(Plugin):
    """A plugin that fails now and then."""

    name = "Clumsy"
    fails: list[str] = []

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """Fails for one pod."""
        if cycle.pod.key[1] in self.fails:
            raise RuntimeError("somebody stumbled")
        return self.handle.table.alive[rows]

    async def pre_bind(self, cycle: Cycle, node: str) -> None:
        """Fails for another."""
        if f"bind {cycle.pod.key[1]}" in self.fails:
            raise RuntimeError("somebody stumbled again")

    def pre_enqueue(self, pod: PodInfo) -> str:
        """Never holds anybody back."""
        return ""


async def test_a_plugin_that_stumbles_over_one_pod_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("Clumsy", f"{__name__}:Clumsy", config.ENTRY_POINTS)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    enabled = {"multiPoint": {"enabled": [{"name": "Clumsy"}]}}
    configuration = Configuration.of(written({"plugins": enabled}))
    async with stage(tmp_path, configuration=configuration) as here:
        Clumsy.fails = ["first", "bind second"]
        await here.node("only", cpu="2")
        await here.pod("first", requests={"cpu": "500m", "memory": "1Gi"})
        await here.pod("second", requests={"cpu": "1"})
        await here.pod("third", requests={"cpu": "400m"})
        assert await here.node_of("third") == "only"
        Clumsy.fails = []
        assert await here.node_of("second") == "only"
        assert await here.node_of("first") == "only"
