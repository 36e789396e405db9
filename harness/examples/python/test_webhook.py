"""A validating webhook in the test's process: the server calls it over HTTPS with the bundle of its configuration."""

import base64
import http.server
import json
import ssl
import subprocess
import threading

import kubernetes
import pytest


class Review(http.server.BaseHTTPRequestHandler):
    """The webhook: config maps need an owner."""

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        allowed = "owner" in (request["object"].get("data") or {})
        status = {"code": 403, "message": "data.owner is missing"}
        response = {"uid": request["uid"], "allowed": allowed, "status": status}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def webhook(tmp_path_factory):
    """Yields the URL and the authority of the webhook."""
    folder = tmp_path_factory.mktemp("webhook")
    subject = ["-subj", "/CN=webhook", "-addext", "subjectAltName=IP:127.0.0.1"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", folder / "key"]
    subprocess.run(["openssl", "req", "-x509", *subject, *key, "-out", folder / "ca"], check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Review)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca", folder / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}/", (folder / "ca").read_bytes()
    server.shutdown()
    server.server_close()


@pytest.fixture
def configured(client, webhook):
    """Registers the webhook for config maps of the namespace default."""
    url, authority = webhook
    hook = {
        "name": "owner.example.org",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
    }
    hooks = kubernetes.client.AdmissionregistrationV1Api(client)
    hooks.create_validating_webhook_configuration({"metadata": {"name": "owner"}, "webhooks": [hook]})


@pytest.mark.plumbline(clock="wall")
def test_a_config_map_without_an_owner_is_refused(client, configured):
    core = kubernetes.client.CoreV1Api(client)
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.create_namespaced_config_map("default", {"metadata": {"name": "a"}, "data": {}})
    assert refused.value.status == 403
    assert "data.owner is missing" in json.loads(refused.value.body)["message"]


@pytest.mark.plumbline(clock="wall")
def test_one_with_an_owner_is_created(client, configured):
    core = kubernetes.client.CoreV1Api(client)
    core.create_namespaced_config_map("default", {"metadata": {"name": "a"}, "data": {"owner": "me"}})
