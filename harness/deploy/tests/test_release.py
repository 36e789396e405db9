"""The scripts and workflows of releases: install.sh against a server of this machine, the action as a runner starts it,
the packing of a release, and linters. `PLUMBLINE` names the program."""

import contextlib
import hashlib
import http.server
import io
import os
import re
import shutil
import signal
import struct
import subprocess
import tarfile
import threading
import urllib.request
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parent.parent
REPOSITORY = DEPLOY.parent.parent
PROGRAM = os.environ["PLUMBLINE"]
ARCHIVE = f"plumbline-{os.uname().machine}-linux.tar.gz"
CRATES = {f"plumbline-{name}" for name in ("apiserver", "controllers", "entropy", "guest", "k8s", "suite")}


def archive(program):
    """Returns an archive with this program."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo("plumbline")
        entry.mode, entry.size = 0o755, len(program)
        tar.addfile(entry, io.BytesIO(program))
    return packed.getvalue()


SCRIPT = f'#!/bin/sh\nexec "{PROGRAM}" "$@"\n'.encode()
GOOD = archive(SCRIPT)
SUMS = f"{hashlib.sha256(GOOD).hexdigest()}  {ARCHIVE}\n{'0' * 64}  other.tar.gz\n".encode()


@pytest.fixture
def releases():
    """A server of releases: `files` has the contents by path."""
    files = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            content = files.get(self.path)
            self.send_response(404 if content is None else 200)
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.files, server.url = files, f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()


def install(releases, folder, **environment):
    variables = {**os.environ, "PLUMBLINE_RELEASES": releases.url, "PLUMBLINE_DIR": str(folder), **environment}
    return subprocess.run(["sh", DEPLOY / "install.sh"], env=variables, capture_output=True, text=True, timeout=60)


def test_a_release_is_installed(releases, tmp_path):
    releases.files.update({f"/latest/download/{ARCHIVE}": GOOD, "/latest/download/SHA256SUMS": SUMS})
    folder = tmp_path / "bin"
    done = install(releases, folder)
    assert done.returncode == 0, done.stderr
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True).stdout.strip()
    lines = [f"installed {version} as {folder}/plumbline", f'add it to PATH: export PATH="{folder}:$PATH"']
    assert done.stdout.splitlines() == lines
    assert os.listdir(folder) == ["plumbline"]
    # A version, with or without its letter, over the older program, in a folder of PATH.
    releases.files.update({f"/download/v9.0.0/{ARCHIVE}": GOOD, "/download/v9.0.0/SHA256SUMS": SUMS})
    for version in ("9.0.0", "v9.0.0"):
        done = install(releases, folder, PLUMBLINE_VERSION=version, PATH=f"{folder}:{os.environ['PATH']}")
        assert done.returncode == 0 and len(done.stdout.splitlines()) == 1, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({ARCHIVE: GOOD + b"x", "SHA256SUMS": SUMS}, "has the checksum"),
        ({ARCHIVE: GOOD}, "has no SHA256SUMS: nothing is installed"),
        ({ARCHIVE: GOOD, "SHA256SUMS": b""}, f"SHA256SUMS of release latest does not name {ARCHIVE}"),
        ({ARCHIVE: GOOD, "SHA256SUMS": SUMS.replace(b"plumbline", b"x")}, f"does not name {ARCHIVE}"),
        ({ARCHIVE: GOOD, "SHA256SUMS": b"short  " + ARCHIVE.encode()}, f"does not name {ARCHIVE}"),
        ({"SHA256SUMS": SUMS}, f"release latest has no {ARCHIVE} at "),
        ({}, "check PLUMBLINE_VERSION and the network"),
    ],
)
def test_nothing_is_installed_without_the_right_checksum(releases, tmp_path, files, message):
    releases.files.update({f"/latest/download/{name}": content for name, content in files.items()})
    folder = tmp_path / "bin"
    done = install(releases, folder)
    said = [line for line in done.stderr.splitlines() if line.startswith("install.sh: ")]
    assert done.returncode == 1 and len(said) == 1 and message in said[0], done.stderr
    assert not folder.exists() and done.stdout == ""


def test_what_is_missing_on_the_machine_is_named(releases, tmp_path):
    releases.files.update({f"/latest/download/{ARCHIVE}": GOOD, "/latest/download/SHA256SUMS": SUMS})
    done = install(releases, "/proc/none")
    assert done.returncode == 1
    assert done.stderr == "install.sh: /proc/none cannot be written: set PLUMBLINE_DIR to another one\n"
    for name, machine, message in [
        ("Darwin", "arm64", "there are programs for Linux only, this is Darwin: use the container image"),
        ("Linux", "riscv64", "there is no program for riscv64: use cargo install plumbline-suite"),
    ]:
        fake = tmp_path / name
        fake.mkdir()
        (fake / "uname").write_text(f'#!/bin/sh\n[ "$1" = -s ] && echo {name} || echo {machine}\n')
        (fake / "uname").chmod(0o755)
        done = install(releases, tmp_path / "bin", PATH=f"{fake}:{os.environ['PATH']}")
        assert done.returncode == 1 and message in done.stderr, done.stderr
    # Neither curl nor wget.
    few = tmp_path / "few"
    few.mkdir()
    for tool in ("uname", "mktemp", "rm", "sh"):
        (few / tool).symlink_to(shutil.which(tool))
    done = install(releases, tmp_path / "bin", PATH=str(few))
    assert done.stderr.splitlines()[0] == "install.sh: curl or wget is needed: install one of them"


class Runner:
    """What a runner of GitHub gives to an action, and what it reads from it."""

    NAMES = ("ENV", "PATH", "OUTPUT", "STATE")

    def __init__(self, folder, **inputs):
        self.folder, self.inputs, self.pid = folder, inputs, None
        for name in self.NAMES:
            (folder / name).touch()

    def values(self, name):
        return dict(line.split("=", 1) for line in (self.folder / name).read_text().splitlines())

    def run(self):
        """Runs main.js, or what it runs where there is no Node.js; after a start, its other half."""
        files = {f"GITHUB_{name}": str(self.folder / name) for name in self.NAMES}
        inputs = {f"INPUT_{name.upper()}": value for name, value in self.inputs.items()}
        state = {f"STATE_{name}": value for name, value in self.values("STATE").items()}
        variables = {**os.environ, "RUNNER_TEMP": str(self.folder), **files, **inputs, **state}
        command = ["node", DEPLOY / "action" / "main.js"]
        if not shutil.which("node"):
            command = ["bash", DEPLOY / "action" / "action.sh", "transcript" if state else "start"]
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)

    def end(self):
        """Ends the processes with the kubeconfig of this runner, as the runner does after the job."""
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"{self.folder}/plumbline/kubeconfig" in (entry / "cmdline").read_text():
                    os.kill(int(entry.name), signal.SIGTERM)


@pytest.fixture
def runner(tmp_path):
    runners = []

    def make(**inputs):
        runners.append(Runner(tmp_path, **inputs))
        return runners[-1]

    yield make
    for one in runners:
        one.end()


def test_the_action_starts_a_cluster_and_shows_its_transcript_after_a_failure(runner):
    action = runner(program=PROGRAM, flags="--like kind --nodes 2")
    done = action.run()
    assert done.returncode == 0, done.stdout + done.stderr
    path = action.values("ENV")["KUBECONFIG"]
    assert action.values("OUTPUT")["kubeconfig"] == path
    assert (action.folder / "PATH").read_text() == f"{Path(PROGRAM).resolve().parent}\n"
    variables = {**os.environ, "KUBECONFIG": path}
    command = ["kubectl", "get", "nodes", "-o", "name"]
    nodes = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    assert nodes.stdout.split() == ["node/node-1", "node/node-2"], nodes.stderr
    subprocess.run(["kubectl", "create", "namespace", "shop"], env=variables, check=True, timeout=60)
    failed = action.run()
    assert failed.returncode == 0, failed.stderr
    assert "kubectl" in failed.stdout and "POST   namespaces/shop 201" in failed.stdout, failed.stdout
    assert "a cluster with nodes, loops and controllers" in failed.stdout, "the log is shown"
    action.end()


@pytest.mark.parametrize(
    ("inputs", "ref", "where"),
    [
        ({"version": "1.2.3"}, "v9.9.9", "download/v1.2.3"),
        ({}, "v1.2.3", "download/v1.2.3"),
        ({"version": "latest"}, "v9.9.9", "latest/download"),
        ({}, "main", "latest/download"),
    ],
)
def test_the_action_installs_a_release(runner, releases, monkeypatch, inputs, ref, where):
    """The one that is asked for, or that of its own tag."""
    releases.files.update({f"/{where}/{ARCHIVE}": GOOD, f"/{where}/SHA256SUMS": SUMS})
    monkeypatch.setenv("GITHUB_ACTION_REF", ref)
    monkeypatch.setenv("PLUMBLINE_RELEASES", releases.url)
    action = runner(flags="--http", **inputs)
    done = action.run()
    assert done.returncode == 0, done.stdout + done.stderr
    with pytest.raises(urllib.error.HTTPError) as refused:  # it is there, and nobody has given a token
        urllib.request.urlopen(action.values("OUTPUT")["url"] + "/api")
    assert refused.value.code in (401, 403)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"program": "/nowhere"}, "the input program, /nowhere, is not a program that can be run"),
        ({"program": PROGRAM, "flags": "--nods 2"}, "plumbline serve --nods 2 does not start: error: unexpected"),
        ({"version": "0.0.9"}, "release 0.0.9 cannot be installed; the lines above say why"),
    ],
)
def test_the_action_says_why_it_fails(runner, releases, monkeypatch, inputs, message):
    monkeypatch.setenv("PLUMBLINE_RELEASES", releases.url)
    done = runner(**inputs).run()
    said = [line for line in done.stdout.splitlines() if line.startswith("::error title=plumbline::")]
    assert done.returncode == 1 and len(said) == 1 and message in said[0], done.stdout + done.stderr


def test_a_release_is_packed(tmp_path):
    """With the smallest static program; the same files give the same bytes."""
    program = tmp_path / "plumbline"
    machine = {"x86_64": 0x3E, "aarch64": 0xB7}[os.uname().machine]
    program.write_bytes(b"\x7fELF\x02\x01" + bytes(10) + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, *[0] * 10))
    contents = []
    for name in ("a", "b"):
        variables = {**os.environ, "PLUMBLINE_DIST": str(tmp_path / name)}
        command = ["bash", REPOSITORY / ".ci/release", program]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        contents.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert contents[0] == contents[1]
    (wheel,) = [name for name in contents[0] if name.endswith(".whl")]
    assert set(contents[0]) == {ARCHIVE, wheel, "install.sh", "SHA256SUMS"} and "manylinux" in wheel
    for line in contents[0]["SHA256SUMS"].decode().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256(contents[0][name]).hexdigest() == digest
    with tarfile.open(fileobj=io.BytesIO(contents[0][ARCHIVE])) as tar:
        assert {entry.name: entry.mode for entry in tar} == {"plumbline": 0o755, "LICENSE": 0o755}


def is_packed(source, included, files):
    """Returns true if a file or folder that a source includes is in its package."""
    root = included.startswith("$CARGO_MANIFEST_DIR/")
    path = included.split("/", 1)[1] if root else os.path.normpath(Path(source).parent / included)
    return any(name == path or name.startswith(f"{path}/") for name in files)


@pytest.mark.skipif(not shutil.which("cargo"), reason="there is no cargo")
def test_crates_contain_what_they_need(tmp_path):
    """`.ci/package` without its arguments also builds each; that is a job of its own."""
    variables = {**os.environ, "CARGO_TARGET_DIR": str(tmp_path)}
    command = ["bash", REPOSITORY / ".ci/package", "--no-verify", "--allow-dirty"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    crates = {}
    for path in (tmp_path / "package").glob("*.crate"):
        with tarfile.open(path) as tar:
            files = {name.split("/", 1)[1]: tar.extractfile(name).read() for name in tar.getnames()}
        crates[path.name.rsplit("-", 1)[0]] = files
        assert {"README.md", "Cargo.toml"} <= files.keys(), path
        for name, text in files.items():
            # Not in comments, which show examples.
            code = re.sub(rb"(?m)^ *//.*$", b"", text) if name.endswith(".rs") else b""
            for included in re.findall(rb'include_(?:str|bytes|dir)!\("(.*?)"', code):
                assert is_packed(name, included.decode(), files), f"{path.name}: {name} includes {included}"
    assert crates.keys() == CRATES
    fixtures = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "fixtures").rglob("*") if path.is_file()}
    assert fixtures <= crates["plumbline-suite"].keys()


def test_workflows_and_scripts_pass_their_linters():
    workflows = sorted((REPOSITORY / ".github/workflows").glob("*.yaml"))
    assert len(workflows) >= 4
    done = subprocess.run(["actionlint", *workflows], cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    scripts = [DEPLOY / "install.sh", DEPLOY / "action/action.sh", *(REPOSITORY / ".ci").iterdir()]
    done = subprocess.run(["shellcheck", *scripts], cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_the_action_describes_itself():
    """Its inputs are those that the script reads, and its files exist."""
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((REPOSITORY / "action.yml").read_text())
    script = (DEPLOY / "action" / "action.sh").read_text()
    assert set(action["inputs"]) == {"version", "flags", "program"}
    for name in action["inputs"]:
        assert f"${{INPUT_{name.upper()}:-" in script, name
    for name in action["outputs"]:
        assert f"{name}=%s" in script, name
    for half in ("main", "post"):
        assert (REPOSITORY / action["runs"][half]).is_file()
