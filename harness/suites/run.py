"""Runs the public test suites of client libraries, which nobody here wrote, against `plumbline serve`.

usage: run.py [--plumbline PROGRAM] [--sources FOLDER] [--work FOLDER] [--report FILE] [SUITE...]

The Python that runs this needs the packages of requirements.txt; `kubectl` and `git` are in PATH. Sources are cloned into
the folder if they are not there. A failure that accepted.yaml does not name makes the exit code 1.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import shutil
import site
import socketserver
import subprocess
import sys
import threading
import xml.etree.ElementTree
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import yaml

HERE = pathlib.Path(__file__).resolve().parent


@dataclass
class Suite:
    """A suite: where its source is, and how pytest runs it."""

    repository: str
    commit: str
    arguments: list
    # Folders of the source that belong into the installed package, which does not carry its tests.
    into_package: dict = field(default_factory=dict)
    # Folders of the source whose packages are used instead of the installed ones.
    paths: list = field(default_factory=list)
    # Files of the installed package that a build makes, which the source lacks.
    from_package: list = field(default_factory=list)


SUITES = {
    "kr8s": Suite(
        "kr8s-org/kr8s",
        "418ce61",
        ["kr8s/tests", "-o", "addopts=", "-o", "xfail_strict=false"],
        paths=["."],
        from_package=["kr8s/_version.py"],
    ),
    "lightkube": Suite("gtsystem/lightkube", "2f41260", ["e2e-tests"]),
    "kubernetes": Suite(
        "kubernetes-client/python",
        "024658493",
        ["--pyargs", "kubernetes.e2e_test", "kubernetes.dynamic.test_client", "kubernetes.dynamic.test_discovery"],
        into_package={
            "kubernetes/e2e_test": "kubernetes/e2e_test",
            "kubernetes/base/dynamic/test_client.py": "kubernetes/dynamic/test_client.py",
            "kubernetes/base/dynamic/test_discovery.py": "kubernetes/dynamic/test_discovery.py",
        },
    ),
    "kubernetes_asyncio": Suite(
        "tomplus/kubernetes_asyncio",
        "cb0b819d",
        ["--pyargs", "kubernetes_asyncio.e2e_test"],
        into_package={"kubernetes_asyncio/e2e_test": "kubernetes_asyncio/e2e_test"},
    ),
    "kopf": Suite("nolar/kopf", "60d02aef", ["tests/e2e", "-o", "addopts=", "--only-e2e"]),
}


def source_of(suite, folder):
    """Returns the folder with the source of a suite; clones it if it is not there."""
    place = folder / suite.repository.replace("/", "+")
    if not place.exists():
        subprocess.run(["git", "clone", "--quiet", f"https://github.com/{suite.repository}", place], check=True)
        subprocess.run(["git", "-C", place, "checkout", "--quiet", suite.commit], check=True)
    return place


@contextlib.contextmanager
def cluster(program, folder):
    """Starts a cluster whose pods have the annotations of scripts.yaml; returns its kubeconfig."""
    kubeconfig = folder / "kubeconfig"
    flags = ["--like", "kind", "--nodes", "2", "--client-certificate", "--until-stdin-closes"]
    with open(folder / "serve.log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(
            [program, "serve", *flags, "--kubeconfig", kubeconfig],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            ready = server.stdout.readline()
            if not ready.startswith("ready "):
                raise SystemExit(f"the server did not start: {folder / 'serve.log'}")
            scripts = (HERE / "scripts.yaml").read_text(encoding="utf-8")
            subprocess.run(
                ["kubectl", "--kubeconfig", kubeconfig, "apply", "-f", "-"],
                input=scripts.replace("YEAR", str(datetime.date.today().year)),
                check=True,
                stdout=subprocess.DEVNULL,
                text=True,
            )
            yield kubeconfig
        finally:
            server.stdin.close()
            server.wait(timeout=60)


def serve_ports():
    """Serves what the pods of the suites would serve: pages, and what they are sent. scripts.yaml has the addresses."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404 if self.path == "/foo" else 200)
            body = b"data" * (1 << 20) if self.path == "/foo.dat" else b"<h1>Welcome to nginx!</h1>"
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Echo(socketserver.BaseRequestHandler):
        def handle(self):
            while data := self.request.recv(1024):
                self.request.sendall(data)

    socketserver.ThreadingTCPServer.allow_reuse_address = True
    socketserver.ThreadingTCPServer.daemon_threads = True
    echo = socketserver.ThreadingTCPServer(("127.0.0.1", 18934), Echo)
    for server in [ThreadingHTTPServer(("127.0.0.1", 18980), Pages), echo]:
        threading.Thread(target=server.serve_forever, daemon=True).start()


def run_pytest(suite, source, kubeconfig, folder):
    """Runs the tests; returns the outcome of each: passed, skipped, or failed."""
    packages = pathlib.Path(site.getsitepackages()[0])
    for path, place in suite.into_package.items():
        copy = shutil.copytree if (source / path).is_dir() else shutil.copy
        copy(source / path, packages / place, **({"dirs_exist_ok": True} if copy is shutil.copytree else {}))
    for path in suite.from_package:
        shutil.copy(packages / path, source / path)
    home = folder / "home"
    (home / ".kube").mkdir(parents=True, exist_ok=True)
    shutil.copy(kubeconfig, home / ".kube" / "config")
    environment = {
        **os.environ,
        "HOME": str(home),
        "KUBECONFIG": str(home / ".kube" / "config"),
        "PYTHONPATH": os.pathsep.join([str(HERE / "plugin"), *(str(source / path) for path in suite.paths)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]),
    }
    report = folder / "junit.xml"
    options = ["-p", "suite_plugin", "-p", "no:cacheprovider", "-q", "--tb=native", "--timeout", "180"]
    options += ["--junitxml", report]
    with open(folder / "pytest.log", "w", encoding="utf-8") as log:
        subprocess.run(
            [sys.executable, "-P", "-m", "pytest", *options, *suite.arguments],
            cwd=source,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    outcomes = {}
    if not report.exists():
        return outcomes
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname').rsplit('.', 1)[-1]}.{case.get('name')}"
        kinds = {child.tag for child in case}
        failed = kinds & {"failure", "error"}
        outcomes[name] = "failed" if failed else "skipped" if "skipped" in kinds else "passed"
    return outcomes


def judge(name, outcomes, accepted):
    """Prints the figures of a suite; returns them with the failures that nothing explains."""
    failed = [test for test, outcome in outcomes.items() if outcome == "failed"]
    unexplained = [test for test in failed if test not in accepted]
    idle = [test for test in accepted if outcomes.get(test) == "passed"]
    counts = {kind: list(outcomes.values()).count(kind) for kind in ["passed", "skipped", "failed"]}
    print(f"{name}: {len(outcomes)} tests, {counts['passed']} passed, {counts['skipped']} skipped,", end=" ")
    print(f"{len(failed) - len(unexplained)} accepted, {len(unexplained)} failed")
    for test in unexplained:
        print(f"  failed: {test}")
    for test in idle:
        print(f"  passed, so accepted.yaml need not name it: {test}")
    return {**counts, "accepted": len(failed) - len(unexplained), "unexplained": unexplained}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--plumbline", default="target/release/plumbline", help="the program")
    parser.add_argument("--sources", type=pathlib.Path, default=pathlib.Path("target/suites/sources"))
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("target/suites/work"))
    parser.add_argument("--report", type=pathlib.Path, help="a file for the figures, as JSON")
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(SUITES)}; all by default")
    options = parser.parse_args()
    accepted = yaml.safe_load((HERE / "accepted.yaml").read_text(encoding="utf-8"))
    serve_ports()
    figures = {}
    for name in options.suites or SUITES:
        folder = (options.work / name).resolve()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        options.sources.mkdir(parents=True, exist_ok=True)
        source = source_of(SUITES[name], options.sources.resolve())
        with cluster(pathlib.Path(options.plumbline).resolve(), folder) as kubeconfig:
            outcomes = run_pytest(SUITES[name], source, kubeconfig, folder)
        figures[name] = judge(name, outcomes, accepted.get(name) or {})
        if "passed" not in outcomes.values():
            figures[name]["unexplained"].append(f"no test passed: {folder / 'pytest.log'}")
            print(f"  {figures[name]['unexplained'][-1]}")
    if options.report:
        options.report.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    sys.exit(any(suite["unexplained"] for suite in figures.values()))


main()
