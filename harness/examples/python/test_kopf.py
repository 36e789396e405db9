"""An operator with kopf, started by kopf's own `KopfRunner`. The operator runs in real time, so the test waits for what
it does; the cluster's time moves when the test moves it."""

import base64
import pathlib

import kubernetes
import pytest

testing = pytest.importorskip("kopf.testing")

OPERATOR = str(pathlib.Path(__file__).with_name("operator_with_kopf.py"))


def test_a_secret_is_made_and_goes_with_its_owner(client, world, kubeconfig):
    core = kubernetes.client.CoreV1Api(client)
    with testing.KopfRunner(["run", "--standalone", "--namespace", "default", OPERATOR]) as runner:
        source = {"metadata": {"name": "source", "labels": {"copy": "yes"}}, "data": {"a": "1"}}
        core.create_namespaced_config_map("default", source)
        secret = world.eventually(lambda: core.read_namespaced_secret("source", "default"), timeout=30)
        assert base64.b64decode(secret.data["a"]) == b"1"
        core.delete_namespaced_config_map("source", "default")
        world.advance("1m")  # the garbage collector's time is the cluster's
        assert core.list_namespaced_secret("default").items == []
    assert runner.exit_code == 0, runner.output
