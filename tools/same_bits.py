"""From the sound on, the same integers with every number of threads and every batch.

    python -m tools.same_bits --pretrained gsc1-kestrel-5 --data gsc-v1 --as 1:64 --as 2:1

Computes features, 8-bit inputs and answers of all clips of a split, once for each THREADS:BATCH,
and compares them. The hashes can be compared with those of another machine.
"""

import argparse
import hashlib
import sys
import time

import torch
from torch import Tensor

from falcon_snn.data.examples import Waves
from falcon_snn.data.features import exact_log_mel, one_second
from falcon_snn.data.task import waves_for
from falcon_snn.network.integer import Snn
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.training.export import load_network
from falcon_snn.training.pretrained import pretrained_path
from falcon_snn.workflow.networks import delays_of
from falcon_snn.workflow.sources import SPLITS, device


def bits(snn: Snn, clips: Waves, delays: Delays, threads: int, batch: int) -> tuple[Tensor, Tensor]:
    """The 8-bit inputs and the answers of all clips."""
    torch.set_num_threads(threads)
    inputs, answers = [], []
    for first in range(0, len(clips), batch):
        part = slice(first, first + batch)
        waves = one_second(clips.waves[part].to(snn.device), clips.lengths[part])
        x = exact_log_mel(waves)
        inputs.append(snn.network.source.integers(x).to(torch.int8).cpu())
        answers.append(snn.predict(x, None, delays).cpu())
    return torch.cat(inputs), torch.cat(answers)


def digest(values: Tensor) -> str:
    return hashlib.sha256(values.contiguous().numpy().tobytes()).hexdigest()[:16]


def main() -> int:
    """0 if all are equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pretrained", default="gsc1-kestrel-5")
    parser.add_argument("--data", default="embedded")
    parser.add_argument("--split", default="test", choices=tuple(SPLITS))
    parser.add_argument("--as", dest="ways", action="append", metavar="THREADS:BATCH")
    given = parser.parse_args()
    snn, metadata = load_network(pretrained_path(given.pretrained))
    snn = snn.to(device())
    delays = delays_of("own" if metadata.delays else "full", snn.network, metadata.delays)
    clips = waves_for(given.data, SPLITS[given.split], metadata.words)
    right, found = clips.labels, []
    for way in given.ways or ("1:64", "2:1"):
        threads, batch = (int(number) for number in way.split(":"))
        began = time.process_time()
        inputs, answers = bits(snn, clips, delays, threads, batch)
        found.append((inputs, answers))
        print(f"{threads} threads, batches of {batch}: inputs {digest(inputs)}, answers "
              f"{digest(answers)}, {int((answers == right).sum()):,} of {len(clips):,} right, "
              f"{time.process_time() - began:.0f} s of CPU", flush=True)  # fmt: skip
    first = found[0]
    same = all(torch.equal(a, b) for other in found[1:] for a, b in zip(first, other, strict=True))
    print("all equal" if same else "NOT equal")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
