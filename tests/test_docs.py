"""What README.md and docs/*.md show is true: code prints what the page says, commands run."""

import contextlib
import importlib
import io
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import soundfile
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.data.examples import load_waves
from falcon_snn.network.operations import OPERATIONS, FireTerm
from falcon_snn.network.product import Product

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(python|output|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Commands that need no trained network and take a moment.
QUICK = ("doctor", "theory", "hardware", "latency", "throughput", "resources", "sweep", "graph",
         "describe", "related-work")  # fmt: skip
WHOLE = ("tutorial.md", "your-own.md")  # pages of which all commands are run
SERVES = ("studio",)  # does not end by itself


def commands(shell: str) -> Iterator[list[str]]:
    """The arguments of every `falcon-snn` line."""
    for line in shell.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["falcon-snn"]:
            yield words[1:]


def falcon(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, (
        f"falcon-snn {' '.join(words)}: {result.exception or result.output}"
    )
    return result.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_options_of_every_command_exist(page: Path) -> None:
    """Options are looked up before `--help` is obeyed, so a wrong one is an error."""
    for kind, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        for words in commands(body) if kind == "sh" else ():
            falcon(*words, "--help")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pictures_and_links_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
        file = page.parent / target if target else page
        assert file.is_file(), f"{page.name} points to {target}"
        if anchor:
            assert anchor in anchors(file), f"{page.name} points to {target}#{anchor}"


def anchors(page: Path) -> list[str]:
    """The names that headings have on the built page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return [re.sub(r"[\s-]+", "-", heading) for heading in plain]


def test_the_paper_is_mapped_to_files_and_names_that_exist() -> None:
    rows = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8").splitlines()
    for row in [row for row in rows if row.startswith("|")][2:]:
        _, _, code, checked, _ = row.split("|")
        files = [ROOT / "src/falcon_snn" / name for name in re.findall(r"`(\w+/[\w/.]+)`", code)]
        tests = [ROOT / "tests" / name for name in re.findall(r"`(test_\w+\.py)`", checked)]
        assert tests, row
        assert all(file.exists() for file in (*files, *tests)), row
        source = "".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
        assert all(name in source for name in re.findall(r"`([A-Za-z_]+)`", code) if files), row


def test_the_reference_names_modules_that_exist() -> None:
    names = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text("utf-8"), re.MULTILINE)
    assert len(names) > 40
    for name in names:
        importlib.import_module(name)


def test_the_page_lists_every_operation_with_all_its_fields() -> None:
    text = (ROOT / "docs" / "your-own.md").read_text(encoding="utf-8")
    records = {f"`{name}`": kind for name, kind in OPERATIONS.items()}
    for row, kind in {**records, "a term": FireTerm, "a product": Product}.items():
        found = re.search(rf"^\| {row} \| (.*) \|$", text, re.MULTILINE)
        assert found, row
        wanted = [field.name for field in fields(kind) if field.name != "name"]
        assert re.findall(r"`(\w+)`", found[1]) == wanted, row


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run in order, in a folder that holds the examples and some recordings.

    All `python` blocks are one program; an `output` block is what the block before it printed. Of
    the shell's commands the quick ones are run, on some pages all of them, with one epoch.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    shutil.copytree(ROOT / "examples", "examples")
    if page.name == "tutorial.md":
        write_recordings(Path("words"))
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        if kind == "output":
            assert printed.strip() == body.strip(), f"{page.name}: the page says otherwise"
        elif kind == "sh":
            whole = page.name in WHOLE
            ours = [words for words in commands(body) if whole or words[0] in QUICK]
            ours = [words for words in ours if words[0] not in SERVES]
            printed = "".join(falcon(*one_epoch(words)) for words in ours)
        else:
            line = text.count("\n", 0, block.start(2))
            code = compile("\n" * line + body, str(page), "exec")  # errors name the page's lines
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(code, names)
            printed = output.getvalue()


def one_epoch(words: list[str]) -> list[str]:
    """A command that trains, for one epoch instead of those that it names or its recipes have."""
    if words[0] == "run":
        return [*words, "--epochs", "qnn=1", "--epochs", "qat=1"]
    if words[0] in ("train", "adapt") and "--epochs" not in words:
        return [*words, "--epochs", "1"]
    return [
        "1" if before == "--epochs" else word
        for before, word in zip(["", *words], words, strict=False)
    ]


def write_recordings(folder: Path) -> None:
    """Embedded clips of three words as a folder of wavs; the hash of their voices splits them."""
    waves = load_waves("embedded", "training")
    for name, wave in zip(waves.names, waves.waves, strict=True):
        if name.startswith(("yes/", "no/", "stop/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(folder / name, wave.numpy(), 16_000)
