"""Networks on sampled chips: every effect that docs/chip.md lists, alone and all together.

    python -m tools.chip_effects --data gsc-v1 --chips 25 --out effects.json \\
        gsc1-kestrel-7 gsc1-medium-full:qnn adapted/best.safetensors:fastest

A network is a trained one by name or a file, with a schedule behind a colon if not its own. The
profile is `noisy`; beside its effects come cells one second after writing, a proportional error of
10 % and 1 % of the cells stuck. The file is written after every network. What was measured is drawn
again by

    python -m tools.chip_effects --out benchmarks/chip_effects.json --plot docs/pictures/chips.png
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from falcon_snn.files import read_json, write_json
from falcon_snn.hardware.effects import ALL, effects
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.report.style import drawing, shared_legend
from falcon_snn.training.pretrained import trained_file
from falcon_snn.workflow.chips import evaluate_on_chips

LEFT_OUT = "both, untrimmed offset"
COLOURS = ("#2563a8", "#e1812c", "#845b97", "#3a923a", "#c0392b", "#7b8794")


def listed(profile: Profile, weight_bits: int) -> dict[str, Profile]:
    """The effects of a profile alone, those of the other sizes, then all together."""
    others = (
        replace(profile, programming="wan2022-1s"),
        replace(profile, programming="proportional", programming_sigma=0.1),
        replace(profile, stuck_hrs_rate=0.005, stuck_lrs_rate=0.005),
    )
    found = effects(profile, weight_bits)
    found.pop(LEFT_OUT, None)
    together = {ALL: found.pop(ALL)}
    for other in others:
        for name, one in effects(other, weight_bits).items():
            if name not in (LEFT_OUT, ALL):
                found.setdefault(name, one)
    families = list(dict.fromkeys(_family(name) for name in found))
    found = dict(sorted(found.items(), key=lambda one: families.index(_family(one[0]))))
    return found | together


def _family(name: str) -> str:
    """Effects that differ in size only have one name before the comma."""
    return name.partition(",")[0]


def measured_effects(
    checkpoint: Path, data: str, schedule: str | None, *, split: str, chips: int, limit: int | None
) -> dict[str, Any]:
    """A network on the chips of `noisy`, with every effect that is listed."""
    report = evaluate_on_chips(
        checkpoint, data, load_profile("noisy"), chips=chips, split=split, limit=limit,
        schedule=schedule, effects_of=listed,
    )  # fmt: skip
    return report.as_json()


def draw(path: Path, found: dict[str, Any]) -> None:
    """What each effect takes off the ideal chip's accuracy: the mean, and on the worst chip."""
    names = [one["name"] for one in next(iter(found.values()))["effects"]]
    with drawing(path, 8, 1.5 + 0.42 * len(names)) as figure:
        axis = figure.subplots()
        for number, (network, report) in enumerate(found.items()):
            ideal, colour = report["ideal"]["accuracy"], COLOURS[number % len(COLOURS)]
            rows = {one["name"]: one for one in report["effects"]}
            had = [name for name in names if name in rows]  # weights of few bits are no effect then
            beside = 0.7 * (number - (len(found) - 1) / 2) / len(found)
            at = [names.index(name) + beside for name in had]
            lost = [ideal - rows[name]["mean"] for name in had]
            worst = [ideal - rows[name]["worst"] for name in had]
            axis.hlines(at, lost, worst, color=colour, lw=1.2)
            axis.plot(lost, at, "o", color=colour, ms=5, label=f"{network} ({ideal:.2f} %)")
            axis.plot(worst, at, "|", color=colour, ms=7)
        axis.set_xscale("symlog", linthresh=1.0)
        ticks = (0, 0.5, 1, 2, 5, 10, 20)
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5),
                 xlabel="points below the ideal chip; dot: mean, bar: the worst chip")  # fmt: skip
        shared_legend(figure, columns=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--data", default="gsc-v1")
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--chips", type=int, default=25)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    found: dict[str, Any] = {} if arguments.networks else read_json(arguments.out)
    for network in arguments.networks:
        name, _, schedule = network.partition(":")
        found[network] = measured_effects(
            trained_file(name), arguments.data, schedule or None, split=arguments.split,
            chips=arguments.chips, limit=arguments.limit,
        )  # fmt: skip
        write_json(arguments.out, found)
        print(f"{network}: ideal {found[network]['ideal']['accuracy']:.2f}")
        for row in found[network]["effects"]:
            print(f"  {row['name']:32s} {row['chips']:3d} chips {row['mean']:6.2f} +- "
                  f"{row['deviation']:.2f}, {row['worst']:.2f} to {row['best']:.2f}")  # fmt: skip
    if arguments.plot is not None:
        draw(arguments.plot, found)


if __name__ == "__main__":
    main()
