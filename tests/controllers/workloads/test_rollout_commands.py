"""`kubectl rollout` does with a Deployment what it does elsewhere."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from moorage.controllers.run import prepare
from moorage.controllers.workloads.deployment import DeploymentController
from moorage.controllers.workloads.replicaset import ReplicaSetController
from moorage.features import ALL_ON
from tests.controllers.kubelet import kubelet
from tests.controllers.waiting import read_all
from tests.controllers.workloads.deployments import images
from tests.plane import api_server


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
async def test_kubectl_rollout_commands_work(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        running = prepare(server.client("controllers"), ALL_ON, (ReplicaSetController, DeploymentController))
        await running.start()
        client = server.client("test")
        environment = os.environ | {"KUBECONFIG": str(server.kubeconfig)}

        async def kubectl(*words: str) -> str:
            command = await asyncio.create_subprocess_exec(
                "kubectl", *words, env=environment,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            output, _ = await asyncio.wait_for(command.communicate(), 30)
            assert command.returncode == 0, output.decode()
            return output.decode()

        async with kubelet(client):
            await kubectl("create", "deployment", "web", "--image=web:1", "--replicas=2")
            assert "successfully rolled out" in await kubectl("rollout", "status", "deployment/web")
            await kubectl("set", "image", "deployment/web", "web=web:2")
            await kubectl("annotate", "deployment/web", "kubernetes.io/change-cause=second")
            await kubectl("rollout", "status", "deployment/web")
            history = (await kubectl("rollout", "history", "deployment/web")).split()
            assert history[-4:] == ["1", "<none>", "2", "second"]
            assert "web:1" in await kubectl("rollout", "history", "deployment/web", "--revision=1")
            await kubectl("rollout", "undo", "deployment/web")
            await kubectl("rollout", "status", "deployment/web")
            assert await images(client) == ["web:1"] * 2
            await kubectl("rollout", "pause", "deployment/web")
            await kubectl("set", "image", "deployment/web", "web=web:4")
            await kubectl("rollout", "resume", "deployment/web")
            await kubectl("rollout", "status", "deployment/web")
            assert await images(client) == ["web:4"] * 2
            before = {each["metadata"]["uid"] for each in await read_all(client, "Pod")}
            await kubectl("rollout", "restart", "deployment/web")
            await kubectl("rollout", "status", "deployment/web")
            left = {each["metadata"]["uid"] for each in await read_all(client, "Pod") if each["status"]["phase"]}
            assert len(left - before) == 2
            assert "2/2" in await kubectl("get", "deployment", "web")
            await kubectl("wait", "deployment/web", "--for=condition=Available", "--timeout=10s")
        await running.stop()
