"""The shape of the project: folders import from those above them, no modules in a circle."""

import ast
from pathlib import Path

import falcon_snn

ROOT = Path(falcon_snn.__file__).parent
# Data flows one way; a folder imports from those above it, never from those below.
ORDER = (
    "errors", "forms", "files", "neuron", "hardware", "pipeline", "network", "data", "search",
    "training", "interchange", "report", "workflow", "studio", "cli",
)  # fmt: skip


def imports(path: Path) -> set[str]:
    """The modules of this package that a file imports when it runs, in functions too."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return  # read by type checkers only
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("falcon_"):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in names if file_of(name) is not None]
            found.update(modules or [node.module])
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def file_of(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split(".")[1:])
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


def modules() -> dict[str, set[str]]:
    named = {}
    for path in ROOT.rglob("*.py"):
        parts = [*path.relative_to(ROOT).with_suffix("").parts]
        if parts[-1] == "__init__":
            parts.pop()
        named[".".join(["falcon_snn", *parts])] = imports(path)
    return named


def test_folders_import_only_from_those_above() -> None:
    wrong = []
    for module, read in modules().items():
        own = module.split(".")[1:2]
        if not own:  # the package itself hands out what users need
            continue
        for other in read:
            above = other.split(".")[1:2]
            if above and ORDER.index(above[0]) > ORDER.index(own[0]):
                wrong.append(f"{module} imports {other}")
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = modules()
    done: set[str] = set()

    def walk(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module in done:
            return
        for other in sorted(graph.get(module, ())):
            if other != "falcon_snn":  # every module may ask for the version
                walk(other, (*path, module))
        done.add(module)

    for module in sorted(graph):
        walk(module, ())


def test_falcon_is_written_in_one_file() -> None:
    spelled = [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if any(word in path.read_text(encoding="utf-8") for word in ("ffn1", "residual1"))
    ]
    assert spelled == ["network/falcon.py"]


def test_a_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
