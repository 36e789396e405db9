"""A cluster for tests: one `plumbline serve` process, and a world of its own for each test.

    server = plumbline.Server()                 # starts `plumbline` from PATH; PLUMBLINE names another program
    world = server.world()                      # milliseconds; nothing is shared with other worlds
    client = kubernetes.config.new_client_from_config_dict(world.kubeconfig())
    world.advance("2m")                         # returns when everything has come to rest

Needs Python 3.9 or later and no packages; `kubernetes` (or any other client) is for the tests.
"""

import json
import os
import subprocess
import urllib.request

import yaml  # comes with the package `kubernetes`


class Server:
    """A running `plumbline serve` with a manual clock. Use it as a context manager, or call `close`."""

    def __init__(self, *flags):
        program = os.environ.get("PLUMBLINE", "plumbline")
        command = [program, "serve", "--http", "--clock", "manual", *(flags or ("--like", "kind"))]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        ready = self._process.stdout.readline().split()
        if not ready:
            raise RuntimeError(f"{command} ended with {self._process.wait()}; its error output has the reason")
        self.url, self.token = ready[1], ready[2].removeprefix("token=")

    def world(self, name=None):
        """Creates a world."""
        return World(self, self.call("POST", "/plumbline/worlds", {"name": name} if name else {}))

    def call(self, method, path, body=None, url=None):
        """Sends a request of the control API and returns the reply; see /plumbline/openapi.json."""
        request = urllib.request.Request(
            (url or self.url) + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request) as reply:
                text = reply.read().decode()
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {json.load(error)['message']}") from None
        return text if "format=text" in path else json.loads(text)

    def close(self):
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class World:
    """An API server with its own objects and clock."""

    def __init__(self, server, described):
        self._server, self.name, self.url = server, described["name"], described["url"]
        self._kubeconfig = described["kubeconfig"]

    def kubeconfig(self):
        """Returns the kubeconfig as a dictionary."""
        return yaml.safe_load(self._kubeconfig)

    def now(self):
        """Returns the time as text (RFC 3339)."""
        return self._call("GET", "/plumbline/clock")["now"]

    def advance(self, duration):
        """Moves the clock, for example by "2m"; returns when everything has come to rest."""
        return self._call("POST", "/plumbline/clock", {"advance": duration})["now"]

    def fault(self, **rule):
        """Arms a fault rule, for example `fault(on={"resource": "pods"}, count=1, verdict={"reply": {"code": 500}})`."""
        self._call("POST", "/plumbline/faults", rule)

    def save(self, name):
        """Saves the state under a name."""
        self._call("POST", "/plumbline/state", {"save": name})

    def restore(self, name):
        """Returns to a saved state."""
        self._call("POST", "/plumbline/state", {"restore": name})

    def transcript(self):
        """Returns the requests and changes as text."""
        return self._call("GET", "/plumbline/transcript?format=text")

    def close(self):
        """Removes the world."""
        self._server.call("DELETE", f"/plumbline/worlds/{self.name}")

    def _call(self, method, path, body=None):
        return self._server.call(method, path, body, self.url)
