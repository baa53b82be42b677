"""Break the code in one place at a time: do the tests notice?

    python -m tools.mutants                 all of them, and the share that was noticed
    python -m tools.mutants timing steps    those of files whose name holds one of the words

Each mutant is applied in a temporary copy of the package, which comes first on PYTHONPATH, and the
tests that must fail are run with `-x -q`. Without a mutant they must pass; that is checked first.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.mutant import Mutant
from tools.mutant_list import MUTANTS

ROOT = Path(__file__).parent.parent
PACKAGE = Path("src") / "falcon_snn"
SECONDS = 900  # a mutant whose tests do not end is noticed, too


def run_tests(tests: tuple[str, ...], source: Path) -> str:
    """What the tests say if they fail with this source; nothing if they pass."""
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    try:
        done = _pytest(tests, environment)
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS} s"
    said = done.stdout.decode() + done.stderr.decode()
    if done.returncode not in (0, 1, 2):  # 2: the mutant cannot even be imported
        sys.exit(said)
    return said if done.returncode else ""


def _pytest(
    tests: tuple[str, ...], environment: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider",
         "--hypothesis-profile=no-shrinking",
         *(f"tests/{test}" for test in tests)],
        cwd=ROOT, env=environment, capture_output=True, check=False, timeout=SECONDS,
    )  # fmt: skip


def mutated(mutant: Mutant, source: Path) -> bool:
    """Whether the tests notice a mutant; the copy is then as before."""
    path = source / "falcon_snn" / mutant.file
    whole = path.read_text(encoding="utf-8")
    if whole.count(mutant.before) != 1:
        sys.exit(f"{mutant.name}: occurs {whole.count(mutant.before)} times; mend the list")
    path.write_text(whole.replace(mutant.before, mutant.after), encoding="utf-8")
    try:
        return bool(run_tests(mutant.tests, source))
    finally:
        path.write_text(whole, encoding="utf-8")


def copy_of_the_package(folder: Path) -> Path:
    """A copy whose compiled files are checked by content: a mutant has the size of its source."""
    source = folder / "src"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / PACKAGE, source / "falcon_snn", ignore=ignored)
    compiling = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", str(source)]
    subprocess.run([sys.executable, *compiling], check=True)
    return source


def main(words: list[str]) -> None:
    chosen = [m for m in MUTANTS if not words or any(word in m.file for word in words)]
    if not chosen:
        sys.exit(f"no mutant in a file whose name holds {' or '.join(words)}")
    with tempfile.TemporaryDirectory() as folder:
        source = copy_of_the_package(Path(folder))
        said = run_tests(tuple(dict.fromkeys(t for m in chosen for t in m.tests)), source)
        if said:
            sys.exit(f"the tests fail without any mutant:\n{said}")
        survived = []
        for number, mutant in enumerate(chosen, start=1):
            began = time.monotonic()
            killed = mutated(mutant, source)
            word = "killed  " if killed else "SURVIVED"
            seconds = time.monotonic() - began
            print(f"{number:3} {word} {seconds:5.1f} s  {mutant.name}", flush=True)
            if not killed:
                survived.append(mutant.name)
    killed_count = len(chosen) - len(survived)
    print(f"{killed_count} of {len(chosen)} killed ({100 * killed_count / len(chosen):.0f} %)")
    for name in survived:
        print(f"survived: {name}")
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
