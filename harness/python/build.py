#!/usr/bin/env python3
"""Makes the wheel `plumbline-k8s` of a built program: `python3 harness/python/build.py "$(.ci/program)"`.

A statically linked program gets the platform tags of all Linux distributions, another one that of this machine only,
which the package index refuses. Needs Python 3.9 or later and no packages. The same files give the same bytes.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import stat
import struct
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
NAME = "plumbline_k8s"
MACHINES = {0x3E: "x86_64", 0xB7: "aarch64"}
PT_INTERP = 3

METADATA = """\
Metadata-Version: 2.1
Name: plumbline-k8s
Version: {version}
Summary: A Kubernetes API with a clock for tests, with a plugin for pytest
License: Apache-2.0
Project-URL: Source, {repository}
Project-URL: Changes, {repository}/blob/main/CHANGELOG.md
Keywords: kubernetes,testing,pytest,operator,controller
Classifier: Development Status :: 4 - Beta
Classifier: Framework :: Pytest
Classifier: Intended Audience :: Developers
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Software Development :: Testing
Classifier: Typing :: Typed
Requires-Python: >=3.9
Provides-Extra: test
Requires-Dist: pytest>=7; extra == "test"
Requires-Dist: kubernetes; extra == "test"
Description-Content-Type: text/markdown

{readme}"""

ENTRY_POINTS = "[pytest11]\nplumbline = plumbline.pytest_plugin\n"


class BuildError(Exception):
    """The wheel cannot be made; the message says why."""


def platform(program: bytes) -> str:
    """Returns the platform tag of an ELF program. It is static if it names no interpreter."""
    if program[:6] != b"\x7fELF\x02\x01":
        raise BuildError("not a 64-bit little-endian ELF program: build plumbline for Linux")
    (machine,) = struct.unpack_from("<H", program, 18)
    if machine not in MACHINES:
        raise BuildError(f"ELF machine {machine:#x}: only {' and '.join(MACHINES.values())} are known")
    (offset,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    kinds = {struct.unpack_from("<I", program, offset + index * size)[0] for index in range(count)}
    name = MACHINES[machine]
    return f"linux_{name}" if PT_INTERP in kinds else f"manylinux_2_17_{name}.musllinux_1_1_{name}"


def of_workspace(key: str) -> str:
    """Returns a value of `[workspace.package]` in Cargo.toml."""
    text = (REPOSITORY / "Cargo.toml").read_text(encoding="utf-8")
    found = re.search(rf'^\[workspace\.package\]$.*?^{key} = "(.*?)"$', text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise BuildError(f"Cargo.toml has no {key} in [workspace.package]")
    return found[1]


def build(program: Path, out: Path, level: int = 9) -> Path:
    """Writes the wheel into the folder `out`, compressed at this level, and returns its path."""
    binary = program.read_bytes()
    version, tags = of_workspace("version"), platform(binary)
    metadata = METADATA.format(
        version=version,
        repository=of_workspace("repository"),
        readme=(HERE / "README.md").read_text(encoding="utf-8"),
    )
    wheel = ["Wheel-Version: 1.0", "Generator: plumbline", "Root-Is-Purelib: false"]
    wheel += [f"Tag: py3-none-{tag}" for tag in tags.split(".")]
    info = f"{NAME}-{version}.dist-info"
    files = {f"plumbline/{path.name}": path.read_bytes() for path in sorted((HERE / "plumbline").glob("*.py"))}
    files["plumbline/py.typed"] = b""
    files[f"{NAME}-{version}.data/scripts/plumbline"] = binary
    files[f"{info}/METADATA"] = metadata.encode()
    files[f"{info}/WHEEL"] = "\n".join([*wheel, ""]).encode()
    files[f"{info}/entry_points.txt"] = ENTRY_POINTS.encode()
    files[f"{info}/licenses/LICENSE"] = (REPOSITORY / "LICENSE").read_bytes()
    record = [f"{name},sha256={digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()

    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{NAME}-{version}-py3-none-{tags}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | (0o755 if "/scripts/" in name else 0o644)) << 16
            archive.writestr(entry, content, compresslevel=level)
    return path


def digest(content: bytes) -> str:
    """Returns the digest in the form of RECORD."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="the built program `plumbline`")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="the folder of the wheel [default: dist]")
    arguments = parser.parse_args()
    try:
        print(build(arguments.program, arguments.out))
    except (BuildError, OSError) as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
