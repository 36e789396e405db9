"""The wheel of a built program: it is installed into fresh virtual environments, where a project of its own uses it.

`PLUMBLINE` names the program. The environments have no package manager; they see the libraries of the Python that runs
these tests, but for those that a test takes away.
"""

import importlib.util
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
HARNESS = HERE.parent.parent
PROJECT = HARNESS / "examples" / "python"
PROGRAM = Path(os.environ["PLUMBLINE"])


def _builder():
    specification = importlib.util.spec_from_file_location("build", HERE.parent / "build.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


builder = _builder()


class Environment:
    """A virtual environment with the wheel."""

    def __init__(self, folder, wheel, shares_libraries):
        self.folder, self.bin = folder, folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        site = next((folder / "lib").glob("python*/site-packages"))
        if shares_libraries:
            (site / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
        install = [sys.executable, "-m", "pip", "--python", self.bin / "python", "install", "--quiet", "--no-index"]
        subprocess.run([*install, "--disable-pip-version-check", "--no-deps", wheel], check=True)

    def run(self, *command, folder, **environment):
        """Runs a program of the environment, on a machine without Rust and the clone's settings."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        path = f"{self.bin}:{Path(shutil.which('kubectl') or '/usr/bin/kubectl').parent}:/usr/bin:/bin"
        variables = {**kept, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment}
        command = [self.bin / command[0], *command[1:]]
        return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)

    def pytest(self, folder, *arguments, **environment):
        """Runs pytest."""
        options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", *arguments]
        return self.run("python", *options, folder=folder, **environment)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    program = folder / "plumbline"
    # A debug build is half as large without symbols.
    if not shutil.which("strip") or subprocess.run(["strip", "-o", program, PROGRAM]).returncode != 0:
        shutil.copy(PROGRAM, program)
    return builder.build(program, folder / "dist", level=0)


@pytest.fixture(scope="session")
def environment(wheel, tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("environment"), wheel, shares_libraries=True)


@pytest.fixture
def project(tmp_path):
    """Writes the files of a project and returns its folder."""

    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        return tmp_path

    return write


def test_the_program_runs_in_an_environment_of_its_own(wheel, tmp_path):
    alone = Environment(tmp_path / "environment", wheel, shares_libraries=False)
    done = alone.run("plumbline", "run", "ttl/hysteresis-down", folder=tmp_path)
    assert done.returncode == 0 and "1 passed of 1" in done.stdout, done.stdout + done.stderr
    version = builder.of_workspace("version")
    done = alone.run("python", "-m", "plumbline", "--version", folder=tmp_path)
    assert done.stdout == f"plumbline {version}\n", done.stderr
    # Its server needs no package.
    script = "import plumbline\nwith plumbline.Server() as server: print(server.world().advance('1h').minute >= 0)"
    done = alone.run("python", "-c", script, folder=tmp_path)
    assert done.stdout == "True\n", done.stderr
    # One that is not closed ends with the script.
    done = alone.run("python", "-c", "import plumbline; print(plumbline.Server().pid)", folder=tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_a_server_ends_with_a_process_that_is_killed(environment, tmp_path):
    script = "import os, plumbline\nprint(plumbline.Server().pid, flush=True)\nos.kill(os.getpid(), 9)"
    done = environment.run("python", "-c", script, folder=tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    end = time.monotonic() + 30
    while is_running(int(done.stdout)):
        assert time.monotonic() < end, "the server still runs"
        time.sleep(0.02)


def is_running(pid):
    """Returns false for a process that is gone or a zombie: an orphan's parent may be slow to wait for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_project_passes_with_it(environment, tmp_path):
    """Runs the files of the project that no page of the site shows; those run in the tests of the site."""
    pages = "".join(page.read_text() for page in (HARNESS / "book" / "src").rglob("*.md"))
    shown = set(re.findall(r"^\$ pytest -q (test_\w+\.py)$", pages, re.MULTILINE))
    files = [file for file in PROJECT.glob("test_*.py") if file.name not in shown]
    assert {file.name for file in PROJECT.glob("test_*.py")} > shown and len(files) >= 4
    folder = tmp_path / "project"
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__"))
    done = environment.pytest(folder, "-W", "ignore", *(file.name for file in files))
    assert done.returncode == 0 and re.search(r"^\d+ passed in", done.stdout, re.MULTILINE), done.stdout + done.stderr
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    assert passed == sum(file.read_text().count("def test_") for file in files)


def test_a_failure_shows_the_transcript_and_its_world_can_be_kept(environment, project):
    folder = project(
        test_fails="import kubernetes\n"
        "def test_fails(client):\n"
        "    kubernetes.client.CoreV1Api(client).create_namespaced_config_map('default', {'metadata': {'name': 'm'}})\n"
        "    assert False\n"
        "def test_passes(world): pass\n"
    )
    done = environment.pytest(folder, "--plumbline-keep")
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "transcript of plumbline's world-1" in done.stdout
    assert re.search(r"^t=\+0s +python +POST +configmaps/m 201", done.stdout, re.MULTILINE), done.stdout
    path = re.search(r"export KUBECONFIG=(\S+)", done.stdout)[1]
    pid = int(re.search(r"kill (\d+)", done.stdout)[1])
    try:
        script = (
            "import kubernetes, sys\nkubernetes.config.load_kube_config(sys.argv[1])\n"
            "print(kubernetes.client.CoreV1Api().read_namespaced_config_map('m', 'default').metadata.name)"
        )
        found = environment.run("python", "-c", script, path, folder=folder)
        assert found.stdout == "m\n", found.stderr
    finally:
        os.kill(pid, signal.SIGTERM)
        shutil.rmtree(Path(path).parent)


def test_nothing_is_left_without_keep(environment, project, tmp_path):
    folder = project(test_fails="def test_fails(world):\n    print(f'pid={world.server.pid}')\n    assert False\n")
    (tmp_path / "temporary").mkdir()
    done = environment.pytest(folder, TMPDIR=str(tmp_path / "temporary"))
    pid = int(re.search(r"pid=(\d+)", done.stdout)[1])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not list((tmp_path / "temporary").glob("plumbline-*"))


def test_a_server_that_does_not_start_says_why_in_one_line(environment, project):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        messages = {
            "nods=2": "unexpected argument '--nods' found",
            "clock='none'": "invalid value 'none' for '--clock <CLOCK>'",
            f"listen='127.0.0.1:{port}'": f"unable to listen on 127.0.0.1:{port}: Address already in use",
            "audit_log_path='/nowhere/log'": "unable to open the audit log /nowhere/log: No such file or directory",
        }
        tests = [f"@pytest.mark.plumbline({flag})\ndef test_{i}(world): pass\n" for i, flag in enumerate(messages)]
        done = environment.pytest(project(test_it="import pytest\n" + "".join(tests)))
    said, _ = re.split(r"^=+ short test summary info =+$", done.stdout, flags=re.MULTILINE)
    _, *reports = re.split(r"^_+ ERROR at setup of test_\d _+$", said, flags=re.MULTILINE)
    assert done.returncode == 1 and len(reports) == len(messages), done.stdout
    for report, message in zip(reports, messages.values()):
        (line,) = report.strip().splitlines()
        assert line.startswith("plumbline serve ended with ") and message in line, done.stdout


def test_a_program_of_another_version_is_refused(environment, project, tmp_path):
    for said, advice in [
        ("plumbline 9.9.9", "is 9.9.9, but plumbline-k8s is {}: unset PLUMBLINE, or pip install plumbline-k8s==9.9.9"),
        ("docs are in step", "is another program, but plumbline-k8s is {0}: set PLUMBLINE to the program of "
         "plumbline-k8s {0}, or unset it"),
    ]:
        program = tmp_path / "other"
        program.write_text(f"#!/bin/sh\necho {said}\n")
        program.chmod(0o755)
        done = environment.pytest(project(test_it="def test_it(world): pass\n"), PLUMBLINE=str(program))
        assert f"{program} {advice.format(builder.of_workspace('version'))}" in done.stdout.splitlines(), done.stdout
    done = environment.pytest(tmp_path, PLUMBLINE="/nowhere")
    assert "PLUMBLINE=/nowhere is not a program that can be run: correct it or unset it" in done.stdout.splitlines()


def test_a_missing_client_library_is_named(environment, project):
    names = {"client": "kubernetes", "kr8s_client": "kr8s", "lightkube_client": "lightkube"}
    folder = project(
        conftest=f"import sys\nfor name in {list(names.values())}: sys.modules[name] = None\n",
        test_it="".join(f"def test_{fixture}({fixture}): pass\n" for fixture in names),
    )
    done = environment.pytest(folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith("the fixture ")]
    assert len(lines) == 3, done.stdout
    for line, (fixture, name) in zip(lines, names.items()):
        assert line.startswith(f"the fixture {fixture} needs the package {name} "), line
        assert line.endswith(f": pip install {name}"), line


def test_a_folder_that_cannot_be_written_is_named(environment, project):
    folder = project(test_it="import tempfile\ntempfile.tempdir = '/proc/nothing'\ndef test_it(world): pass\n")
    done = environment.pytest(folder)
    expected = "unable to make a folder in /proc/nothing: set TMPDIR to one that can be written"
    assert any(line.startswith(expected) for line in done.stdout.splitlines()), done.stdout


def test_an_old_python_is_refused(environment, tmp_path):
    script = "import sys\nsys.version_info = (3, 8, 1)\nimport plumbline"
    done = environment.run("python", "-c", script, folder=tmp_path)
    assert done.stderr.splitlines()[-1] == "ImportError: plumbline needs Python 3.9 or later, this is 3.8"


def program(machine, interpreter):
    """Returns the headers of an ELF program."""
    kind = builder.PT_INTERP if interpreter else 1
    fields = struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    head = b"\x7fELF\x02\x01" + bytes(10) + fields
    return head + struct.pack("<I", kind) + bytes(52)


def test_the_tag_says_where_the_program_runs():
    assert builder.platform(program(0x3E, True)) == "linux_x86_64"
    assert builder.platform(program(0x3E, False)) == "manylinux_2_17_x86_64.musllinux_1_1_x86_64"
    assert builder.platform(program(0xB7, False)) == "manylinux_2_17_aarch64.musllinux_1_1_aarch64"
    for bad in (b"#!/bin/sh\n", program(0x28, False), b""):
        with pytest.raises(builder.BuildError):
            builder.platform(bad)


def test_the_same_files_give_the_same_bytes(tmp_path):
    path = tmp_path / "plumbline"
    path.write_bytes(program(0x3E, False))
    first, second = (builder.build(path, tmp_path / name) for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert {"plumbline/py.typed", "plumbline/pytest_plugin.py"} < set(archive.namelist())
        assert archive.testzip() is None
    done = subprocess.run([sys.executable, HERE.parent / "build.py", tmp_path / "none"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("build.py: "), done.stderr
