"""An operator for `widgets`, with the standard library alone: a config map and a secret for each, a status.

`BUG` plants one mistake: garbage, stale-delete, status-by-update, no-retry, orphan, hot-loop, panic.
"""

import http.client
import json
import os
import ssl
import sys
import time
from urllib.parse import urlsplit

SERVER, TOKEN_FILE, CA_FILE = sys.argv[1:4]
BUG = os.environ.get("BUG", "")
GROUP = "/apis/example.com/v1/namespaces/default/widgets"
CORE = "/api/v1/namespaces/default"
FINALIZER = "example.com/cleanup"
TOKEN = open(TOKEN_FILE).read().strip()


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


def connection(timeout):
    url = urlsplit(SERVER)
    if url.scheme == "http":
        return http.client.HTTPConnection(url.hostname, url.port, timeout=timeout)
    context = ssl.create_default_context(cafile=CA_FILE)
    return http.client.HTTPSConnection(url.hostname, url.port, timeout=timeout, context=context)


def call(method, path, body=None):
    client = connection(30)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "User-Agent": "widgets/1"}
    try:
        client.request(method, path, json.dumps(body) if body is not None else None, headers)
        reply = client.getresponse()
        text = reply.read()
    finally:
        client.close()
    if reply.status >= 400:
        raise Refused(reply.status, text.decode(errors="replace")[:200])
    return json.loads(text)


def get(path):
    try:
        return call("GET", path)
    except Refused as error:
        if error.code == 404:
            return None
        raise


def delete(path, uid=None):
    body = {"preconditions": {"uid": uid}} if uid else None
    try:
        call("DELETE", path, body)
    except Refused as error:
        if error.code != 404:
            raise


def ensure(kind, plural, name, widget, data):
    found = get(f"{CORE}/{plural}/{name}")
    if found is None:
        owner = {"apiVersion": "example.com/v1", "kind": "Widget"}
        owner |= {"name": widget["metadata"]["name"], "uid": widget["metadata"]["uid"]}
        meta = {"name": name, "labels": {"example.com/widget": owner["name"]}, "ownerReferences": [owner]}
        if BUG == "orphan":
            del meta["ownerReferences"]
        made = {"apiVersion": "v1", "kind": kind, "metadata": meta, "data": data}
        try:
            call("POST", f"{CORE}/{plural}", made)
        except Refused as error:
            if error.code != 409:
                raise
    elif found.get("data") != data:
        found["data"] = data
        call("PUT", f"{CORE}/{plural}/{name}", found)


def reconcile(widget):
    name = widget["metadata"]["name"]
    path = f"{GROUP}/{name}"
    # The list, or the event, may be of a state that is long gone.
    widget = get(path)
    if widget is None:
        return
    if BUG == "panic" and "token" not in widget.get("status", {"token": ""}):
        # It expects that both of its writes happen, or none.
        raise SystemError("a status without a token")
    if widget["metadata"].get("deletionTimestamp"):
        if FINALIZER in widget["metadata"].get("finalizers", []):
            for plural in ("configmaps/%s-data", "secrets/%s-key"):
                child = get(f"{CORE}/{plural % name}")
                if child:
                    delete(f"{CORE}/{plural % name}", child["metadata"]["uid"])
            widget["metadata"]["finalizers"].remove(FINALIZER)
            call("PUT", path, widget)
        return
    if BUG != "orphan" and FINALIZER not in widget["metadata"].get("finalizers", []):
        widget["metadata"].setdefault("finalizers", []).append(FINALIZER)
        widget = call("PUT", path, widget)
    size = {"size": str(widget["spec"]["size"])}
    if BUG == "garbage":
        # The name of the new object is known to its status alone.
        if not widget.get("status", {}).get("data"):
            meta = {"generateName": f"{name}-data-"}
            made = call("POST", f"{CORE}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
            widget.setdefault("status", {})["data"] = made["metadata"]["name"]
            call("PUT", f"{path}/status", widget)
        return
    ensure("ConfigMap", "configmaps", f"{name}-data", widget, size)
    ensure("Secret", "secrets", f"{name}-key", widget, {"key": "a2V5"})
    status = {"ready": True, "size": widget["spec"]["size"]}
    if BUG == "hot-loop":
        # Not for ever: a run has to end on any machine.
        status["syncs"] = min(widget.get("status", {}).get("syncs", 0) + 1, 80)
    if BUG == "panic":
        if "status" not in widget:
            widget = call("PUT", f"{path}/status", widget | {"status": status})
        status = status | {"token": "x"}
    if widget.get("status") != status:
        widget["status"] = status
        call("PUT", path if BUG == "status-by-update" else f"{path}/status", widget)


def clean_up(widgets):
    """Deletes what belongs to no widget of the list."""
    known = {widget["metadata"]["name"] for widget in widgets}
    for child in call("GET", f"{CORE}/configmaps")["items"]:
        owner = child["metadata"].get("labels", {}).get("example.com/widget")
        if owner and owner not in known:
            delete(f"{CORE}/configmaps/{child['metadata']['name']}")


def watch(version):
    """Yields events for up to 5 minutes."""
    client = connection(400)
    headers = {"Authorization": f"Bearer {TOKEN}", "User-Agent": "widgets/1"}
    client.request("GET", f"{GROUP}?watch=true&timeoutSeconds=300&resourceVersion={version}", None, headers)
    reply = client.getresponse()
    if reply.status >= 400:
        raise Refused(reply.status, "watch")
    try:
        while line := reply.readline():
            event = json.loads(line)
            if event["type"] == "ERROR":
                return
            yield event
    finally:
        client.close()


def attempt(widget):
    """Reconciles, and returns false if it has to be tried again."""
    try:
        reconcile(widget)
        return True
    except (OSError, http.client.HTTPException, Refused) as error:
        print("failed:", error, flush=True)
        return BUG == "no-retry"


def main():
    backoff = 1
    first = True
    while True:
        try:
            listed = call("GET", GROUP)
            if BUG == "stale-delete" and first:
                clean_up(listed["items"])
            again = listed["items"] if first or BUG != "no-retry" else []
            done = all([attempt(widget) for widget in again])
            first = False
            if done:
                backoff = 1
                for event in watch(listed["metadata"]["resourceVersion"]):
                    if event["type"] == "DELETED":
                        if BUG == "orphan":
                            name = event["object"]["metadata"]["name"]
                            delete(f"{CORE}/configmaps/{name}-data")
                            delete(f"{CORE}/secrets/{name}-key")
                        continue
                    if not attempt(event["object"]):
                        break
                else:
                    continue
        except (OSError, http.client.HTTPException, Refused) as error:
            print("failed:", error, flush=True)
        time.sleep(backoff)
        backoff = min(backoff * 2, 60)


main()
