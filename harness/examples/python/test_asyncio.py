"""Clients with asyncio: the world's own methods block, so they run in a thread, and the tasks of the test go on."""

import asyncio

import pytest

kr8s_asyncio = pytest.importorskip("kr8s.asyncio")

MAP = {"metadata": {"name": "map", "namespace": "default"}, "data": {"a": "1"}}


def test_a_watch_sees_a_change_after_an_hour(world):
    async def body():
        from kr8s.asyncio.objects import ConfigMap

        api = await kr8s_asyncio.api(kubeconfig=world.kubeconfig_file)
        found = await ConfigMap(MAP, api=api)
        await found.create()
        seen = asyncio.Event()

        async def follow():
            # The server ends a watch after some time, the cluster's, and the client begins another one.
            async for _, item in api.watch("configmaps", namespace="default"):
                if item.name == "map" and item.raw["data"]["a"] == "2":
                    seen.set()
                    return

        task = asyncio.create_task(follow())
        await asyncio.to_thread(world.advance, "1h")
        await found.patch({"data": {"a": "2"}})
        await asyncio.wait_for(seen.wait(), timeout=20)
        await task

    asyncio.run(body())
