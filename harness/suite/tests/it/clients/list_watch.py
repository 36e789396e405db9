"""A reflector as users of the Python client write it, against `plumbline serve`, while others change the objects.

usage: list_watch.py KUBECONFIG

Prints one JSON object of counts; fails when an event is lost, repeated or out of order, or when the cache is not in the end
what the server lists.
"""

import json
import ssl
import sys
import threading
import time
import urllib.request

import urllib3
from kubernetes import client, config, watch

NAMESPACE = "default"
PAGE = 7
PATIENCE = 30.0


def map_of(name, value):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"of": "writer"}), data={"value": value})


class Writer(threading.Thread):
    """Creates, changes and deletes config maps until told to stop."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self.writes = 0
        self.failed = None

    def run(self):
        try:
            api = client.CoreV1Api(client.ApiClient())
            while not self.stopping.is_set():
                self.once(api, self.writes)
                self.writes += 1
                time.sleep(0.003)
        except Exception as failed:  # told by the main thread
            self.failed = failed

    @staticmethod
    def once(api, number):
        name = f"written-{number % 40}"
        try:
            if number % 11 == 10:
                api.delete_namespaced_config_map(name, NAMESPACE)
            elif number % 3 == 2:
                api.patch_namespaced_config_map(name, NAMESPACE, {"data": {"value": str(number)}})
            else:
                api.create_namespaced_config_map(NAMESPACE, map_of(name, str(number)))
        except client.ApiException as refused:
            if refused.status not in (404, 409):
                raise


class Cache:
    """The objects by name, and how they came here."""

    def __init__(self, api):
        self.api = api
        self.objects = {}
        self.version = None
        self.counts = dict.fromkeys(["lists", "pages", "watches", "closed", "broken", "expired", "events", "bookmarks"], 0)

    def list(self):
        self.counts["lists"] += 1
        objects, token, version = {}, None, None
        while True:
            page = self.api.list_namespaced_config_map(NAMESPACE, limit=PAGE, _continue=token)
            self.counts["pages"] += 1
            version = version or page.metadata.resource_version
            assert page.metadata.resource_version == version, "the pages of a list agree on its version"
            assert len(page.items) <= PAGE
            for item in page.items:
                assert item.metadata.name not in objects, "an object stands on one page"
                assert int(item.metadata.resource_version) <= int(version), "a list shows nothing later than itself"
                objects[item.metadata.name] = item.metadata.resource_version
            token = page.metadata._continue
            if not token:
                break
        self.objects, self.version = objects, version

    def take(self, event):
        kind, metadata = event["type"], event["raw_object"]["metadata"]
        version = metadata["resourceVersion"]
        if kind == "BOOKMARK":
            self.counts["bookmarks"] += 1
            assert int(version) >= int(self.version), "a bookmark does not go back"
            self.version = version
            return
        self.counts["events"] += 1
        name = metadata["name"]
        assert int(version) > int(self.version), f"{kind} {name} at {version} comes again or too late after {self.version}"
        known = name in self.objects
        assert known == (kind != "ADDED"), f"{kind} of {name}, which was {'known' if known else 'unknown'}"
        if kind == "DELETED":
            del self.objects[name]
        else:
            self.objects[name] = version
        self.version = version

    def watch(self, seconds):
        """Watches until the server closes, breaks or refuses; lists anew when the version is too old."""
        self.counts["watches"] += 1
        try:
            events = watch.Watch().stream(
                self.api.list_namespaced_config_map,
                NAMESPACE,
                resource_version=self.version,
                allow_watch_bookmarks=True,
                timeout_seconds=seconds,
            )
            for event in events:
                self.take(event)
            self.counts["closed"] += 1
        except client.ApiException as refused:
            if refused.status != 410:
                raise
            self.counts["expired"] += 1
            self.list()
        except urllib3.exceptions.HTTPError:
            self.counts["broken"] += 1


def compact():
    """Makes the server forget its past, as etcd's compaction does."""
    settings = client.Configuration.get_default_copy()
    context = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    token = settings.api_key.get("authorization") or settings.api_key["BearerToken"]
    request = urllib.request.Request(f"{settings.host}/plumbline/compact", method="POST", headers={"Authorization": token})
    with urllib.request.urlopen(request, context=context, timeout=PATIENCE) as answer:
        return int(json.load(answer)["resourceVersion"])


def watch_list(api):
    """The objects that a watch sends before the bookmark that ends the beginning."""
    found = {}
    events = watch.Watch().stream(
        api.list_namespaced_config_map,
        NAMESPACE,
        send_initial_events=True,
        resource_version_match="NotOlderThan",
        allow_watch_bookmarks=True,
        timeout_seconds=10,
    )
    for event in events:
        metadata = event["raw_object"]["metadata"]
        if event["type"] == "BOOKMARK":
            if metadata.get("annotations", {}).get("k8s.io/initial-events-end") == "true":
                return found, metadata["resourceVersion"]
            continue
        assert event["type"] == "ADDED", event["type"]
        found[metadata["name"]] = metadata["resourceVersion"]
    raise AssertionError("the bookmark at the end of the initial events did not come")


def main():
    config.load_kube_config(sys.argv[1])
    api = client.CoreV1Api()
    for number in range(30):
        api.create_namespaced_config_map(NAMESPACE, map_of(f"first-{number}", "0"))
    writer = Writer()
    writer.start()
    cache = Cache(api)
    cache.list()
    # The first watches are broken by the fault rules, the others closed by the server in time; bookmarks come only to those
    # that last longer than two seconds.
    while cache.counts["broken"] < 2 or cache.counts["closed"] < 2:
        cache.watch(1)
    cache.watch(4)
    # What is written now is forgotten before the cache has seen it.
    time.sleep(0.2)
    compact()
    before = cache.counts["lists"]
    while cache.counts["lists"] == before:
        cache.watch(1)
    cache.watch(1)
    writer.stopping.set()
    writer.join()
    if writer.failed:
        raise writer.failed
    last = api.list_namespaced_config_map(NAMESPACE)
    listed = {item.metadata.name: item.metadata.resource_version for item in last.items}
    started = time.monotonic()
    while cache.objects != listed and time.monotonic() - started < PATIENCE:
        cache.watch(1)
    assert cache.objects == listed, f"cache {cache.objects}\nlisted {listed}"
    streamed, version = watch_list(api)
    assert streamed == listed, f"streamed {streamed}\nlisted {listed}"
    assert int(version) >= int(last.metadata.resource_version)
    print(json.dumps(cache.counts | {"objects": len(listed), "writes": writer.writes}))


if __name__ == "__main__":
    main()
