"""Commands ask a running cluster, or a snapshot of it, and say what they could not read."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
import yaml

from moorage.api.meta import Data
from moorage.cli.progress import ReadingProgress
from moorage.features import Gate
from moorage.tools.snapshot import KINDS
from tests.apiserver.kubectl import needs_kubectl
from tests.cli.commands import moorage

_ROOT = Path(__file__).parents[2]
_GATE = "WildcardTolerationKeys"
_NODE = {
    "metadata": {"name": "edge-1", "uid": "n"},
    "spec": {"taints": [{"key": "rack", "value": "7", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}  # fmt: skip
_POD = {
    "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
    "spec": {
        "containers": [{"name": "c", "image": "i", "env": [{"name": "TOKEN", "value": "hush-hush"}]}],
        "tolerations": [{"key": "ra*", "operator": "Exists"}],
    },
}
_METRICS = "".join(
    f'kubernetes_feature_enabled{{name="{gate.value}",stage="ALPHA"}} {int(gate.value == _GATE)}\n' for gate in Gate
)


@dataclass(slots=True)
class _Cluster:
    """A server without TLS on this machine, as `kubectl proxy` is one."""

    url: str = ""
    refused: dict[str, int] = field(default_factory=dict)
    """The codes with which paths that end so are answered."""
    metrics: str = _METRICS
    blocked: Event = field(default_factory=Event)
    """Set when somebody has asked for what is never answered."""
    released: Event = field(default_factory=Event)

    def answer(self, path: str) -> tuple[int, str]:
        resource = path.partition("?")[0].rpartition("/")[2]
        code = self.refused.get(resource, self.refused.get("*", 200))
        if code == 0:
            self.blocked.set()
            self.released.wait(60)
        if code != 200:
            return code, json.dumps({"kind": "Status", "code": code, "message": f"{resource} is refused"})
        if resource == "metrics":
            return 200, self.metrics
        items: list[Data] = {"nodes": [_NODE], "pods": [_POD]}.get(resource, [])
        return 200, json.dumps({"metadata": {}, "items": items})


@contextmanager
def _serving() -> Iterator[_Cluster]:
    cluster = _Cluster()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = cluster.answer(self.path)
            with suppress(ConnectionError):
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        cluster.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield cluster
        finally:
            cluster.released.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def cluster() -> Iterator[_Cluster]:
    with _serving() as cluster:
        yield cluster


@pytest.fixture
def kubeconfig(cluster: _Cluster, tmp_path: Path) -> str:
    """A kubeconfig whose current context leads nowhere, and whose context `here` to the cluster."""
    servers = {"here": cluster.url, "nowhere": "http://127.0.0.1:9"}
    file = tmp_path / "config"
    file.write_text(json.dumps({
        "clusters": [{"name": name, "cluster": {"server": url}} for name, url in servers.items()],
        "contexts": [{"name": name, "context": {"cluster": name, "namespace": "shop"}} for name in servers],
        "current-context": "nowhere",
    }))  # fmt: skip
    return str(file)


def test_a_snapshot_answers_as_the_cluster_does(kubeconfig: str, tmp_path: Path) -> None:
    file = str(tmp_path / "cluster.gz")
    taken = moorage("snapshot", "-o", file, "--kubeconfig", kubeconfig, "--context", "here")
    assert (taken.returncode, taken.stderr) == (0, "")
    assert taken.stdout == f"{file}: nodes 1, pods 1, objects in all 2\n"
    assert b"hush-hush" not in gzip.decompress(Path(file).read_bytes())
    assert Path(file).stat().st_mode & 0o077 == 0
    live = moorage("why", "--kubeconfig", kubeconfig, "--context", "here")
    again = moorage("why", "-f", file)
    assert "Pod shop/web" in live.stdout
    assert "may run on 1 of 1 node" in live.stdout  # by the gate that the cluster says is on
    assert (again.returncode, again.stdout) == (live.returncode, live.stdout)
    without = moorage("why", "-f", file, "--feature-gates", f"{_GATE}=false")
    assert "may run on 0 of 1 node" in without.stdout


def test_beside_a_stock_api_server_all_gates_count_as_on_in_a_snapshot_too(
    cluster: _Cluster, kubeconfig: str, tmp_path: Path
) -> None:
    cluster.metrics = 'kubernetes_feature_enabled{name="TaintTolerationComparisonOperators",stage="ALPHA"} 0\n'
    chosen, file = ("--kubeconfig", kubeconfig, "--context", "here"), str(tmp_path / "cluster.gz")
    moorage("snapshot", "-o", file, *chosen)
    live, again = moorage("why", *chosen), moorage("why", "-f", file)
    assert live.stderr == again.stderr
    assert "the API server does not know the gates, so only attach mode applies rules" in live.stderr
    assert "may run on 1 of 1 node" in live.stdout
    assert again.stdout == live.stdout


def test_a_snapshot_stands_among_manifests(kubeconfig: str, tmp_path: Path) -> None:
    file = str(tmp_path / "cluster.gz")
    moorage("snapshot", "-o", file, "--kubeconfig", kubeconfig, "--context", "here")
    more = tmp_path / "more.json"
    more.write_text(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-2"}}))
    assert "may run on 2 of 2 nodes" in moorage("why", "-f", file, "-f", str(more)).stdout


def test_the_current_context_of_the_environment_is_asked(kubeconfig: str) -> None:
    ended = moorage("rollback", _GATE, "--context", "here", KUBECONFIG=kubeconfig)
    assert "web" in ended.stdout
    assert ended.returncode == 1
    ended = moorage("rollback", _GATE, KUBECONFIG=kubeconfig)
    assert ended.returncode == 2
    assert ended.stderr.startswith("moorage: http://127.0.0.1:9 cannot be reached: ")
    assert ended.stderr.count("\n") == 1


def test_what_may_not_be_read_is_named_in_the_answer(cluster: _Cluster, kubeconfig: str, tmp_path: Path) -> None:
    cluster.refused = {"persistentvolumes": 403, "metrics": 403}
    chosen = ("--kubeconfig", kubeconfig, "--context", "here")
    live = moorage("why", *chosen)
    unread = "note: persistentvolumes could not be read, and are taken to be none\n"
    gates = "note: the cluster does not say which gates are on: all are taken to be off (see --feature-gates)\n"
    assert live.stderr == unread + gates
    taken = moorage("snapshot", "-o", str(tmp_path / "c.gz"), *chosen)
    assert taken.returncode == 0
    assert "note: persistentvolumes are not in it: persistentvolumes is refused\n" in taken.stderr
    assert moorage("why", "-f", str(tmp_path / "c.gz")).stderr == unread + gates
    assert moorage("why", *chosen, "--feature-gates", f"{_GATE}=true").stderr == unread


@pytest.mark.parametrize(
    ("refused", "sentence"),
    [
        ({"*": 403}, "nothing may be read: "),
        ({"*": 401}, "it does not know who asks, so check the kubeconfig: "),
        ({"pods": 500}, "pods is refused"),
    ],
)
def test_a_cluster_that_refuses_is_one_sentence(
    cluster: _Cluster, kubeconfig: str, tmp_path: Path, refused: dict[str, int], sentence: str
) -> None:
    cluster.refused = refused
    for command in (("why",), ("snapshot", "-o", str(tmp_path / "c.gz"))):
        ended = moorage(*command, "--kubeconfig", kubeconfig, "--context", "here")
        assert ended.returncode == 2
        assert sentence in ended.stderr
        assert ended.stderr.startswith(f"moorage: {cluster.url}: ")
        assert ended.stderr.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["config"]


def test_a_snapshot_that_cannot_be_written_is_one_sentence(kubeconfig: str, tmp_path: Path) -> None:
    chosen = ("--kubeconfig", kubeconfig, "--context", "here")
    ended = moorage("snapshot", "-o", str(tmp_path / "none" / "c.gz"), *chosen)
    assert (ended.returncode, ended.stderr) == (2, f"moorage: {tmp_path}/none/c.gz: No such file or directory\n")


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_ROOT / "src"), "KUBECONFIG": str(folder / "config")}


def test_ctrl_c_in_the_middle_leaves_nothing(cluster: _Cluster, kubeconfig: str, tmp_path: Path) -> None:
    cluster.refused = {"pods": 0}
    # A shell has those that it starts in the background ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    command = [sys.executable, "-m", "moorage", "snapshot", "--context", "here", "-o", str(tmp_path / "c.gz")]
    with subprocess.Popen(command, env=_environment(tmp_path), stderr=subprocess.PIPE, text=True) as process:
        assert cluster.blocked.wait(60)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "moorage: interrupted\n")
    assert [file.name for file in tmp_path.iterdir()] == ["config"]


def test_files_beside_a_named_cluster_add_to_it(kubeconfig: str, tmp_path: Path) -> None:
    more = tmp_path / "pod.json"
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    tolerations = [{"key": "rack", "operator": "Exists"}]
    spec = {"containers": [container], "tolerations": tolerations}
    more.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"}, "spec": spec}))
    ended = moorage("capacity", "--kubeconfig", kubeconfig, "--context", "here", "-f", str(more))
    assert "Pod default/large: 1 more fit on 1 of 1 node" in ended.stdout, ended


def test_a_snapshot_goes_through_a_pipe(kubeconfig: str, tmp_path: Path) -> None:
    run = f"{sys.executable} -m moorage"
    line = f"{run} snapshot --context here -o - | {run} why -f -"
    done = subprocess.run(
        ["/bin/sh", "-c", line], env=_environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "may run on 1 of 1 node" in done.stdout


def test_manifests_come_through_a_named_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    documents = [{"apiVersion": "v1", "kind": kind, **data} for kind, data in (("Node", _NODE), ("Pod", _POD))]
    writer = Thread(target=pipe.write_text, args=("\n".join(map(json.dumps, documents)),))
    writer.start()
    assert "may run on 0 of 1 node" in moorage("why", "-f", str(pipe)).stdout
    writer.join()


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, shown in ((_Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        with ReadingProgress() as progress:
            progress("pods", 1000, 50_000)
        text = stream.getvalue()
        assert ("reading pods: 1,000 of 50,000" in text) is shown
        assert text.endswith("\r\x1b[K") is shown


def _installed(folder: Path) -> str:
    """A folder of programs in which `kubectl-moorage` is what the wheel installs."""
    module, _, function = _scripts()["kubectl-moorage"].partition(":")
    program = folder / "kubectl-moorage"
    program.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def _scripts() -> dict[str, str]:
    project: dict[str, dict[str, str]] = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    return project["scripts"]


@needs_kubectl
def test_kubectl_has_the_commands_too(kubeconfig: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    environment = _environment(tmp_path) | {"PATH": _installed(tmp_path / "bin")}

    def kubectl(*args: str) -> subprocess.CompletedProcess[str]:
        command = [shutil.which("kubectl") or "kubectl", "moorage", *args]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    asked = kubectl("why", "--context", "here")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert "Pod shop/web" in asked.stdout
    assert kubectl("why", "--help").stdout.startswith("Usage: kubectl moorage why")
    assert kubectl("why", "--context", "gone").returncode == 2


def test_the_role_of_the_docs_may_read_everything_and_change_nothing() -> None:
    page = (_ROOT / "docs" / "snapshot.md").read_text()
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    *rules, metrics = yaml.safe_load(text)["rules"]
    assert metrics == {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    assert all(rule["verbs"] == ["list"] for rule in rules)
    may = {(group, resource) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]}
    assert may == {(kind.group, kind.plural) for kind in KINDS}
