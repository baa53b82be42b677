"""How fast schedules are timed: one by one, and many at once.

python benchmarks/latency.py [--schedules 2000000]
"""

import argparse
import json
import time

import numpy as np

from falcon_snn.hardware.profile import load_profile
from falcon_snn.pipeline.batch import core_cycles_many
from falcon_snn.pipeline.timing import time_snn
from falcon_snn.workflow.networks import built_in


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=2_000_000)
    count = parser.parse_args().schedules
    profile = load_profile()
    rows = []
    for model in ("medium", "large"):
        graph = built_in(model).graph
        delays = np.random.default_rng(0).integers(1, 8, (count, len(graph.boundaries)), np.int8)
        started = time.perf_counter()
        core_cycles_many(graph, delays[:1], profile)
        first_s = time.perf_counter() - started
        started = time.perf_counter()
        many = core_cycles_many(graph, delays, profile)
        many_s = time.perf_counter() - started
        singles = 200
        started = time.perf_counter()
        single = [
            time_snn(graph, dict(zip(graph.boundaries, row.tolist(), strict=True)), profile)
            for row in delays[:singles]
        ]
        single_s = time.perf_counter() - started
        assert [timing.core_cycles for timing in single] == many[:singles].tolist()
        rows.append(
            {
                "model": model,
                "schedules": count,
                "first_call_s": round(first_s, 2),
                "schedules_per_s": round(count / many_s),
                "single_ms": round(1000 * single_s / singles, 3),
            }
        )
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
