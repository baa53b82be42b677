"""The form of a mutant; `mutant_list.py` has them all."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """One change of the code, and the tests that must fail with it."""

    file: str  # under src/falcon_snn
    before: str  # occurs exactly once in the file
    after: str
    tests: tuple[str, ...]  # files or node ids under tests/

    @property
    def name(self) -> str:
        line = self.before.strip().splitlines()[0]
        return f"{self.file}: {line[:60]}"


def of(file: str, tests: str, *changes: tuple[str, str]) -> list[Mutant]:
    """Mutants of one file that the same tests must notice."""
    return [Mutant(file, before, after, tuple(tests.split())) for before, after in changes]
