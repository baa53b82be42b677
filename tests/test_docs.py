"""The Python code in docs/*.md runs, and prints what the page says it prints."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(python|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [page for page in DOCS if "```python\n" in page.read_text()], ids=lambda p: p.name
)
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All `python` blocks of a page run in order as one program, in an empty folder.

    An `output` block is what the `python` block before it printed.
    """
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        if kind == "output":
            assert printed.strip() == body.strip(), f"{page.name}: the page says otherwise"
            continue
        line = text.count("\n", 0, block.start(2))
        code = compile("\n" * line + body, str(page), "exec")  # errors name the page's own lines
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(code, names)
        printed = output.getvalue()
