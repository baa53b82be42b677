"""Work of the size of the paper's search: 916 schedules of Falcon-Large on 9,981 clips.

Steps are forced (each takes the best candidate, whatever the gates say) until so many schedules
have been evaluated. Clips are noise, repeated to the number; time does not depend on what they say.

    python benchmarks/search_speed.py [--checkpoint C] [--schedules 916] [--clips 9981] [--json]
"""

import argparse
import json
import time
from pathlib import Path

import torch

from falcon_snn.data.examples import Examples
from falcon_snn.network.convert import convert
from falcon_snn.network.qnn import Qnn
from falcon_snn.search.network_predictor import NetworkPredictor
from falcon_snn.search.pds import candidates
from falcon_snn.training.checkpoint import load_model
from falcon_snn.workflow.networks import built_in

DELTA_MAX = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--network", default="large")
    parser.add_argument("--schedules", type=int, default=916)
    parser.add_argument("--clips", type=int, default=9_981)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    if arguments.checkpoint is None:
        model = Qnn(built_in(arguments.network)).to(device)
        with torch.no_grad():
            for _ in range(5):  # batch norm needs statistics
                model(torch.randn(64, 98, 64, device=device))
    else:
        model = load_model(arguments.checkpoint)[0].to(device)
    network = model.network
    x = torch.randn(min(arguments.clips, 1024), 98, 64)
    x = x.repeat(-(-arguments.clips // len(x)), 1, 1)[: arguments.clips]
    labels = torch.randint(0, network.classes, (arguments.clips,))
    lengths = torch.full((arguments.clips,), 98)
    names = [str(clip) for clip in range(arguments.clips)]
    words = tuple(map(str, range(network.classes)))
    predictor = NetworkPredictor(convert(model.eval()), Examples(x, lengths, labels, names, words))
    boundaries = network.boundaries
    current = (1,) * len(boundaries)
    for delay in range(1, DELTA_MAX + 1):  # compile the kernels outside the measured time
        predictor.correct(dict.fromkeys(boundaries, delay))
    predictor.executed_macs = predictor.plain_macs = 0
    seen = {current}
    begin = time.perf_counter()
    while len(seen) < arguments.schedules:
        predictor.start_from(dict(zip(boundaries, current, strict=True)))
        fresh = [each for each in candidates(current, DELTA_MAX) if each not in seen]
        right = {}
        for schedule in fresh[: arguments.schedules - len(seen)]:
            found = predictor.correct(dict(zip(boundaries, schedule, strict=True)))
            right[schedule] = int(found.sum())
            seen.add(schedule)
        current = max(right, key=lambda schedule: right[schedule])
    seconds = time.perf_counter() - begin
    result = {
        "schedules": len(seen), "clips": arguments.clips, "seconds": seconds,
        "plain_over_executed_macs": predictor.plain_macs / predictor.executed_macs,
    }  # fmt: skip
    if arguments.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{len(seen)} schedules on {arguments.clips:,} clips: {seconds:.1f} s, "
          f"{result['plain_over_executed_macs']:.1f}x fewer multiply-accumulates")  # fmt: skip


if __name__ == "__main__":
    main()
