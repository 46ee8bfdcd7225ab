"""How fast pods are placed beside a stock API server: plain ones, ones under rules, and ones that need a cover.

That is kube-apiserver when it is at hand (on the PATH, or in KUBE_APISERVER), otherwise Moorage's with all gates off.
The same load by kube-scheduler, when that is at hand (KUBE_SCHEDULER).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from race import CONNECTIONS, SLA, Load, pod
from serving import Serving, memory, processor_seconds, serving
from upstream import kubernetes

Data = dict[str, Any]
NODES, PODS = 1000, 3000
_THRESHOLD = f'- {{key: {SLA}, operator: Gt, value: "850", effect: %s}}'
RULES = {
    "plain": "",
    "rules": _THRESHOLD % "NoSchedule",
    "rules with a cover": _THRESHOLD % "NoExecute",
}


def ruled(number: int, case: str, scheduler: str) -> Data:
    made = pod(number, "basic")
    made["spec"]["schedulerName"] = scheduler
    if RULES[case]:
        made["metadata"]["annotations"] = {"moorage.dev/tolerations": RULES[case]}
    return made


@contextmanager
def running(server: Serving, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler, with a kubeconfig for the server as its last argument."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kubeconfig")
        cluster = {"server": server.url, "certificate-authority": server.authority}
        context = {"cluster": "bench", "user": "bench"}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "clusters": [{"name": "bench", "cluster": cluster}],
            "users": [{"name": "bench", "user": {"token": server.token}}],
            "contexts": [{"name": "bench", "context": context}],
        }  # fmt: skip
        file.write_text(yaml.safe_dump(config))
        line = [each.replace("KUBECONFIG", str(file)) for each in command]
        with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                yield process
            finally:
                process.terminate()


async def place(server: Serving, scheduler: subprocess.Popen[bytes], case: str, name: str, given: Any) -> None:
    head = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    pool = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=server.authority), limit=CONNECTIONS + 4)
    never: Any = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(server.url, headers=head, connector=pool, timeout=never) as session:
        load = Load(session)
        await load.ready_nodes("basic", given.nodes)
        await asyncio.sleep(3)
        before = processor_seconds(scheduler.pid)
        timing = await load.run_all(lambda number: ruled(number, case, name), given.pods, server, kubelets=False)
        used = processor_seconds(scheduler.pid) - before
    figures = (
        f"{given.pods / timing.bound:8,.0f} bound/s{1e6 * used / given.pods:10,.0f} µs of the scheduler's CPU a pod"
        f"{memory(scheduler.pid):8,.0f} MB"
    )
    print(f"{name:20}{case:20}{figures}", flush=True)


def stock() -> AbstractContextManager[Serving]:
    at_hand = os.environ.get("KUBE_APISERVER") or shutil.which("kube-apiserver")
    return kubernetes("") if at_hand else serving("apiserver", gates="AllAlpha=false")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, default=PODS)
    given = parser.parse_args()
    moorage = [sys.executable, "-m", "moorage", "attach", "run", "--no-leader-elect", "--kubeconfig", "KUBECONFIG"]
    theirs = os.environ.get("KUBE_SCHEDULER") or shutil.which("kube-scheduler")
    runs = [("moorage", case, moorage) for case in RULES]
    if theirs:
        options = ["--kubeconfig=KUBECONFIG", "--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0"]
        options += ["--kube-api-qps=5000", "--kube-api-burst=5000"]  # it limits itself to 50 requests a second
        runs.append(("default-scheduler", "plain", [theirs, *options]))
    print(f"{given.nodes:,} nodes, {given.pods:,} pods, {time.strftime('%Y-%m-%d')}")
    for name, case, command in runs:
        with stock() as server, running(server, command) as scheduler:
            asyncio.run(place(server, scheduler, case, name, given))


if __name__ == "__main__":
    main()
