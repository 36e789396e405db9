#!/usr/bin/env python3
"""A pod garbage collector in Python that polls, to show how an implementation without watches is tested.

    plumbline conform --profile podgc --implementation me.yaml \
        --command 'python3 harness/examples/podgc_controller.py {server} {token-file} {ca-file} {flags}'

Again and again, with 20 seconds in between, it lists all pods, then all nodes, and deletes what kube-controller-manager's pod garbage collector
deletes. It has one thread, no cache, and no state but the time at which a node was first missed.
"""

import json
import ssl
import sys
import time
import urllib.error
import urllib.request

CYCLE = 20
QUARANTINE = 40
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class Client:
    """Sends requests with a bearer token. The user agent ends in the controller's name."""

    def __init__(self, server, token_file, ca_file):
        self.server = server
        with open(token_file, encoding="ascii") as file:
            token = file.read().strip()
        self.headers = {"Authorization": f"Bearer {token}", "User-Agent": "example-python/1.0 pod-garbage-collector"}
        self.context = ssl.create_default_context(cafile=ca_file) if server.startswith("https:") else None

    def send(self, method, path, body=None):
        headers = dict(self.headers)
        if body is not None:
            body = json.dumps(body).encode()
            kind = "strategic-merge-patch+json" if method == "PATCH" else "json"
            headers["Content-Type"] = f"application/{kind}"
        request = urllib.request.Request(self.server + path, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=60, context=self.context) as reply:
            return json.load(reply)

    def items(self, path):
        """Lists in pages, as the server cuts them."""
        items, more = [], ""
        while True:
            page = self.send("GET", path + more)
            items += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return items
            more = f"?continue={token}"


class Collector:
    """Decides from fresh lists."""

    def __init__(self, client, threshold):
        self.client = client
        self.threshold = threshold
        self.missed = {}  # node -> time at which it was first missed

    def cycle(self):
        pods = self.client.items("/api/v1/pods")
        nodes = {node["metadata"]["name"]: node for node in self.client.items("/api/v1/nodes")}
        now = time.monotonic()
        wanted = {node_of(pod) for pod in pods if node_of(pod) and node_of(pod) not in nodes}
        self.missed = {node: since for node, since in self.missed.items() if node in wanted}
        gone = {node for node, since in self.missed.items() if now - since >= QUARANTINE - 0.5}
        for node in wanted:
            self.missed.setdefault(node, now)
        # The list of nodes is older than what follows: a node that has come meanwhile is there.
        gone = {node for node in gone if not self.exists(node)}
        if self.threshold > 0:
            finished = [pod for pod in pods if is_finished(pod)]
            finished.sort(key=lambda pod: (not is_evicted(pod), pod["metadata"]["creationTimestamp"], name_of(pod)))
            for pod in finished[: max(0, len(finished) - self.threshold)]:
                self.collect(pod, None)
        for pod in pods:
            if node_of(pod) in gone:
                self.collect(pod, "PodGC: node no longer exists")
            elif is_terminating(pod) and (not node_of(pod) or is_out_of_service(nodes.get(node_of(pod)))):
                self.collect(pod, None)

    def exists(self, node):
        try:
            self.client.send("GET", f"/api/v1/nodes/{node}")
            return True
        except urllib.error.HTTPError as reply:
            return reply.code != 404

    def collect(self, pod, message):
        """Marks a pod as failed unless it has ended, and deletes it. Other pods do not depend on the result."""
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        try:
            if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                status = {"phase": "Failed", "observedGeneration": meta.get("generation")}
                if message:
                    status["conditions"] = [condition(pod, message)]
                self.client.send("PATCH", f"{path}/status", {"metadata": {"uid": meta["uid"]}, "status": status})
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
            self.client.send("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})
        except (OSError, ValueError) as error:
            print(f"{path}: {error}; trying again in the next cycle", file=sys.stderr)


def condition(pod, message):
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": message,
        "observedGeneration": pod["metadata"].get("generation"),
        "lastTransitionTime": now,
    }


def name_of(pod):
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def node_of(pod):
    return pod["spec"].get("nodeName", "")


def is_terminating(pod):
    return "deletionTimestamp" in pod["metadata"]


def is_finished(pod):
    return not is_terminating(pod) and pod.get("status", {}).get("phase", "") not in ("Pending", "Running", "Unknown")


def is_evicted(pod):
    status = pod.get("status", {})
    return status.get("phase") == "Failed" and status.get("reason") == "Evicted"


def is_out_of_service(node):
    if node is None:
        return False
    taints = node["spec"].get("taints", [])
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return not ready and any(taint["key"] == OUT_OF_SERVICE for taint in taints)


def main():
    threshold = 12500
    arguments = []
    for argument in sys.argv[1:]:
        name, _, value = argument.partition("=")
        if name == "--terminated-pod-gc-threshold":
            threshold = int(value)
        elif not argument.startswith("--"):
            arguments.append(argument)
    collector = Collector(Client(*arguments), threshold)
    while True:
        try:
            collector.cycle()
        except (OSError, ValueError, KeyError) as error:
            print(f"{error}; trying again in the next cycle", file=sys.stderr)
        time.sleep(CYCLE)


if __name__ == "__main__":
    main()
