"""Networks on sampled chips: every effect that docs/chip.md lists, alone and all together.

    python -m tools.chip_effects --data gsc-v1 --chips 25 --out effects.json \\
        gsc1-kestrel-7 gsc1-medium-full:qnn adapted/best.safetensors:fastest

A network is a trained one by name or a file, with a schedule behind a colon if not its own. The
profile is `noisy`; beside its effects come cells one second after writing, a proportional error of
10 % and 1 % of the cells stuck. The file is written after every network.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from falcon_snn.files import write_json
from falcon_snn.hardware.effects import ALL, effects
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.training.pretrained import pretrained_path
from falcon_snn.workflow.chips import evaluate_on_chips

LEFT_OUT = "both, untrimmed offset"


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
    return found | together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--data", default="gsc-v1")
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--chips", type=int, default=25)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    found: dict[str, Any] = {}
    for network in arguments.networks:
        name, _, schedule = network.partition(":")
        path = Path(name) if name.endswith(".safetensors") else pretrained_path(name)
        report = evaluate_on_chips(
            path, arguments.data, load_profile("noisy"), chips=arguments.chips,
            split=arguments.split, limit=arguments.limit, schedule=schedule or None,
            effects_of=listed,
        )  # fmt: skip
        found[network] = report.as_json()
        write_json(arguments.out, found)
        print(f"{network}: ideal {report.ideal.accuracy:.2f}")
        for one in report.effects:
            row = one.as_json()
            print(f"  {one.name:32s} {row['chips']:3d} chips {row['mean']:6.2f} +- "
                  f"{row['deviation']:.2f}, {row['worst']:.2f} to {row['best']:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
