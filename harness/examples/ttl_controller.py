#!/usr/bin/env python3
"""A TTL controller in 100 lines of Python, to show how another implementation is tested.

    plumbline conform --profile ttl --implementation me.yaml \
        --command 'python3 harness/examples/ttl_controller.py {server} {token-file} {ca-file} {flags}'

It keeps the annotation node.alpha.kubernetes.io/ttl on nodes, as kube-controller-manager's ttl-controller does: the
value follows the number of nodes with hysteresis, and a node gets it when something happens to that node.
"""

import heapq
import json
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request

ANNOTATION = "node.alpha.kubernetes.io/ttl"
# (fewest nodes, most nodes, seconds): the steps overlap, so the value depends on where the number came from.
STEPS = [(0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, sys.maxsize, 300)]


class Client:
    """Sends requests with a bearer token. The user agent ends in the controller's name."""

    def __init__(self, server, token_file, ca_file):
        self.server = server
        with open(token_file, encoding="ascii") as file:
            token = file.read().strip()
        self.headers = {"Authorization": f"Bearer {token}", "User-Agent": "example-python/1.0 ttl-controller"}
        self.context = ssl.create_default_context(cafile=ca_file) if server.startswith("https:") else None

    def send(self, method, path, body=None, timeout=30):
        headers = dict(self.headers)
        if body is not None:
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/strategic-merge-patch+json"
        request = urllib.request.Request(self.server + path, body, headers, method=method)
        return urllib.request.urlopen(request, timeout=timeout, context=self.context)


class Controller:
    """Follows the nodes in one thread and patches them in others."""

    def __init__(self, client):
        self.client = client
        self.nodes = {}  # name -> value of the annotation, as last seen
        self.step = 0
        self.lock = threading.Condition()
        self.queue = []  # (time, name)
        self.queued = {}  # name -> time
        self.working = set()
        self.failures = {}

    def enqueue(self, name, delay=0.0):
        due = time.monotonic() + delay
        if self.queued.get(name, due + 1) > due:
            self.queued[name] = due
            heapq.heappush(self.queue, (due, name))
            self.lock.notify_all()

    def count(self):
        while len(self.nodes) > STEPS[self.step][1]:
            self.step += 1
        while len(self.nodes) < STEPS[self.step][0]:
            self.step -= 1

    def follow(self):
        """Lists and watches. Whatever ends a watch leads to a new list."""
        while True:
            try:
                with self.client.send("GET", "/api/v1/nodes") as reply:
                    nodes = json.load(reply)
                with self.lock:
                    present = {node["metadata"]["name"]: value_of(node) for node in nodes["items"]}
                    changed = [name for name in present if self.nodes.get(name, "-") != present[name]]
                    self.nodes = present
                    self.count()
                    for name in changed:
                        self.enqueue(name)
                version = nodes["metadata"]["resourceVersion"]
                path = f"/api/v1/nodes?watch=true&resourceVersion={version}&timeoutSeconds=300"
                with self.client.send("GET", path, timeout=330) as events:
                    for line in events:
                        self.handle(json.loads(line))
            except (OSError, ValueError, KeyError, RuntimeError) as error:
                print(f"nodes: {error}; listing again", file=sys.stderr)
                time.sleep(0.2)

    def handle(self, event):
        if event["type"] == "ERROR":
            raise RuntimeError(event["object"].get("message", "the watch failed"))
        name = event["object"]["metadata"]["name"]
        with self.lock:
            if event["type"] == "DELETED":
                self.nodes.pop(name, None)
            else:
                self.nodes[name] = value_of(event["object"])
                self.enqueue(name)
            self.count()

    def take(self):
        """Waits for a node that is due and that no other worker has in hand."""
        with self.lock:
            while True:
                now = time.monotonic()
                due = next((item for item in sorted(self.queue) if item[1] not in self.working), None)
                if due and due[0] <= now:
                    self.queue.remove(due)
                    heapq.heapify(self.queue)
                    if self.queued.get(due[1]) != due[0]:
                        continue  # superseded by an earlier time
                    del self.queued[due[1]]
                    self.working.add(due[1])
                    return due[1], self.nodes.get(due[1], "gone"), str(STEPS[self.step][2])
                self.lock.wait(due[0] - now if due else None)

    def work(self):
        while True:
            name, value, wanted = self.take()
            error = None
            if value not in ("gone", wanted):
                try:
                    body = {"metadata": {"annotations": {ANNOTATION: wanted}}}
                    self.client.send("PATCH", f"/api/v1/nodes/{name}", body).close()
                except urllib.error.HTTPError as reply:
                    error = None if reply.code == 404 else reply
                except OSError as failure:
                    error = failure
            with self.lock:
                self.working.discard(name)
                self.failures[name] = self.failures.get(name, -1) + 1 if error else -1
                if error:
                    print(f"nodes/{name}: {error}; trying again", file=sys.stderr)
                    self.enqueue(name, min(0.005 * 2 ** self.failures[name], 1000))
                self.lock.notify_all()


def value_of(node):
    return node["metadata"].get("annotations", {}).get(ANNOTATION)


def main():
    # The fixtures' flags limit or unlimit the requests of kube-controller-manager's client; this one has no limit.
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    controller = Controller(Client(*arguments))
    for _ in range(5):
        threading.Thread(target=controller.work, daemon=True).start()
    controller.follow()


if __name__ == "__main__":
    main()
