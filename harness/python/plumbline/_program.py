"""Finds the program `plumbline` and checks that it is of this package's version."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sysconfig

DISTRIBUTION = "plumbline-k8s"


class PlumblineError(RuntimeError):
    """The program cannot be used, or it refused a request. The message is one line that says what to do."""


def find() -> str:
    """Returns the path of the program: `PLUMBLINE` if it is set, else the one of this package, else that in `PATH`.

    Raises `PlumblineError` if there is none.
    """
    chosen = os.environ.get("PLUMBLINE")
    if chosen:
        if not os.access(chosen, os.X_OK):
            raise PlumblineError(f"PLUMBLINE={chosen} is not a program that can be run: correct it or unset it")
        return chosen
    schemes = [sysconfig.get_default_scheme() if hasattr(sysconfig, "get_default_scheme") else None]
    schemes.append(f"{os.name}_user")
    for scheme in schemes:
        folder = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        path = os.path.join(folder, "plumbline")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("plumbline")
    if found is None:
        raise PlumblineError(f"the program plumbline is missing: pip install {DISTRIBUTION}, or set PLUMBLINE to it")
    return found


def check(path: str) -> None:
    """Raises `PlumblineError` if the program is not of this package's version.

    A package that is used from the source tree has no version, and nothing is checked.
    """
    try:
        wanted = importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PlumblineError(f"{path} does not run: {error}") from None
    found = said.split()[-1] if said.startswith("plumbline ") else "another program"
    if found != wanted:
        advice = f"set PLUMBLINE to the program of {DISTRIBUTION} {wanted}, or unset it"
        if found[:1].isdigit():
            advice = f"unset PLUMBLINE, or pip install {DISTRIBUTION}=={found}"
        raise PlumblineError(f"{path} is {found}, but {DISTRIBUTION} is {wanted}: {advice}")
