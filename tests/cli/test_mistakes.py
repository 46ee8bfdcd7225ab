"""Whatever is wrong with a command, one sentence says what and where, and the exit code is 2."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import Ended, moorage
from tests.plane import api_server

GATE = "WildcardTolerationKeys"
COMMANDS = (
    "up", "apiserver", "scheduler", "controllers", "why", "lint", "rollback", "perf", "demo", "cel check", "cel eval",
    "store check", "store backup", "store restore",
)  # fmt: skip
EXPRESSION = "cel eval --env node true"
READS_MANIFESTS = (
    "why -f {}",
    "lint {}",
    f"rollback {GATE} -f {{}}",
    EXPRESSION + " -f {}",
    "lint pod.yaml --nodes {}",
)
READS_KUBECONFIG = ("scheduler --kubeconfig {}", "controllers --kubeconfig {}", f"rollback {GATE} --kubeconfig {{}}")
READS_FILES = (
    *READS_MANIFESTS, *READS_KUBECONFIG, "perf --config {}", "scheduler --kubeconfig kubeconfig --config {}",
    "controllers --kubeconfig kubeconfig --root-ca-file {}",
)  # fmt: skip
ETCD = "apiserver --store etcd://127.0.0.1:1"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
KUBECONFIG = """\
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
SCHEDULING = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
UNREADABLE = "/proc/self/mem"
"""A file that is there and cannot be read, not even by root."""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with files that are right and files that are not, as the current one."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "bad.yaml": "a: [1, 2\nb: 3\n", "empty.yaml": "", "list.yaml": "- a\n", "map.yaml": "x: 1\n",
        "pod.yaml": POD, "kubeconfig": KUBECONFIG, "some.pem": "nothing",
        "profiles.yaml": f"{SCHEDULING}profiles: {{}}\n",
        "plugins.yaml": f"{SCHEDULING}profiles: [{{plugins: {{score: {{enabled: [{{name: Nope}}]}}}}}}]\n",
        "two.yaml": f"{SCHEDULING}---\n{SCHEDULING}",
    }.items():  # fmt: skip
        Path(name).write_text(text)
    Path("binary.yaml").write_bytes(b"\xff\xfe\x00")
    Path("folder").mkdir()
    Path("theirs").mkdir()
    Path("theirs/notes.txt").write_text("not for you")


@pytest.fixture(autouse=True)
def _garbage_collection() -> Iterator[None]:
    """Servers make it rarer for the whole process."""
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def check(ended: Ended, sentence: str) -> None:
    assert ended.stderr.startswith("moorage: "), ended
    assert sentence in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert (ended.returncode, ended.stdout) == (2, "")


def table() -> Iterator[tuple[str, str]]:
    """Command lines, and a part of the sentence that each is answered with."""
    yield "nope", "No such command 'nope' (see 'moorage --help')"
    yield "wy", "No such command 'wy'. Did you mean 'why'? (see 'moorage --help')"
    yield "--frobnicate", "No such option '--frobnicate' (see 'moorage --help')"
    yield "cel nope", "No such command 'nope' (see 'moorage cel --help')"
    for command in COMMANDS:
        yield f"{command} --frobnicate", f"No such option '--frobnicate' (see 'moorage {command} --help')"
    for command in ("up", "apiserver", "scheduler", "controllers", "why", "lint"):
        yield (
            f"{command} --feature-gates Nope=true",
            "unknown feature gate 'Nope': the known ones are AllAlpha, AllBeta, ",
        )
        yield f"{command} --feature-gates Nope", "feature gate 'Nope' has no value: write Nope=true or Nope=false"
        yield f"{command} --feature-gates AllAlpha=maybe", "'maybe' for feature gate AllAlpha: must be true or false"
    yield "up --nodes -1", "'--nodes': -1 is not in the range 0<=x<=100000"
    yield "up --nodes many", "'--nodes': 'many' is not a valid integer range"
    yield "apiserver --port 70000", "'--port': 70000 is not in the range 0<=x<=65535"
    yield "scheduler --kubeconfig x --metrics-port 0", "'--metrics-port': 0 is not in the range 1<=x<=65535"
    yield "controllers --kubeconfig x --controllers nope", "there is no controller 'nope': known are taint-eviction-"
    yield "controllers --kubeconfig x --controllers nope --controllers job", "there is no controller 'nope'"
    yield "scheduler --kubeconfig x --leader-elect-lease-duration 15", "'15' is not a duration such as 15s"
    yield (
        "scheduler --kubeconfig x --leader-elect-lease-duration 5s",
        "leaseDuration must be greater than renewDeadline",
    )
    yield "demo now", "Got unexpected extra argument (now)"
    for command in ("why", f"rollback {GATE}", "scheduler", "controllers"):
        yield command, "there is no kubeconfig at none: name one with --kubeconfig"
    yield "why -f pod.yaml -o xml", "'xml' is not one of"
    yield "lint", "name at least one file or folder of manifests, or - for standard input"
    yield "lint x --ignore nope", "unknown rule nope: the rules are unreadable, admission,"
    yield "perf", "Missing option '--config'"
    gates = "TaintTolerationComparisonOperators, TolerationAffinitySemverOperators, TaintTolerationNodeAffinityCEL"
    yield "rollback Nope", f"'Nope' is no gate; the gates are {gates}, {GATE}"
    yield "cel check true", "Missing option '--env'. Choose from: taint, node"
    yield "cel check --env pod true", "'pod' is not one of 'taint', 'node'"
    yield EXPRESSION, "give either manifests of nodes with -f, or an input with --set"
    yield f"{EXPRESSION} --set rack", "--set takes NAME=VALUE, not 'rack'"
    yield "cel eval --env taint true --set colour=red", "a taint has no colour: it has key, value, effect, timeAdded"
    for command in ("store check", "store backup copy", "store restore copy"):
        yield f"{command} --data-dir pod.yaml", "Directory 'pod.yaml' is a file"
    for command in ("store check", "store check --data-dir theirs", "store backup copy"):
        yield command, " holds no moorage.db: objects that are in etcd are copied with etcdctl snapshot save and "
    yield "store backup", "Missing argument 'COPY'"
    yield "store restore theirs", "theirs holds no moorage.db: "
    yield from files()
    yield from servers()


def files() -> Iterator[tuple[str, str]]:
    for line in READS_FILES:
        yield line.format("none.yaml"), "none.yaml: No such file or directory"
        yield line.format("pod.yaml/x"), "pod.yaml/x: Not a directory"
        yield line.format(UNREADABLE), f"{UNREADABLE}: Input/output error"
        if line not in READS_MANIFESTS:
            yield line.format("folder"), "File 'folder' is a directory (see"
    for line in READS_MANIFESTS:
        yield line.format("folder"), "folder: no .yaml, .yml, .json files in this folder"
        yield line.format("bad.yaml"), "bad.yaml:2: document 1: bad YAML: did not find expected ',' or ']'"
        yield line.format("binary.yaml"), "binary.yaml:1: not text in UTF-8"
        yield line.format("list.yaml"), "list.yaml:1: document 1: an object is a map with apiVersion and kind"
    for line in ("why -f {}", "lint pod.yaml --nodes {}", EXPRESSION + " -f {}"):
        yield line.format("map.yaml"), "map.yaml:1: document 1: apiVersion: is missing"
    yield "why -f empty.yaml", "no pods and no pod templates in empty.yaml"
    yield "why -f pod.yaml", "no nodes in pod.yaml: add them with -f"
    yield "lint empty.yaml", "no objects of known kinds in empty.yaml"
    yield f"{EXPRESSION} -f pod.yaml", "no nodes in pod.yaml"
    for line in READS_KUBECONFIG:
        yield line.format("bad.yaml"), "bad.yaml"
        yield line.format("list.yaml"), "list.yaml: is no kubeconfig: expected a map with clusters, users and"
        yield line.format("map.yaml"), "map.yaml: current-context: is missing: name a context"
    scheduling = "scheduler --kubeconfig kubeconfig --config {}"
    yield scheduling.format("bad.yaml"), "bad.yaml:2: not YAML: did not find expected ',' or ']' while parsing a flow"
    yield scheduling.format("binary.yaml"), "binary.yaml: not text in UTF-8"
    for name in ("empty.yaml", "list.yaml", "two.yaml"):
        yield scheduling.format(name), f"{name}: a configuration is a map of fields"
    yield scheduling.format("map.yaml"), "map.yaml: apiVersion and kind must be kubescheduler.config.k8s.io/v1 and"
    yield scheduling.format("profiles.yaml"), "profiles.yaml: profiles: expected a list, got a map"
    yield scheduling.format("plugins.yaml"), "plugins.yaml: profiles[0].plugins.score: no plugin 'Nope': there are"
    for name in ("empty.yaml", "binary.yaml", "some.pem"):
        line = f"controllers --kubeconfig kubeconfig --root-ca-file {name}"
        yield line, f"{name}: holds no certificate in PEM form"
    yield "perf --config bad.yaml", "bad.yaml:2: bad YAML: did not find expected ',' or ']'"
    yield "perf --config binary.yaml", "binary.yaml: not text in UTF-8"
    yield "perf --config empty.yaml", "empty.yaml: the file is empty"
    yield "perf --config list.yaml", "list.yaml:1: [0]: expected a map, got a string"
    yield "perf --config map.yaml", "map.yaml:1: expected a list, got a map"


def servers() -> Iterator[tuple[str, str]]:
    for command in ("up", "apiserver"):
        yield f"{command} --data-dir pod.yaml", "Directory 'pod.yaml' is a file"
        yield f"{command} --data-dir pod.yaml/x", "pod.yaml/x: Not a directory"
        yield f"{command} --data-dir theirs", "theirs: holds other files (notes.txt) and none of Moorage's: name an"
        yield f"{command} --bind nope.invalid", "nope.invalid:6443: "
        yield f"{command} --store mysql", "'mysql' is not a store: say sqlite or etcd://HOST:PORT,…"
        yield f"{command} --store etcd://", "'etcd://' is not a store: say etcd://HOST:PORT,…"
    yield (
        "apiserver --etcd-cafile some.pem",
        (
            "--etcd-cafile, --etcd-certfile and --etcd-keyfile are for --store etcd://HOST:PORT,… "
            "(see 'moorage apiserver --help')"
        ),
    )
    yield f"{ETCD} --etcd-cafile none.pem", "none.pem cannot be read: No such file or directory"
    yield f"{ETCD} --etcd-cafile some.pem", "some.pem: holds no certificate in PEM form"
    yield f"{ETCD} --etcd-certfile some.pem", "--etcd-certfile and --etcd-keyfile go together"
    yield f"{ETCD} --etcd-keyfile some.pem", "--etcd-certfile and --etcd-keyfile go together"
    pair = "--etcd-certfile some.pem --etcd-keyfile empty.yaml"
    yield from shared_files()
    yield f"{ETCD} {pair}", "some.pem and empty.yaml: hold no certificate and its key in PEM form"


def shared_files() -> Iterator[tuple[str, str]]:
    pair, accounts = (
        "--tls-cert-file {} --tls-private-key-file {}",
        ("--service-account-signing-key-file {} --service-account-key-file {}"),
    )
    for command in ("up", "apiserver"):
        for option in pair.split(" {}")[:2]:
            yield f"{command} {option} some.pem", "--tls-cert-file and --tls-private-key-file go together (see"
        for option in accounts.split(" {}")[:2]:
            yield (
                f"{command} {option} some.pem",
                "--service-account-signing-key-file and --service-account-key-file go together (see",
            )
        yield (
            f"{command} --enable-admission-plugins PodNodeSelector",
            "PodNodeSelector is not a plugin that can be enabled",
        )
        yield f"{command} --advertise-address nope", "'nope' is no IP address by which clients can reach a server"
        yield f"{command} --advertise-address 0.0.0.0", "'0.0.0.0' is no IP address by which clients can reach a server"
    for line in (pair, accounts, "--client-ca-file {}", "--token-auth-file {}"):
        yield f"apiserver --data-dir data {line.format('none.pem', 'some.pem')}", "none.pem: No such file or directory"
        yield f"apiserver {line.format('folder', 'some.pem')}", "File 'folder' is a directory (see"
    yield f"apiserver --data-dir data {pair.format('some.pem', 'none.pem')}", "none.pem: No such file or directory"
    yield f"apiserver --data-dir data {pair.format('some.pem', 'some.pem')}", "some.pem and some.pem: hold no cert"
    yield f"apiserver --data-dir data {accounts.format('some.pem', 'some.pem')}", "some.pem: holds no RSA or ECDSA"
    yield "apiserver --data-dir data --client-ca-file some.pem", "some.pem: holds no certificate in PEM form"
    yield "apiserver --data-dir data --token-auth-file some.pem", "some.pem, line 1: "


@pytest.mark.parametrize(("line", "sentence"), list(table()), ids=[line for line, _ in table()])
def test_a_mistake_is_answered_with_one_sentence(line: str, sentence: str) -> None:
    check(moorage(*line.split()), sentence)


CREATE_PODS = {"opcode": "createPods", "count": 1, "collectMetrics": True}
WORKLOADS = {
    "an unknown operation": ([{"opcode": "nope"}], "workloadTemplate[0]: no operation 'nope' here: there are create"),
    "a negative count": ([{"opcode": "createNodes", "count": -1}], "workloadTemplate[0].count: workload x: "),
    "an operation that is no map": ([5], "workloadTemplate[0]: expected a map, got an integer"),
    "no parameter": ([{"opcode": "createNodes", "countParam": "$size"}], "there is no parameter size: the workload"),
    "a bad default": ([{"opcode": "createNodes", "countParam": "$size|[1"}], "the default of parameter size is not"),
    "a factor that is no number": (
        [{"opcode": "createNodes", "count": 1, "countMultiplierParam": "$word"}], "1 times 'many' is not a count",
    ),
    "no values for a label": (
        [{"opcode": "createNodes", "count": 1, "labelNodePrepareStrategy": {"labelKey": "a", "labelValues": []}}],
        "labelNodePrepareStrategy.labelValues: workload x: ",
    ),
    "a bad duration": ([{"opcode": "sleep", "duration": "soon"}], "'soon' is not a duration: write 500ms, 10s or"),
    "nothing measured": ([{"opcode": "createNodes", "count": 1}], "nothing is measured"),
    "an absent template": ([{**CREATE_PODS, "podTemplatePath": "none.yaml"}], "none.yaml: No such file or directory"),
    "a folder as template": ([{**CREATE_PODS, "podTemplatePath": "folder"}], "folder: Is a directory"),
    "a template in bad YAML": ([{**CREATE_PODS, "podTemplatePath": "bad.yaml"}], "bad.yaml:2: bad YAML: "),
    "a binary template": ([{**CREATE_PODS, "podTemplatePath": "binary.yaml"}], "binary.yaml: not text in UTF-8"),
    "a template without kind": ([{**CREATE_PODS, "podTemplatePath": "map.yaml"}], "map.yaml: apiVersion: is missing"),
    "a template of another shape": (
        [{**CREATE_PODS, "podTemplatePath": "shape.yaml"}], "shape.yaml: spec: expected a map, got a list",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_mistake_in_a_workload_is_answered_before_anything_runs(name: str) -> None:
    operations, sentence = WORKLOADS[name]
    test = {"name": "A", "workloadTemplate": operations, "workloads": [{"name": "x", "params": {"word": "many"}}]}
    Path("shape.yaml").write_text(f"{POD}spec: []\n")
    Path("workloads.yaml").write_text(yaml.safe_dump([test]))
    check(moorage("perf", "--config", "workloads.yaml"), sentence)


def test_a_test_without_workloads_and_an_unknown_workload_are_answered() -> None:
    test = {"name": "A", "workloadTemplate": [CREATE_PODS], "workloads": [{"name": "x"}]}
    Path("workloads.yaml").write_text(yaml.safe_dump([test]))
    check(moorage("perf", "--config", "workloads.yaml", "--workload", "Huge"), "no workload 'Huge': there are A/x")
    Path("workloads.yaml").write_text(yaml.safe_dump([{**test, "workloads": []}]))
    check(moorage("perf", "--config", "workloads.yaml"), "workloads.yaml:6: [0].workloads: A has no workloads: give")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("up --port {}", "127.0.0.1:{}: Address already in use: stop what listens there, or choose another port"),
        ("apiserver --port {}", "127.0.0.1:{}: Address already in use: stop what listens there, or choose another"),
        ("scheduler --kubeconfig kubeconfig --metrics-port {}", "port {}: Address already in use: choose another one"),
        ("controllers --kubeconfig kubeconfig --metrics-port {}", "port {}: Address already in use: choose another"),
    ],
)
def test_a_port_in_use_is_named(line: str, sentence: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        check(moorage(*line.format(port).split()), sentence.format(port))


async def test_a_data_directory_in_use_is_named(tmp_path: Path) -> None:
    import asyncio

    async with api_server(tmp_path / "data"):
        for command in ("up", "apiserver"):
            ended = await asyncio.to_thread(moorage, command, "--data-dir", "data", "--port", "0")
            check(ended, "data/moorage.db is in use by another process: stop that one, or choose another data dir")


def test_a_file_that_is_no_database_is_named() -> None:
    Path("data").mkdir()
    Path("data/moorage.db").write_text("nothing")
    for command in ("up", "apiserver"):
        check(moorage(command, "--data-dir", "data"), "data/moorage.db is not a Moorage database: move it away, or")


def test_a_garbled_file_of_tokens_is_named() -> None:
    Path("data").mkdir()
    Path("data/tokens.csv").write_text('abc,ann,1,"dev\n')
    for command in ("up", "apiserver"):
        check(moorage(command, "--data-dir", "data"), "data/tokens.csv, line 1: unexpected end of data: write token,")
