"""An operator that labels what exists: it reads each object, and updates it as a whole once."""

import http.client
import json
import sys
import time
from urllib.parse import urlsplit

SERVER, TOKEN_FILE, *PATHS = sys.argv[1:]
TOKEN = open(TOKEN_FILE).read().strip()


def call(method, path, body=None):
    url = urlsplit(SERVER)
    client = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "User-Agent": "labels/1"}
    try:
        client.request(method, path, json.dumps(body) if body is not None else None, headers)
        return json.loads(client.getresponse().read())
    finally:
        client.close()


while True:
    for path in PATHS:
        found = call("GET", path)
        labels = found["metadata"].setdefault("labels", {})
        if "seen" not in labels:
            labels["seen"] = "yes"
            call("PUT", path, found)
    time.sleep(3600)
