"""Makes the pictures of docs/page.md anew: a control plane of its own, some workloads, and a browser.

python scripts/page_pictures.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
Kubectl = Callable[..., str]
SIZE = {"width": 1200, "height": 900}
"""About as wide as a README leaves room for, so that what is written can be read there."""
SLA = "example.com/sla"
SLAS = {"node-1": 800, "node-4": 800, "node-7": 800, "node-2": 940, "node-5": 940, "node-8": 940,
        "node-3": 990, "node-6": 990, "node-9": 990}  # fmt: skip
ANY = {"key": SLA, "operator": "Exists"}
WORKLOADS = [
    ("web", 18, {"cpu": "500m", "memory": "2Gi"}, ANY),
    ("api", 12, {"cpu": "700m", "memory": "1Gi"}, ANY),
    ("worker", 9, {"cpu": "900m", "memory": "4Gi"}, ANY),
    ("cache", 6, {"cpu": "300m", "memory": "8Gi"}, ANY),
    ("inference", 4, {"cpu": "9", "memory": "24Gi"}, {"key": SLA, "operator": "Gt", "value": "950"}),
]
"""Their names, replicas, requests and tolerations: the last replica of the last one finds no node."""


def main() -> None:
    """Start, fill, take the pictures, stop."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "moorage", "up", "--data-dir", folder, "--port", "0", "--nodes", "9"]
        command += ["--feature-gates", "AllAlpha=true"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert server.stdout is not None
        text = ""
        for line in server.stdout:
            text += line
            if "Ctrl-C" in line:
                break
        try:
            kubectl = partial(run, {**os.environ, "KUBECONFIG": f"{folder}/kubeconfig"})
            fill(kubectl)
            take(re.findall(r"http://\S+", text)[0], kubectl)
        finally:
            server.terminate()
            server.wait()


def run(env: dict[str, str], *arguments: str, text: str = "") -> str:
    """What kubectl says."""
    command = ["kubectl", *arguments]
    return subprocess.run(command, env=env, check=True, input=text, capture_output=True, text=True).stdout


def fill(kubectl: Kubectl) -> None:
    """Give the cluster something to show."""
    for node, value in SLAS.items():
        kubectl("taint", "node", node, f"{SLA}={value}:NoSchedule")
    # Those that need most come first, as long as there is room.
    for name, replicas, requests, toleration in reversed(WORKLOADS):
        kubectl("apply", "-f", "-", text=json.dumps(deployment(name, replicas, requests, toleration)))
        for part in ("Available", "Progressing")[name == "inference" :]:
            kubectl("wait", f"deployment/{name}", f"--for=condition={part}")


def evict(kubectl: Kubectl) -> None:
    """Let something happen while somebody looks."""
    kubectl("taint", "node", "node-5", "example.com/disk=failing:NoExecute")
    for name, *_ in WORKLOADS[:-1]:
        kubectl("rollout", "status", f"deployment/{name}")
    kubectl("taint", "node", "node-5", "example.com/disk-")


def deployment(name: str, replicas: int, requests: dict[str, str], toleration: dict[str, str]) -> Any:
    """A workload."""
    container = {"name": name, "image": name, "resources": {"requests": requests}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"tolerations": [toleration], "containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def take(url: str, kubectl: Kubectl) -> None:
    """A picture in light of why a pod waits, and one in dark of what each plugin says of one node."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, device_scale_factor=1.5)  # type: ignore[arg-type]
        page.goto(url)
        page.wait_for_selector(".tile")
        evict(kubectl)
        names = kubectl("get", "pods", "--field-selector=status.phase=Pending", "-o", "name")
        waiting = names.strip().removeprefix("pod/")
        for scheme, node, sign in (("light", "", ".change"), ("dark", "node-3", ".plugins")):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.evaluate("hash => location.hash = hash", f"#pod=default/{waiting}&node={node}")
            page.wait_for_selector(sign)
            page.wait_for_timeout(2500)
            page.screenshot(path=ROOT / "docs" / f"page-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main()
