"""The list of mutants is not out of date, and the tool that runs them can tell.

All of them: `python -m tools.mutants`.
"""

from pathlib import Path

import pytest
from tools.mutant import Mutant
from tools.mutant_list import MUTANTS
from tools.mutants import PACKAGE, ROOT, copy_of_the_package, mutated


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_has_its_place_and_its_tests(mutant: Mutant) -> None:
    text = (ROOT / PACKAGE / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.before) == 1
    assert text.replace(mutant.before, mutant.after) != text
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / "tests" / file).read_text(encoding="utf-8")


def test_a_fault_is_noticed_and_a_harmless_change_is_not(tmp_path: Path) -> None:
    source = copy_of_the_package(tmp_path)
    tests = ("test_engines.py::test_a_product_costs_what_the_paper_says",)
    fault = next(mutant for mutant in MUTANTS if "FILL_DRAIN_CYCLES" in mutant.before)
    assert mutated(fault._replace(tests=tests), source)
    assert not mutated(fault._replace(after="FILL_DRAIN_CYCLES = 60 + 2", tests=tests), source)
