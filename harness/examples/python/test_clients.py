"""The same with kr8s and lightkube."""

import pytest

kr8s_objects = pytest.importorskip("kr8s.objects")
lightkube = pytest.importorskip("lightkube")

DEPLOYMENT = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        },
    },
}


def test_a_deployment_becomes_ready_with_kr8s(kr8s_client, world):
    web = kr8s_objects.Deployment(DEPLOYMENT, api=kr8s_client)
    web.create()
    world.advance("10s")
    web.refresh()
    assert web.status.readyReplicas == 2


def test_a_deployment_becomes_ready_with_lightkube(lightkube_client, world):
    from lightkube.resources.apps_v1 import Deployment

    lightkube_client.create(Deployment.from_dict(DEPLOYMENT))
    world.advance("10s")
    assert lightkube_client.get(Deployment, "web").status.readyReplicas == 2
