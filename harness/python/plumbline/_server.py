"""`Server`: a `plumbline serve` process."""

from __future__ import annotations

import atexit
import base64
import json
import os
import re
import secrets
import select
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from types import TracebackType
from typing import Any

from ._program import PlumblineError, check, find
from ._world import World

DEFAULT_FLAGS = ("--like", "kind", "--clock", "manual")
"""The flags of a server that is given none: a cluster with one node and all controllers, whose clock tests move."""

START_SECONDS = 60.0
"""The longest time that a start may take; it takes milliseconds."""


class Server:
    """A running `plumbline serve`, reached over HTTPS on loopback.

    `flags` are those of `plumbline serve`, without `--token` and `--kubeconfig`; by default `DEFAULT_FLAGS`.
    Use it as a context manager, or call `close`.

    Raises `PlumblineError` if the program is missing, is of another version, or does not start.
    """

    url: str
    """The address of the server."""
    token: str
    """The bearer token of an administrator."""
    authority: bytes
    """The certificate of the server's authority, in PEM; empty with `--http`."""
    folder: str
    """A temporary folder with the kubeconfigs of the server and its worlds, and the server's log."""

    def __init__(self, *flags: str) -> None:
        program = find()
        check(program)
        try:
            self.folder = tempfile.mkdtemp(prefix="plumbline-")
        except OSError as error:
            where = tempfile.gettempdir()
            raise PlumblineError(
                f"unable to make a folder in {where}: set TMPDIR to one that can be written ({error.strerror})"
            ) from None
        self.token = secrets.token_hex(16)
        self._keep = False
        self._log = os.path.join(self.folder, "log")
        path = os.path.join(self.folder, "kubeconfig")
        command = [program, "serve", "--token", self.token, "--kubeconfig", path, "--until-stdin-closes"]
        command.extend(flags or DEFAULT_FLAGS)
        # In a session of its own, so that Ctrl-C ends the tests first and `close` still works. A process that is
        # killed closes its end of the pipe, which ends the server.
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        # For scripts that do not close it.
        atexit.register(self.close)
        try:
            self.url = self._ready()
            with open(path, encoding="utf-8") as file:
                found = re.search(r"certificate-authority-data: (\S+)", file.read())
        except BaseException:
            self.close()
            raise
        self.authority = base64.b64decode(found[1]) if found else b""
        self._tls = None
        if found:
            self._tls = ssl.create_default_context(cadata=self.authority.decode())
            # The default from Python 3.13 on, so that all versions notice what it refuses.
            self._tls.verify_flags |= ssl.VERIFY_X509_STRICT

    @property
    def pid(self) -> int:
        """The identifier of the process."""
        return self._process.pid

    def _ready(self) -> str:
        out = self._process.stdout
        assert out is not None
        line, end = b"", time.monotonic() + START_SECONDS
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([out], [], [], max(0.0, end - time.monotonic()))
            piece = os.read(out.fileno(), 4096) if readable else b""
            if not piece:
                raise PlumblineError(self._reason())
            line += piece
        return line.decode().split()[1]

    def _reason(self) -> str:
        """Returns the last message of a server that did not start."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return f"plumbline serve was not ready after {START_SECONDS:.0f} s"
        with open(self._log, encoding="utf-8", errors="replace") as log:
            said = [line.strip() for line in log if line.startswith(("plumbline: ", "error: "))]
        why = said[-1].split(": ", 1)[1] if said else "it wrote no reason"
        return f"plumbline serve ended with {code}: {why}"

    def world(self, name: str | None = None) -> World:
        """Creates a world: objects, clock and controllers of its own. It takes milliseconds."""
        described = self.call("POST", "/plumbline/worlds", {"name": name} if name else {})
        return World(self, described["name"], described["url"])

    def call(self, method: str, path: str, body: Any = None, *, url: str | None = None) -> Any:
        """Sends a request of the control API (`GET /plumbline/openapi.json` describes it) and returns the reply.

        A reply in JSON is decoded; another one is text. Raises `PlumblineError` with the server's reason if it refuses.
        """
        request = urllib.request.Request(
            (url or self.url) + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        try:
            # A proxy of the environment would not reach loopback.
            handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._tls)]
            with urllib.request.build_opener(*handlers).open(request) as reply:
                text = reply.read().decode()
                return json.loads(text) if reply.headers.get_content_type() == "application/json" else text
        except urllib.error.HTTPError as error:
            reason = error.read().decode(errors="replace")
            try:
                reason = json.loads(reason)["message"]
            except (ValueError, KeyError, TypeError):
                pass
            raise PlumblineError(f"{method} {path}: {reason}") from None
        except urllib.error.URLError as error:
            raise PlumblineError(f"{method} {path}: the server does not reply ({error.reason})") from None

    def keep(self) -> None:
        """Leaves the process and its folder after `close`, for a look at its worlds."""
        if self._keep or self._process.poll() is not None:
            return
        self._keep = True
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write(b"keep\n")
        pipe.close()

    def close(self) -> None:
        """Ends the process, unless it is kept."""
        atexit.unregister(self.close)
        if self._process.stdout and not self._process.stdout.closed:
            self._process.stdout.close()
        if self._keep:
            return
        if self._process.stdin:
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
