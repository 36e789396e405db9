"""Worlds: markers, faults, saved states, the transcript."""

import datetime
import subprocess

import kubernetes
import plumbline
import pytest

MAP = {"metadata": {"name": "map"}, "data": {"a": "1"}}


def names(client):
    return [item.metadata.name for item in kubernetes.client.CoreV1Api(client).list_node().items]


def test_the_default_cluster_has_one_node(client):
    assert names(client) == ["node-1"]


@pytest.mark.plumbline(nodes=2)
def test_a_marker_gives_another_cluster(client):
    assert names(client) == ["node-1", "node-2"]


@pytest.mark.plumbline(like=None, clock="wall")
def test_an_api_server_alone_has_no_nodes_and_the_time_of_the_machine(client, world):
    assert names(client) == []
    assert abs(world.now() - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(minutes=1)


def test_the_clock_moves_by_text_seconds_and_timedeltas(world):
    begin = world.now()
    world.advance("90s")
    world.advance(0.5)
    assert world.advance(datetime.timedelta(hours=2)) - begin == datetime.timedelta(hours=2, seconds=90.5)
    assert world.settle() == world.now() == begin + datetime.timedelta(hours=2, seconds=90.5)


def test_a_fault_hits_one_request(client, world):
    core = kubernetes.client.CoreV1Api(client)
    world.fault(name="busy", on="POST *", reply=503, count=1)
    with pytest.raises(kubernetes.client.ApiException) as failed:
        core.create_namespaced_config_map("default", MAP)
    assert failed.value.status == 503
    core.create_namespaced_config_map("default", MAP)
    assert world.fault_hits("busy") == 1
    assert "POST   configmaps/map 503" in world.transcript()


def test_states_are_saved_and_restored(client, world):
    core = kubernetes.client.CoreV1Api(client)
    begin = world.now()
    world.save("empty")
    core.create_namespaced_config_map("default", MAP)
    world.advance("1h")
    world.restore("empty")
    assert world.now() == begin
    assert "map" not in [item.metadata.name for item in core.list_namespaced_config_map("default").items]


def test_a_state_that_was_not_saved_is_named(world):
    with pytest.raises(plumbline.PlumblineError, match='no state "nope" was saved in this world; none was'):
        world.restore("nope")
    world.save("empty")
    with pytest.raises(plumbline.PlumblineError, match="there are: empty"):
        world.restore("nope")


def test_kubectl_takes_the_kubeconfig_of_the_environment(kubeconfig):
    said = subprocess.run(["kubectl", "get", "nodes", "-o", "name"], capture_output=True, text=True, timeout=60)
    assert said.stdout.split() == ["node/node-1"], said.stderr
