"""exec and port-forward as users of three Python clients write them, against `plumbline serve`.

usage: exec.py KUBECONFIG

The annotations of the pod say what its commands write. Prints the names of the clients that were tried.
"""

import asyncio
import gzip
import http.server
import json
import os
import sys
import threading
import time
import urllib.request

from kubernetes import client, config
from kubernetes.stream import portforward, stream
from kubernetes.stream.ws_client import ERROR_CHANNEL

SCRIPT = """\
$ date
today
$ date foo
! date: invalid date
? 1
$ /bin/sh
< echo test string 1
test string 1
< echo test string 2 >&2
! test string 2
< exit
$ sh -c "sleep 1; exit 3"
+1s ? 3
$ /bin/cat
<<
$ gzip
>= H4sIAAAAAAAC/ysoyswrAQBmfNYVBQAAAA==
"""


def serve_pages():
    """Serves a page, in place of what would run in the pod; returns the port."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b"hello from outside" * 10000
            self.send_response(200 if self.path == "/" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def create_pod(api, port):
    annotations = {
        "plumbline.dev/exec": SCRIPT,
        "plumbline.dev/exec.side": "$ date\ntomorrow",
        "plumbline.dev/port-forward.80": f"127.0.0.1:{port}",
        "plumbline.dev/port-forward.82": "127.0.0.1:1",
    }
    containers = [client.V1Container(name=name, image="busybox") for name in ["main", "side"]]
    metadata = client.V1ObjectMeta(name="scripted", annotations=annotations)
    api.create_namespaced_pod("default", client.V1Pod(metadata=metadata, spec=client.V1PodSpec(containers=containers)))
    for _ in range(200):
        if api.read_namespaced_pod("scripted", "default").status.phase == "Running":
            return
        time.sleep(0.1)
    raise AssertionError("the pod does not run")


def python_client(api):
    options = {"container": "main", "stderr": True, "stdin": False, "stdout": True, "tty": False}

    def run(command, **more):
        read = api.connect_get_namespaced_pod_exec
        return stream(read, "scripted", "default", command=command, **{**options, **more})

    assert run(["date"]) == "today\n"
    assert run(["date"], container="side") == "tomorrow\n"
    assert run(["date"], stdout=False, stderr=True) == ""
    assert gzip.decompress(run(["gzip"], binary=True)) == b"print"
    assert run(["date"], tty=True) == "today\r\n"
    unknown = run(["rm"], _preload_content=False)
    unknown.run_forever(timeout=10)
    assert unknown.returncode == 127, unknown.returncode
    assert "plumbline.dev/exec" in unknown.read_stderr()

    code = run(["sh", "-c", "sleep 1; exit 3"], _preload_content=False)
    assert code.returncode is None
    code.run_forever(timeout=10)
    assert code.returncode == 3, code.returncode

    shell = run(["/bin/sh"], stdin=True, _preload_content=False)
    shell.write_stdin("echo test string 1\n")
    assert shell.readline_stdout(timeout=5) == "test string 1"
    assert not shell.peek_stderr()
    shell.write_stdin("echo test string 2 >&2\n")
    assert shell.readline_stderr(timeout=5) == "test string 2"
    shell.write_stdin("exit\n")
    shell.run_forever(timeout=10)
    assert json.loads(shell.read_channel(ERROR_CHANNEL))["status"] == "Success"

    cat = run(["/bin/cat"], stdin=True, _preload_content=False)
    assert cat.subprotocol == "v5.channel.k8s.io", cat.subprotocol
    cat.write_stdin("hello\n")
    assert cat.readline_stdout(timeout=5) == "hello"
    cat.close_channel(0)
    cat.run_forever(timeout=10)
    assert cat.returncode == 0 and not cat.is_open()

    forwarded = portforward(api.connect_get_namespaced_pod_portforward, "scripted", "default", ports="80,81,82")
    socket = forwarded.socket(80)
    socket.setblocking(True)
    socket.sendall(b"GET / HTTP/1.0\r\n\r\n")
    reply = b""
    while part := socket.recv(65536):
        reply += part
    assert reply.startswith(b"HTTP/1.0 200") and reply.endswith(b"hello from outside"), reply[:100]
    for port, why in [(81, "no annotation plumbline.dev/port-forward.81"), (82, "refused")]:
        assert why in forwarded.error(port), forwarded.error(port)


async def kr8s_client(kubeconfig):
    import kr8s
    from kr8s.asyncio.objects import Pod

    api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
    pod = await Pod.get("scripted", namespace="default", api=api)
    done = await pod.exec(["date"], container="main")
    assert (done.stdout, done.stderr, done.returncode) == (b"today\n", b"", 0), done
    failed = await pod.exec(["date", "foo"], container="main", check=False)
    assert (failed.stdout, failed.stderr, failed.returncode) == (b"", b"date: invalid date\n", 1), failed
    async with pod.portforward(80, local_port=None) as port:
        url = f"http://127.0.0.1:{port}/"
        page = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=20).read())
        assert len(page) == 180000, len(page)


def lightkube_client():
    from lightkube import Client

    lightkube = Client()
    if not hasattr(lightkube, "exec"):
        return False
    done = lightkube.exec("scripted", namespace="default", container="side", command=["date"], stdout=True)
    assert done.stdout == "tomorrow\n", done
    words = {"namespace": "default", "container": "main", "command": ["/bin/cat"], "stdin": "hello\n", "stdout": True}
    done = lightkube.exec("scripted", **words)
    assert (done.stdout, done.exit_code) == ("hello\n", 0), done
    return True


def main():
    kubeconfig = sys.argv[1]
    os.environ["KUBECONFIG"] = kubeconfig
    config.load_kube_config(kubeconfig)
    api = client.CoreV1Api()
    create_pod(api, serve_pages())
    python_client(api)
    tried = ["kubernetes"]
    try:
        asyncio.run(kr8s_client(kubeconfig))
        tried.append("kr8s")
    except ModuleNotFoundError as missing:
        print(missing, file=sys.stderr)
    try:
        if lightkube_client():
            tried.append("lightkube")
    except ModuleNotFoundError as missing:
        print(missing, file=sys.stderr)
    print(json.dumps(tried))


main()
