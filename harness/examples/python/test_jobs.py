"""Tests with pytest: `client` and `world` are fixtures of the package plumbline-k8s."""

import kubernetes
import pytest

JOB = {
    "metadata": {"name": "report"},
    "spec": {
        "ttlSecondsAfterFinished": 3600,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "report", "image": "report"}]}},
    },
}


def test_a_finished_job_is_removed_an_hour_later(client, world):
    jobs = kubernetes.client.BatchV1Api(client)
    jobs.create_namespaced_job("default", JOB)
    world.advance("1m")
    assert jobs.read_namespaced_job("report", "default").status.succeeded == 1
    world.advance("59m")
    assert [job.metadata.name for job in jobs.list_namespaced_job("default").items] == ["report"]
    world.advance("1m")
    assert jobs.list_namespaced_job("default").items == []


def test_each_test_has_a_world_of_its_own(client):
    with pytest.raises(kubernetes.client.ApiException) as missing:
        kubernetes.client.BatchV1Api(client).read_namespaced_job("report", "default")
    assert missing.value.status == 404
