"""The plugin for pytest: a server for all tests, a world for each, and the world's transcript in reports of failures.

`@pytest.mark.plumbline(nodes=2, clock="manual")` gives a test, a class or a module (`pytestmark`) a cluster with these
flags of `plumbline serve`. `pytest --plumbline-keep` leaves the worlds of failed tests running.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, Iterator

import pytest

from ._program import PlumblineError
from ._server import DEFAULT_FLAGS, Server
from ._world import World

TRANSCRIPT_LINES = 400
"""The longest end of a transcript that a report shows."""


class _Servers:
    """The servers of a session, one for each set of flags."""

    def __init__(self) -> None:
        self._servers: dict[tuple[str, ...], Server] = {}

    def get(self, flags: tuple[str, ...]) -> Server:
        if flags not in self._servers:
            self._servers[flags] = Server(*flags)
        return self._servers[flags]

    def close(self) -> None:
        for server in self._servers.values():
            server.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("plumbline")
    text = "leave the worlds of failed tests running, with their kubeconfigs in the report"
    group.addoption("--plumbline-keep", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    text = "plumbline(nodes=1, clock='manual', like='kind', …): flags of `plumbline serve` for the test's cluster"
    config.addinivalue_line("markers", text)


def flags_of(options: dict[str, Any]) -> tuple[str, ...]:
    """Returns the flags of `plumbline serve` for the options of a marker.

    `missing_images=["web:broken"]` becomes `--missing-images web:broken`. True is a flag without a value; False and
    None leave a flag away, such as the defaults `like="kind"` and `clock="manual"`.
    """
    flags: list[str] = []
    for name, value in {"like": "kind", "clock": "manual", **options}.items():
        if value is None or value is False:
            continue
        flags.append("--" + name.replace("_", "-"))
        if isinstance(value, (list, tuple)):
            flags.append(",".join(str(item) for item in value))
        elif value is not True:
            flags.append(str(value))
    return tuple(flags)


def _options(item: pytest.Item) -> dict[str, Any]:
    """Returns the options of all markers of a test; the nearest one decides."""
    options: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers("plumbline"))):
        if mark.args:
            pytest.fail("the marker plumbline takes names and values, such as nodes=2", pytrace=False)
        options.update(mark.kwargs)
    return options


@pytest.fixture(scope="session")
def _plumbline_servers() -> Iterator[_Servers]:
    servers = _Servers()
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def plumbline_server(_plumbline_servers: _Servers) -> Server:
    """The server of tests without a marker: a cluster like kind's with one node and a manual clock.

    A `conftest.py` may define a fixture of this name with other flags.
    """
    try:
        return _plumbline_servers.get(DEFAULT_FLAGS)
    except PlumblineError as error:
        raise _failed(str(error)) from None


@pytest.fixture
def world(request: pytest.FixtureRequest, _plumbline_servers: _Servers) -> Iterator[World]:
    """A world for this test. If the test fails, the report shows its transcript."""
    options = _options(request.node)
    try:
        server = (
            _plumbline_servers.get(flags_of(options)) if options else request.getfixturevalue("plumbline_server")
        )
        world = server.world()
        # What the cluster itself did at its start says nothing about a test.
        request.node._plumbline_start = world.transcript()
    except PlumblineError as error:
        raise _failed(str(error)) from None
    yield world
    if not getattr(request.node, "_plumbline_kept", False):
        world.close()


@pytest.fixture
def kubeconfig(world: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of the world's kubeconfig; `KUBECONFIG` is set to it, for kubectl, kopf and other programs."""
    path = world.kubeconfig_file
    monkeypatch.setenv("KUBECONFIG", path)
    # These read the variable when they are imported.
    for name in ("kubernetes", "kubernetes_asyncio"):
        module = sys.modules.get(f"{name}.config.kube_config")
        if module is not None:
            monkeypatch.setattr(module, "KUBE_CONFIG_DEFAULT_LOCATION", path)
    return path


@pytest.fixture
def client(world: World) -> Iterator[Any]:
    """An `ApiClient` of the official client, the package `kubernetes`."""
    kubernetes = _library("client", "kubernetes")
    with kubernetes.config.new_client_from_config_dict(world.kubeconfig) as client:
        yield client


@pytest.fixture
def kr8s_client(world: World) -> Any:
    """A `kr8s.Api`, synchronous; `await kr8s.asyncio.api(kubeconfig=world.kubeconfig_file)` is the asynchronous one."""
    return _library("kr8s_client", "kr8s").api(kubeconfig=world.kubeconfig_file)


@pytest.fixture
def lightkube_client(world: World) -> Any:
    """A `lightkube.Client`."""
    lightkube = _library("lightkube_client", "lightkube")
    return lightkube.Client(config=lightkube.KubeConfig.from_dict(world.kubeconfig))


def _library(fixture: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise _failed(f"the fixture {fixture} needs the package {name} ({error}): pip install {name}") from None


def _failed(reason: str) -> BaseException:
    """Returns the failure that pytest reports as this line alone."""
    return pytest.fail.Exception(reason, pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Adds the transcript to the report of a failed test, and keeps its world if that is asked for."""
    outcome: Any = yield
    report: pytest.TestReport = outcome.get_result()
    world = getattr(item, "funcargs", {}).get("world")
    if call.when == "teardown" or not report.failed or not isinstance(world, World):
        return
    try:
        text = world.transcript()
        start = getattr(item, "_plumbline_start", "")
        lines = (text[len(start) :] if text.startswith(start) else text).splitlines()
    except PlumblineError as error:
        lines = [str(error)]
    if len(lines) > TRANSCRIPT_LINES:
        left = len(lines) - TRANSCRIPT_LINES
        lines = [f"({left} earlier lines are left out; world.transcript() has them)", *lines[-TRANSCRIPT_LINES:]]
    report.sections.append((f"transcript of plumbline's {world.name}", "\n".join(lines)))
    if item.config.getoption("--plumbline-keep"):
        world.server.keep()
        item._plumbline_kept = True  # type: ignore[attr-defined]
        text = f"export KUBECONFIG={world.kubeconfig_file}\nkill {world.server.pid}  # ends it"
        report.sections.append((f"plumbline's {world.name} is kept", text))
