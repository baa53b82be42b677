"""Clips per second of the inner ear on the GPU if there is one, else on the CPU.

The transfer function is made before the clock starts: it is needed once per clip length.

    python benchmarks/inner_ear.py [--clips N] [--device cpu|cuda]
"""

import argparse
import time

import torch

from falcon_snn.data.inner_ear import (
    bushy_spikes,
    firing_probability,
    membrane_velocity,
    spike_trains,
)

RATE_HZ = 16000
PUBLISHED_S = (87, 542)  # per clip, measured with the published software on a shared machine


def clips_like_speech(clips: int) -> torch.Tensor:
    """Noise in three bursts per clip, low frequencies louder: about as many spikes as a word."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(clips, RATE_HZ, generator=generator)
    tilt = 1 / (1 + torch.fft.rfftfreq(RATE_HZ, 1 / RATE_HZ) / 500)
    bursts = torch.sin(3 * torch.pi * torch.arange(RATE_HZ) / RATE_HZ).square()
    tilted: torch.Tensor = torch.fft.irfft(torch.fft.rfft(noise) * tilt)
    return tilted * bursts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=default)
    parser.add_argument("--clips", type=int, help="default: 1024 on cuda, 32 on cpu")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    on_gpu = device.type == "cuda"
    clips = arguments.clips or (1024 if on_gpu else 32)
    name = torch.cuda.get_device_name(device) if on_gpu else f"{torch.get_num_threads()} threads"

    def seconds() -> float:
        if on_gpu:
            torch.cuda.synchronize(device)
        return time.perf_counter()

    waves = clips_like_speech(clips)
    start = seconds()
    few = waves[: 64 if on_gpu else 1].to(device)
    membrane_velocity(few, RATE_HZ)
    print(f"{device} ({name}): transfer made or loaded in {seconds() - start:.2f} s, not counted")
    list(spike_trains(few, range(len(few)), device=device))  # compiles

    start, start_cpu = seconds(), time.process_time()
    spikes = sum(len(train.units) for train in spike_trains(waves, range(clips), device=device))
    each_s, cpu_s = (seconds() - start) / clips, (time.process_time() - start_cpu) / clips
    print(f"{clips} clips of 1 s, {spikes / clips:.0f} spikes each: {1 / each_s:,.1f} clips/s, "
          f"{each_s * 1e3:.2f} ms per clip ({cpu_s * 1e3:.2f} ms of CPU time)")  # fmt: skip
    low, high = (published_s / each_s for published_s in PUBLISHED_S)
    print(f"published software: {PUBLISHED_S[0]} to {PUBLISHED_S[1]} s per clip, so {low:,.0f} to "
          f"{high:,.0f} times faster")  # fmt: skip

    t0 = seconds()
    velocity = membrane_velocity(few, RATE_HZ)
    t1 = seconds()
    probability = firing_probability(velocity, RATE_HZ)
    t2 = seconds()
    bushy_spikes(probability, range(len(few)), rate_hz=RATE_HZ, seed=0)
    t3 = seconds()
    for part, taken_s in (("membrane", t1 - t0), ("hair cell", t2 - t1), ("bushy cell", t3 - t2)):
        print(f"  {part:<10} {taken_s / len(few) * 1e3:.3f} ms per clip")


if __name__ == "__main__":
    main()
