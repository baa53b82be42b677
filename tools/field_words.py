"""For the API reference: a field's comment, or the meaning in its metadata, is its description."""

import ast
import re
from typing import Any

from griffe import Attribute, Docstring, Extension, ObjectNode

_COMMENT = re.compile(r"  # (.+)$")


class FieldWords(Extension):  # type: ignore[misc]
    """Gives attributes without a docstring the words that stand beside them in the source."""

    def on_attribute_instance(
        self, *, node: ast.AST | ObjectNode, attr: Attribute, **_: Any
    ) -> None:
        if attr.docstring is not None or attr.lineno is None or attr.parent is None:
            return
        if not attr.parent.is_class:
            return
        words = _comment(attr) or _meaning(node)
        if words:
            attr.docstring = Docstring(words, lineno=attr.lineno, parent=attr)


def _comment(attr: Attribute) -> str | None:
    lines = attr.lines_collection[attr.filepath]
    assert attr.lineno is not None
    for number in range(attr.lineno, (attr.endlineno or attr.lineno) + 1):
        found = _COMMENT.search(lines[number - 1])
        if found is not None and not found[1].startswith(("fmt:", "type:", "noqa")):
            return found[1]
    return None


def _meaning(node: object) -> str | None:
    """The last text among the arguments of a call such as `_number("analog", 0, 1, "words")`."""
    value = getattr(node, "value", None)
    if not isinstance(value, ast.Call):
        return None
    texts = [a.value for a in value.args if isinstance(a, ast.Constant) and type(a.value) is str]
    return texts[-1] if texts else None
