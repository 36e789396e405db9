"""Fixtures for pytest: one server for all tests, a world and a client for each test. When a test fails, pytest shows
the requests and changes of its world."""

import kubernetes
import pytest

import plumbline


@pytest.fixture(scope="session")
def server():
    with plumbline.Server() as server:
        yield server


@pytest.fixture
def world(server):
    world = server.world()
    yield world
    print(world.transcript())
    world.close()


@pytest.fixture
def client(world):
    with kubernetes.config.new_client_from_config_dict(world.kubeconfig()) as client:
        yield client
