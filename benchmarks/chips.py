"""Clips per second on a sampled chip, under each effect of a profile alone and all together.

    python -m benchmarks.chips [--networks gsc1-medium-fastest,gsc1-kestrel-7] [--hardware noisy]

Two sides in one run, kernels and torch, whose spikes must be equal. Inputs are noise; on a CPU both
sides are torch's, and `--batch 8` is enough to see it work.
"""

import argparse
from functools import partial

import torch
from benchmarks.network import clips_per_second

from falcon_snn.hardware.effects import effects
from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.calibrate import CALIBRATION_CLIPS, calibrate
from falcon_snn.network.chip import sampled
from falcon_snn.training.export import load_network
from falcon_snn.training.pretrained import pretrained_path

CHECKED = 8  # clips on which both sides are compared


@torch.no_grad()
def measure(name: str, hardware: str, batch: int) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    snn = load_network(pretrained_path(name), None)[0].to(device)
    network = snn.network
    delays = dict.fromkeys(network.boundaries, 1)
    torch.manual_seed(0)
    x = torch.randn(batch, *network.source.input, device=device)
    print(f"{name}, delay 1, batch {batch}, {device}")
    for effect, profile in effects(load_profile(hardware), network.weight_bits).items():
        ranges = calibrate(snn, profile, x[:CALIBRATION_CLIPS], None, delays)
        chip = sampled(snn, profile, 0, ranges)
        few = x[:CHECKED]
        ours, plain = (chip.streams(few, None, delays, backend) for backend in ("auto", "torch"))
        if any(not torch.equal(ours[stage], plain[stage]) for stage in plain):
            raise SystemExit(f"{name}, {effect}: kernels and torch give other spikes")
        rates = [
            clips_per_second(partial(chip.streams, x, None, delays, backend), batch)
            for backend in ("auto", "torch")
        ]
        print(f"  {effect:32s} {rates[0]:10,.0f} clips/s, torch {rates[1]:10,.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", default="gsc1-medium-fastest,gsc1-kestrel-7")
    parser.add_argument("--hardware", default="noisy")
    parser.add_argument("--batch", type=int, default=1024)
    arguments = parser.parse_args()
    for name in arguments.networks.split(","):
        measure(name, arguments.hardware, arguments.batch)


if __name__ == "__main__":
    main()
