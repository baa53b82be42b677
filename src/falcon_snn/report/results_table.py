"""All experiments in one table: means, intervals, and which differences are differences."""

from collections.abc import Sequence
from statistics import mean
from typing import Any, NamedTuple

from falcon_snn.report.published import MAIN_RESULTS, QK_PREFIX
from falcon_snn.report.results import MAIN, Result, of, paper_data
from falcon_snn.search.statistics import mcnemar, welch, wilson

_CHANCE = 0.05  # a difference is one if chance would give it less often than this


def results_table(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Our figures beside the paper's; a row for each of its configurations, then our own."""
    keys = [(setting, name) for setting in MAIN_RESULTS for name in MAIN]
    keys += [("gsc-medium", f"prefix-{row.prefix}") for row in QK_PREFIX[1:]]
    keys += [(r.setting, r.configuration) for r in results]
    full = {setting: of(results, setting, "full") for setting, _ in keys}
    return [_row(of(results, *key), full[key[0]], *key) for key in dict.fromkeys(keys)]


def differences(rows: Sequence[dict[str, Any]]) -> list[str]:
    """In words: which configurations of a setting differ from full lookahead, and which do not."""
    compared = {row["configuration"]: row["against_full"] for row in rows if row["against_full"]}
    real = [f"{name} {row['points']:+.2f} ({row['why']})" for name, row in compared.items()
            if row["differs"]]  # fmt: skip
    none = [name for name, row in compared.items() if not row["differs"]]
    lines = [f"Differ from full lookahead: {', '.join(real)}."] if real else []
    if none:
        lines.append(f"These clips show no difference from full lookahead: {', '.join(none)}.")
    return lines


def mean_test(found: Sequence[Result]) -> float | None:
    """Mean test accuracy of those whose test accuracy was read."""
    read = _percents(found)
    return mean(read) if read else None


def test_range(found: Sequence[Result]) -> list[float] | None:
    """Lowest and highest test accuracy of several seeds; None for a single one."""
    read = _percents(found)
    return [min(read), max(read)] if len(read) > 1 else None


def test_interval(found: Sequence[Result]) -> list[float] | None:
    """Wilson's 95 % interval in percent of the mean test accuracy: what other clips might give."""
    percent = mean_test(found)
    if percent is None:
        return None
    clips = min(r.test_clips for r in found if r.test_percent is not None)
    return [100 * end for end in wilson(round(percent * clips / 100), clips)]


def _mean_noise(found: Sequence[Result]) -> dict[str, float] | None:
    measured = [r.noise_percent for r in found if r.noise_percent]
    if not measured:
        return None
    return {db: mean(each[db] for each in measured if db in each) for db in measured[0]}


def _row(
    found: Sequence[Result], full: Sequence[Result], setting: str, configuration: str
) -> dict[str, Any]:
    paper_percent, paper_us = _published(setting, configuration)
    ours = found[0] if found else None
    against = None if configuration == "full" else compare(found, full)
    return {
        "setting": setting,
        "configuration": configuration,
        "test_percent": mean_test(found),
        "test_interval": test_interval(found),
        "test_range": test_range(found),
        "against_full": against and against._asdict(),
        "noise_percent": _mean_noise(found),
        "validation_percent": mean(r.validation_percent for r in found) if found else None,
        "latency_us": ours.latency_us if ours else None,
        "data": f"{ours.data}, {ours.words} words" if ours else None,
        "data_key": ours.data_key if ours else None,
        "seeds": len(found),
        "seed_numbers": [r.seed for r in found],
        "epochs": ours.epochs if ours else None,
        "teachers": ours.teachers if ours else None,
        "paper_test_percent": paper_percent,
        "paper_latency_us": paper_us,
        "paper_data": None if paper_percent is None else paper_data(setting),
    }


class Difference(NamedTuple):
    """Two configurations on the test clips, and whether their difference is one."""

    points: float  # one minus other, in percentage points of the means
    differs: bool
    why: str

    @property
    def words(self) -> str:
        return f"these clips show {'a' if self.differs else 'no'} difference ({self.why})"


def compare(one: Sequence[Result], other: Sequence[Result]) -> Difference | None:
    """Whether two configurations differ: by their seeds, else by the same clips, else by chance.

    With two seeds or more on both sides the spread of the seeds decides (Welch); of one network
    against one other McNemar's test, where the wrongly named clips of both are kept; else only
    intervals that do not touch make a difference. None: a test accuracy was not read.
    """
    first, second = ([r for r in found if r.test_percent is not None] for found in (one, other))
    if not first or not second:
        return None
    means = [mean(_percents(found)) for found in (first, second)]
    points = means[0] - means[1]
    if min(len(first), len(second)) > 1:
        p = welch(_percents(first), _percents(second))
        return Difference(points, p < _CHANCE, f"{len(first)} and {len(second)} runs, {_p(p)}")
    a, b = first[0], second[0]
    alone = len(first) == len(second) == 1
    kept = alone and a.test_wrong is not None and b.test_wrong is not None
    if kept and a.data_key is not None and a.data_key == b.data_key:
        wrong, wrong_other = set(a.test_wrong or ()), set(b.test_wrong or ())
        p = mcnemar(len(wrong - wrong_other), len(wrong_other - wrong))
        return Difference(points, p < _CHANCE, f"same clips, {_p(p)}")
    ends = [end for found in (first, second) for end in test_interval(found) or ()]
    apart = ends[0] > ends[3] or ends[2] > ends[1]
    return Difference(points, apart, f"intervals {'apart' if apart else 'overlap'}")


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _percents(found: Sequence[Result]) -> list[float]:
    return [r.test_percent for r in found if r.test_percent is not None]


def _published(setting: str, configuration: str) -> tuple[float | None, float | None]:
    if configuration in MAIN_RESULTS.get(setting, {}):
        return MAIN_RESULTS[setting][configuration]
    prefixes = {f"prefix-{row.prefix}": row for row in QK_PREFIX}
    if setting == "gsc-medium" and configuration in prefixes:
        row = prefixes[configuration]
        return row.test_after_percent, row.latency_us
    return None, None
