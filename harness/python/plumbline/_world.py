"""`World`: a cluster of a server, with objects, clock and controllers of its own."""

from __future__ import annotations

import base64
import datetime
import json
import os
import time
from typing import TYPE_CHECKING, Any, Callable, TypeVar, Union

from ._program import PlumblineError

if TYPE_CHECKING:
    from ._server import Server

T = TypeVar("T")
Duration = Union[str, int, float, datetime.timedelta]
"""Text such as "250ms", "1m30s" or "2h", seconds, or a `timedelta`."""

POLL_SECONDS = 0.02


class World:
    """A Kubernetes API whose objects and time are its own. `Server.world` makes it."""

    name: str
    """Its name on the server."""
    url: str
    """The address of its API."""

    def __init__(self, server: Server, name: str, url: str) -> None:
        self.server, self.name, self.url = server, name, url

    @property
    def kubeconfig(self) -> dict[str, Any]:
        """The kubeconfig as a dictionary."""
        cluster: dict[str, Any] = {"server": self.url}
        if self.server.authority:
            cluster["certificate-authority-data"] = base64.b64encode(self.server.authority).decode()
        context = {"cluster": "plumbline", "user": "plumbline", "namespace": "default"}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "plumbline",
            "clusters": [{"name": "plumbline", "cluster": cluster}],
            "contexts": [{"name": "plumbline", "context": context}],
            "users": [{"name": "plumbline", "user": {"token": self.server.token}}],
        }

    @property
    def kubeconfig_file(self) -> str:
        """The path of a kubeconfig, for programs; it is written at the first use and goes with the server."""
        path = os.path.join(self.server.folder, f"{self.name}.kubeconfig")
        if not os.path.exists(path):
            with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                json.dump(self.kubeconfig, file)
        return path

    def now(self) -> datetime.datetime:
        """Returns the time, in UTC."""
        return _time(self.call("GET", "/plumbline/clock")["now"])

    def advance(self, duration: Duration) -> datetime.datetime:
        """Moves a manual clock, runs every timer on the way, and returns the time when everything has come to rest.

        A client that reacts to changes on the way needs several short advances, or `eventually` with `advance`.
        """
        return _time(self.call("POST", "/plumbline/clock", {"advance": _duration(duration)})["now"])

    def settle(self) -> datetime.datetime:
        """Waits until nothing is left to do at this moment, without a move of time, and returns the time.

        It is for programs outside of the server that live in virtual time with it, as all do below `plumbline test`.
        With a manual clock, each reply comes when the server is at rest.
        """
        return _time(self.call("POST", "/plumbline/clock", {"settle": True})["now"])

    def eventually(self, condition: Callable[[], T], *, timeout: float = 10.0, advance: Duration | None = None) -> T:
        """Calls `condition` until it returns something true, and returns that.

        It is for controllers outside of the server, which need real time. Between two calls some milliseconds pass,
        and the world's clock moves by `advance`, if it is given.

        Raises `TimeoutError` after `timeout` seconds of real time, with the last exception of `condition` as its cause.
        """
        end = time.monotonic() + timeout
        while True:
            failure: Exception | None = None
            try:
                value = condition()
                if value:
                    return value
            except Exception as error:  # noqa: BLE001 - the object may not exist yet
                failure = error
            if time.monotonic() > end:
                raise TimeoutError(f"not within {timeout} s: {failure or 'the condition is false'}") from failure
            if advance is not None:
                self.advance(advance)
            time.sleep(POLL_SECONDS)

    def fault(self, words: str | None = None, **rule: Any) -> None:
        """Arms a fault: `fault("LIST pods 503")`, `fault(on="PATCH pods/*/status", drop="after", count=1)`."""
        if words is not None and rule:
            raise ValueError("a fault is a text or keywords, not both: fault(on=\"LIST pods\", reply=503, count=1)")
        self.call("POST", "/plumbline/faults", words if words is not None else rule)

    def fault_hits(self, name: str) -> int:
        """Returns how many requests the fault rules of this name have hit."""
        return int(self.call("GET", f"/plumbline/faults?name={name}")["hits"])

    def clear_faults(self, name: str | None = None) -> None:
        """Removes the fault rules of this name, or all."""
        self.call("DELETE", f"/plumbline/faults?name={name}" if name else "/plumbline/faults")

    def save(self, name: str) -> None:
        """Saves all objects and the time under a name."""
        self.call("POST", "/plumbline/state", {"save": name})

    def restore(self, name: str) -> None:
        """Returns to a saved state; watches end."""
        self.call("POST", "/plumbline/state", {"restore": name})

    def reset(self) -> None:
        """Returns to the initial state; watches end."""
        self.call("DELETE", "/plumbline/state")

    def transcript(self) -> str:
        """Returns every request and change, as people read it."""
        return str(self.call("GET", "/plumbline/transcript?format=text"))

    def entries(self) -> list[dict[str, Any]]:
        """Returns every request and change, as dictionaries."""
        return [json.loads(line) for line in self.call("GET", "/plumbline/transcript").splitlines()]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request to this world, as `Server.call` does."""
        return self.server.call(method, path, body, url=self.url)

    def close(self) -> None:
        """Removes the world."""
        self.server.call("DELETE", f"/plumbline/worlds/{self.name}")


def _duration(duration: Duration) -> str:
    if isinstance(duration, str):
        return duration
    seconds = duration.total_seconds() if isinstance(duration, datetime.timedelta) else duration
    if seconds <= 0:
        raise PlumblineError(f"advance {duration}: use a time longer than zero")
    return f"{round(seconds * 1000)}ms"


def _time(text: str) -> datetime.datetime:
    """Reads a time of RFC 3339; `fromisoformat` knows neither Z nor all fractions before Python 3.11."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    time_of_second = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc)
    return time_of_second + datetime.timedelta(microseconds=int(fraction[:6].ljust(6, "0")) if fraction else 0)
