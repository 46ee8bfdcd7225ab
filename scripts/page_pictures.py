"""Makes the pictures of docs/page.md anew: a control plane of its own, some workloads, and a browser.

python scripts/page_pictures.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
WORKLOADS = {"web": 18, "api": 12, "cache": 7, "worker": 10}
STATE = "#template=default/Deployment/web&node=node-2"


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
            fill({**os.environ, "KUBECONFIG": f"{folder}/kubeconfig"})
            take(re.findall(r"http://\S+", text)[0])
        finally:
            server.terminate()
            server.wait()


def fill(env: dict[str, str]) -> None:
    """Give the cluster something to show."""
    for name, replicas in WORKLOADS.items():
        subprocess.run(
            ["kubectl", "create", "deployment", name, "--image=nginx", f"--replicas={replicas}"], env=env, check=True
        )
        subprocess.run(
            ["kubectl", "set", "resources", f"deployment/{name}", "--requests=cpu=900m,memory=2Gi"], env=env, check=True
        )
    subprocess.run(["kubectl", "apply", "-f", "examples/thresholds-1-spot-nodes"], env=env, check=True, cwd=ROOT)
    subprocess.run(["kubectl", "taint", "node", "node-2", "node-6", "maintenance=soon:NoSchedule"], env=env, check=True)
    for name in WORKLOADS:
        subprocess.run(["kubectl", "rollout", "status", f"deployment/{name}"], env=env, check=True)


def take(url: str) -> None:
    """One picture in light, one in dark."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(url)
        page.wait_for_selector(".tile")
        page.evaluate("hash => location.hash = hash", STATE)
        page.wait_for_selector(".plugins")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(2500)
            page.screenshot(path=ROOT / "docs" / f"page-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main()
