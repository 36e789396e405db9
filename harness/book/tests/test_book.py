"""The site: it builds, its links and anchors lead somewhere, nothing comes from elsewhere, and its commands do what the
pages show. `PLUMBLINE` names the program.

In a block of the language `console`, a line that begins with `$ ` is a command; the lines below it are its output, in
order, among others, with `…` for any text. A command that shows no output must succeed. The commands of a page run in
one shell, in a folder with the repository's `harness`. Blocks of `sh` install things and are not run.
"""

import html.parser
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

BOOK = Path(__file__).resolve().parent.parent
REPOSITORY = BOOK.parent.parent
PAGES = sorted((BOOK / "src").rglob("*.md"))
HOSTED = "https://github.com/plumbline/plumbline/"
LINES = 140
MARK = "<<end of command>>"


def module(name):
    """Loads a script of the book."""
    specification = importlib.util.spec_from_file_location(name, BOOK / f"{name}.py")
    loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    return loaded


class Page(html.parser.HTMLParser):
    """The links, anchors and sources of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids, self.sources = [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if "id" in values:
            self.ids.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in ("script", "img") and "src" in values:
            self.sources.append(values["src"])
        if tag == "link" and values.get("rel") != "canonical":
            self.sources.append(values["href"])


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    module("build").build(os.environ["PLUMBLINE"], folder)
    return folder


@pytest.fixture(scope="session")
def pages(site):
    # print.html is all pages in one; the reports have tests of their own.
    others = ("print.html", "404.html", "toc.html")
    found = [path for path in site.rglob("*.html") if path.name not in others and path.parent.name != "conformance"]
    return {path: Page(path) for path in found}


def test_links_and_anchors_lead_somewhere(site, pages):
    broken, found = [], 0
    for path, page in pages.items():
        for link in page.links:
            if link.startswith((HOSTED + "blob/main/", HOSTED + "tree/main/", HOSTED + "edit/main/")):
                target, _, _ = link[len(HOSTED) :].split("/", 2)[2].partition("#")
                if not (REPOSITORY / target).exists():
                    broken.append(f"{path.name}: {link}")
            elif "://" not in link:
                target, _, anchor = link.partition("#")
                other = (path.parent / target).resolve() if target else path
                if not other.exists() or anchor and other in pages and anchor not in pages[other].ids:
                    broken.append(f"{path.name}: {link}")
                found += 1
    assert found > 250 and broken == []


def test_the_manuals_are_chapters(site):
    for name, (path, _) in module("build").MANUALS.items():
        text = (site / f"manuals/{name}.html").read_text()
        headings = re.findall(r"^## (.*)$", (REPOSITORY / path).read_text(), re.MULTILINE)
        assert len(re.findall('<h2 id="(?!mdbook-)', text)) == len(headings) > 2 and f"/edit/main/{path}" in text, path


def test_nothing_is_fetched_from_elsewhere(site, pages):
    for path, page in pages.items():
        assert page.sources and not [source for source in page.sources if "//" in source], path
        assert all((path.parent / source).exists() for source in page.sources), path
    assert not re.search(r"url\(['\"]?https?:", "".join(file.read_text() for file in site.rglob("*.css")))


def test_the_search_finds_pages(site):
    (index,) = site.glob("searchindex*.js")
    text = index.read_text()
    for word in ("evict", "lease", "webhook", "kopf", "fabric8", "advanc"):
        assert word in text, word


def test_the_reference_is_that_of_the_program(site):
    program = module("build").Program(os.environ["PLUMBLINE"])
    text = (site / "reference/command-line.html").read_text()
    verbs = program.verbs()
    assert len(verbs) >= 12 and all(f'id="plumbline-{verb}"' in text for verb in verbs)
    served = (site / "reference/served.html").read_text()
    assert all(f"<code>{name}</code>" in served for name in ("pods/eviction", "poddisruptionbudgets", "leases"))
    codes = (site / "reference/exit-codes.html").read_text()
    assert all(f"<td>{code}</td>" in codes for code in (0, 1, 2, 3, 4, 5, 96, 100, 101, 102))
    schema = json.loads(program.says("schema"))
    fixtures = (site / "reference/fixtures.html").read_text()
    assert all(f'id="{name}"' in fixtures for name in schema["$defs"])


def samples(schema):
    """Yields values of a schema: with all properties, and one for each alternative."""
    if "oneOf" in schema:
        for alternative in schema["oneOf"]:
            yield from samples(alternative)
    elif schema["type"] == "object":
        columns = {name: list(samples(found)) for name, found in schema["properties"].items()}
        for index in range(max(map(len, columns.values()), default=1)):
            yield {name: values[index % len(values)] for name, values in columns.items()}
    elif schema["type"] == "array":
        yield [value for value in samples(schema["items"])]
    elif "enum" in schema:
        yield from schema["enum"]
    else:
        yield {"string": "word", "integer": schema.get("minimum", 1), "boolean": True}[schema["type"]]


def test_the_server_takes_the_rules_that_its_document_describes():
    plumbline = module("build").plumbline
    with plumbline.Server("--clock", "manual") as server:
        schema = server.call("GET", "/plumbline/openapi.json")["components"]["schemas"]["FaultRule"]
        rules = list(samples(schema))
        # A word, or an object with one key.
        verdicts = set()
        for rule in rules:
            verdicts.update([rule["verdict"]] if isinstance(rule["verdict"], str) else rule["verdict"])
        assert verdicts == {"pass", "reply", "drop", "delay", "closeWatch", "gone"}
        for rule in rules:
            server.call("POST", "/plumbline/faults", rule)
            with pytest.raises(plumbline.PlumblineError, match="unknown field"):
                server.call("POST", "/plumbline/faults", {**rule, "unknown": 1})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short_and_whole(page, site):
    if page.name == "SUMMARY.md":
        names = {str(other.relative_to(BOOK / "src")) for other in PAGES if other != page}
        assert set(re.findall(r"\]\((.*?)\)", page.read_text())) == names, "each page is in the summary"
        return
    text = page.read_text()
    for include in re.findall(r"\{\{#include (?:\.\./)+(.*?)\}\}", text):
        name, _, anchor = include.partition(":")
        content = (REPOSITORY / "harness" / name).read_text()
        if anchor:
            content = content.split(f"ANCHOR: {anchor}")[1].split("ANCHOR_END")[0]
        text += content
    assert len(text.splitlines()) <= LINES
    made = site / page.relative_to(BOOK / "src").with_suffix(".html")
    made = made.with_name("index.html") if page.name == "README.md" else made
    assert "{{#" not in made.read_text()


def commands(page):
    """Returns the commands of a page, each with its output."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            # A command goes on in the next line after a backslash, or inside of quotes.
            count = 1
            while lines[count - 1].endswith("\\") or not is_closed("\n".join(lines[:count])):
                count += 1
            found.append(("\n".join(lines[:count]), lines[count:]))
    return found


def is_closed(text):
    try:
        shlex.split(text.rstrip("&"))
    except ValueError:
        return False
    return True


RUN = [page for page in PAGES if "```console" in page.read_text()]


def test_most_tasks_have_commands():
    without = [page.stem for page in BOOK.glob("src/tasks/*.md") if page not in RUN]
    assert without == ["actions"], "those are run by the tests of the action"


def run(shown, folder):
    """Runs commands in one shell in a folder. Returns the output and exit code of each."""
    (folder / "harness").symlink_to(REPOSITORY / "harness")
    (folder / "bin").mkdir()
    (folder / "bin" / "plumbline").symlink_to(os.environ["PLUMBLINE"])
    script = ["set -u"]
    for command, _ in shown:
        if command.endswith("&"):
            # Its first line says that it is ready.
            command = f"{command[:-1]}>ready & until [ -s ready ]; do sleep 0.05; done; cat ready"
        script.append(command)
        script.append(f"printf '\\n{MARK} %s\\n' $?")
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY / "harness/python"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_PLUGINS": "plumbline.pytest_plugin",
        "PYTEST_ADDOPTS": "-p no:cacheprovider -W ignore",
        "PLUMBLINE_FIXTURES": str(REPOSITORY / "fixtures"),
    }
    process = subprocess.Popen(
        ["bash", "-c", "\n".join(script)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    # The server in the background keeps the pipe open, so the last mark ends the reading.
    said, output = 0, []
    for line in process.stdout:
        output.append(line)
        said += line.startswith(MARK)
        if said == len(shown):
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert said == len(shown), "".join(output)
    parts = re.split(rf"\n{MARK} (\d+)\n", "".join(output))
    return list(zip(parts[::2], map(int, parts[1::2])))


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_commands_do_what_the_page_shows(page, tmp_path):
    shown = commands(page)
    for (command, expected), (text, code) in zip(shown, run(shown, tmp_path)):
        pattern = ".*".join(re.escape(line).replace("…", ".*") for line in expected)
        assert expected or code == 0, f"$ {command}\n{text}"
        assert re.search(pattern, text, re.DOTALL), f"$ {command}\n{text}"


def test_the_picture_of_the_front_page_is_a_run(tmp_path):
    """The commands of the first page, with what they print; the port and the time are those of no day."""
    shown = commands(BOOK / "src/README.md")
    session = []
    for (command, _), (text, _) in zip(shown, run(shown, tmp_path)):
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:6443", text)
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2030-01-01T01:00:00Z", text)
        lines = [line for line in text.splitlines() if line and not line.startswith("a cluster with nodes")]
        session.append((command, lines))
    is_current("terminal", module("pictures").terminal(session, "A cluster starts, and an hour passes"))


def is_current(name, picture):
    """Fails unless the picture is the committed one. PLUMBLINE_ACCEPT_PICTURES=1 writes it."""
    ElementTree.fromstring(picture)
    file = BOOK / f"src/{name}.svg"
    if os.environ.get("PLUMBLINE_ACCEPT_PICTURES"):
        file.write_text(picture)
    assert file.exists() and file.read_text() == picture, "look at it with PLUMBLINE_ACCEPT_PICTURES=1"


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(not CHROMIUM, reason="there is no chromium")
def test_the_picture_of_a_timeline_is_a_report(tmp_path):
    fixture = "podgc/orphaned-quarantine-40s"
    command = [os.environ["PLUMBLINE"], "run", fixture, "--format", "html", "--output", "report.html"]
    environment = {**os.environ, "PLUMBLINE_FIXTURES": str(REPOSITORY / "fixtures")}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,800", f"--user-data-dir={tmp_path}/x"]
    address = f"file://{tmp_path}/report.html#{fixture}"
    command = [CHROMIUM, *flags, "--virtual-time-budget=5000", "--dump-dom", address]
    page = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    is_current("timeline", module("pictures").timeline(page))
