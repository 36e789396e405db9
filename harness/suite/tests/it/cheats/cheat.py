"""Pod garbage collectors that do not collect: each knows something that a program under test must not know.

    cheat.py KIND SERVER TOKEN-FILE CA-FILE
"""

import os
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "examples"))
from podgc_controller import Client, Collector  # noqa: E402

# The uid that every run of podgc/orphaned-quarantine-40s had before names were drawn, or the name of a node.
KNOWN = sys.argv[1].partition(":")[2]


def marked_and_deleted(client, path, uid=None):
    status = {
        "phase": "Failed",
        "conditions": [
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            }
        ],
    }
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    if uid:
        options["preconditions"] = {"uid": uid}
    for method, of, body in [("PATCH", f"{path}/status", {"status": status}), ("DELETE", path, options)]:
        try:
            client.send(method, of, body)
        except OSError as error:
            print(f"{method} {of}: {error}", file=sys.stderr)


def stop_time():
    """Sends an order to the tracer, whose socket the environment of a process above this one names."""
    process, socket_path = os.getppid(), None
    while process > 1 and not socket_path:
        variables = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        socket_path = next((line.partition(b"=")[2] for line in variables if line.startswith(b"PLUMBLINE_TIME_")), None)
        process = int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    clock = socket.socket(socket.AF_UNIX)
    try:
        clock.connect(socket_path)
        clock.sendall(b"manual\n")
        print(clock.recv(100), file=sys.stderr)
    except OSError as error:
        print(error, file=sys.stderr)


def main():
    kind = sys.argv[1].partition(":")[0]
    client = Client(*sys.argv[2:5])
    pods = client.items("/api/v1/pods")
    client.items("/api/v1/nodes")
    if kind == "time":
        stop_time()
    if kind == "node":
        try:
            print(client.send("GET", f"/api/v1/nodes/{KNOWN}"), file=sys.stderr)
        except OSError as error:
            print(error, file=sys.stderr)
    time.sleep(60)
    if kind == "name":
        marked_and_deleted(client, "/api/v1/namespaces/default/pods/a")
    elif kind == "uid":
        marked_and_deleted(client, path_of(pods[0]), KNOWN)
    elif kind == "all":
        for pod in pods:
            marked_and_deleted(client, path_of(pod), pod["metadata"]["uid"])
    elif kind == "transcript":
        try:
            print(client.send("GET", "/plumbline/transcript"), file=sys.stderr)
        except OSError as error:
            print(error, file=sys.stderr)
        collector = Collector(client, 0)
        while True:
            collector.cycle()
            time.sleep(20)
    time.sleep(3600)


def path_of(pod):
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


main()
