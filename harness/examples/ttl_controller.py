#!/usr/bin/env python3
"""A TTL controller in Python without any library, to show how another implementation is tested.

    plumbline conform --profile ttl --implementation me.yaml \
        --command 'python3 harness/examples/ttl_controller.py {server} {token-file} {ca-file} {flags}'

It keeps the annotation node.alpha.kubernetes.io/ttl on nodes, as kube-controller-manager's ttl-controller does: the
value follows the number of nodes with hysteresis, and a node gets it when something happens to that node.
"""

import collections
import heapq
import http.client
import json
import re
import select
import ssl
import sys
import threading
import time
import urllib.parse

ANNOTATION = "node.alpha.kubernetes.io/ttl"
# (fewest nodes, most nodes, seconds): the steps overlap, so the value depends on where the number came from.
STEPS = [(0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, sys.maxsize, 300)]
WORKERS = 5
PAUSES = 0.2, 12.8  # seconds before listing again after a failure, each twice the one before
SECOND = 1_000_000_000
ERRORS = (OSError, http.client.HTTPException, ValueError, KeyError, RuntimeError)


class Client:
    """Sends requests over one connection for each thread. The user agent ends in the controller's name."""

    def __init__(self, server, token_file, ca_file):
        self.url = urllib.parse.urlsplit(server)
        with open(token_file, encoding="ascii") as file:
            token = file.read().strip()
        self.headers = {"Authorization": f"Bearer {token}", "User-Agent": "example-python/1.0 ttl-controller"}
        self.context = ssl.create_default_context(cafile=ca_file) if self.url.scheme == "https" else None
        self.thread = threading.local()

    def connection(self):
        known = getattr(self.thread, "connection", None)
        # An idle connection has something to read only after the server has closed it.
        if known and known.sock and not select.select([known.sock], [], [], 0)[0]:
            return known
        if known:
            known.close()
        if self.context:
            new = http.client.HTTPSConnection(self.url.hostname, self.url.port, timeout=330, context=self.context)
        else:
            new = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=330)
        self.thread.connection = new
        return new

    def send(self, method, path, body=None):
        """Returns the reply, which the caller reads to its end. Replies that are errors are not raised."""
        headers = dict(self.headers)
        if body is not None:
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/strategic-merge-patch+json"
        connection = self.connection()
        try:
            connection.request(method, path, body, headers)
            return connection.getresponse()
        except ERRORS:
            connection.close()
            raise

    def close(self):
        self.connection().close()


class Queue:
    """A rate-limited work queue as client-go's: a name is in it once, and not while a worker has it in hand.

    Times are whole nanoseconds: sums of floating-point numbers are late.
    """

    FIRST, LONGEST = 5_000_000, 1000 * SECOND  # delays after failures of a name in a row, each twice the one before
    BURST, TOKEN = 100, SECOND // 10  # failures of all names together: so many at once, then one each time

    def __init__(self):
        self.changed = threading.Condition()
        self.ready = collections.deque()
        self.dirty = set()
        self.working = set()
        self.delayed = []  # (time, name)
        self.failures = {}
        self.full_at = 0  # the time at which no token is missing any more

    def add(self, name):
        with self.changed:
            self._add(name)

    def _add(self, name):
        if name not in self.dirty:
            self.dirty.add(name)
            if name not in self.working:
                self.ready.append(name)
                self.changed.notify()

    def take(self):
        """Waits for a name and hands it to the calling worker, which calls `done` with it."""
        with self.changed:
            while True:
                now = time.monotonic_ns()
                while self.delayed and self.delayed[0][0] <= now:
                    self._add(heapq.heappop(self.delayed)[1])
                if self.ready:
                    name = self.ready.popleft()
                    self.dirty.discard(name)
                    self.working.add(name)
                    return name
                self.changed.wait((self.delayed[0][0] - now) / SECOND if self.delayed else None)

    def done(self, name, failed):
        with self.changed:
            self.working.discard(name)
            if name in self.dirty:
                self.ready.append(name)
                self.changed.notify()
            if not failed:
                self.failures.pop(name, None)
                return
            now = time.monotonic_ns()
            failures = self.failures[name] = self.failures.get(name, 0) + 1
            self.full_at = max(self.full_at, now) + self.TOKEN
            token = self.full_at - now - self.BURST * self.TOKEN
            heapq.heappush(self.delayed, (now + max(min(self.FIRST << (failures - 1), self.LONGEST), token), name))
            self.changed.notify()


class Controller:
    """Follows the nodes in one thread and patches them in others."""

    def __init__(self, client):
        self.client = client
        self.queue = Queue()
        self.nodes = {}  # name -> value of the annotation, as last seen
        self.step = 0
        self.lock = threading.Lock()

    def count(self):
        while len(self.nodes) > STEPS[self.step][1]:
            self.step += 1
        while len(self.nodes) < STEPS[self.step][0]:
            self.step -= 1

    def follow(self):
        """Lists and watches. Whatever ends a watch leads to a new list."""
        pause = PAUSES[0]
        while True:
            try:
                nodes = json.load(successful(self.client.send("GET", "/api/v1/nodes")))
                present = {node["metadata"]["name"]: value_of(node) for node in nodes["items"]}
                with self.lock:
                    changed = [name for name in present if self.nodes.get(name, "gone") != present[name]]
                    self.nodes = present
                    self.count()
                for name in changed:
                    self.queue.add(name)
                version = nodes["metadata"]["resourceVersion"]
                path = f"/api/v1/nodes?watch=true&resourceVersion={version}&timeoutSeconds=300"
                events = successful(self.client.send("GET", path))
                pause = PAUSES[0]
                for line in events:
                    self.handle(json.loads(line))
            except ERRORS as error:
                print(f"nodes: {error}; listing again", file=sys.stderr)
                self.client.close()
                time.sleep(pause)
                pause = min(2 * pause, PAUSES[1])

    def handle(self, event):
        if event["type"] == "ERROR":
            raise RuntimeError(event["object"].get("message", "the watch failed"))
        name = event["object"]["metadata"]["name"]
        with self.lock:
            if event["type"] == "DELETED":
                self.nodes.pop(name, None)
            else:
                self.nodes[name] = value_of(event["object"])
            self.count()
        if event["type"] != "DELETED":
            self.queue.add(name)

    def work(self):
        while True:
            name = self.queue.take()
            failed = False
            try:
                self.sync(name)
            except ERRORS as error:
                print(f"nodes/{name}: {error}; trying again", file=sys.stderr)
                failed = True
            self.queue.done(name, failed)

    def sync(self, name):
        with self.lock:
            value, wanted = self.nodes.get(name, "gone"), STEPS[self.step][2]
        if value in ("gone", wanted):
            return
        body = {"metadata": {"annotations": {ANNOTATION: str(wanted)}}}
        reply = self.client.send("PATCH", f"/api/v1/nodes/{name}", body)
        if reply.status == 404:
            reply.read()  # the watch says so as well
        else:
            successful(reply).read()


def successful(reply):
    if reply.status >= 300:
        raise RuntimeError(f"{reply.status} {reply.reason}: {reply.read().decode(errors='replace')}")
    return reply


def value_of(node):
    """Returns the value of the annotation as Go reads it: with a sign and leading zeros, in 64 bits; else None."""
    text = (node["metadata"].get("annotations") or {}).get(ANNOTATION, "")
    if re.fullmatch(r"[+-]?[0-9]+", text) and -(2**63) <= int(text) < 2**63:
        return int(text)
    return None


def main():
    # The fixtures' flags limit or unlimit the requests of kube-controller-manager's client; this one has no limit.
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    controller = Controller(Client(*arguments))
    for _ in range(WORKERS):
        threading.Thread(target=controller.work, daemon=True).start()
    controller.follow()


if __name__ == "__main__":
    main()
