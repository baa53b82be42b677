"""The attention map's codes at the edges of its table, where a float guess cannot be trusted."""

import pytest
import torch
from tests.random_layers import DEVICE

from falcon_snn.neuron import layers
from falcon_snn.neuron.layers import AttentionCurve, IntegerNeurons

SIZE = 256  # channels of a head: channel c fires if the code is above c


def curve_of(slope: float, offset: float) -> AttentionCurve:
    code = torch.arange(1, 256, dtype=torch.float64)
    smallest = ((code - 0.5).log() + offset).div(slope).ceil().int()
    edge = torch.tensor([2**31 - 1], dtype=torch.int32)
    table = torch.cat([-edge, smallest, edge])[None].to(DEVICE)
    numbers = torch.tensor([[slope], [offset]], device=DEVICE)
    return AttentionCurve(table, numbers[0], numbers[1])


@pytest.mark.parametrize(
    "backend", ["torch", "triton"] if DEVICE == "cuda" else list(layers.BACKENDS)
)
@pytest.mark.parametrize(
    ("slope", "offset"), [(4e-4, 0.0), (3.7e-4, 1.3), (5e-4, 8.0), (5e-4, -3.0), (0.02, 40.0)]
)
def test_codes_change_exactly_at_the_table(backend: str, slope: float, offset: float) -> None:
    """Scores of every edge, one less and one more; also the lowest and highest that there are."""
    curve = curve_of(slope, offset)
    edges = curve.table[0, 1:256].cpu()
    most = 127 * 127
    scores = torch.cat([edges - 1, edges, edges + 1, torch.tensor([-most, 0, most])])
    scores = scores[scores.abs() <= most]
    codes = torch.bucketize(scores, edges, right=True)

    # Key 0 is (127, 1, 0, ...): a query (a, b, 0, ...) has score 127 a + b.
    q = torch.zeros(1, len(scores), SIZE, dtype=torch.int8)
    q[0, :, 0] = (scores / 127).round()
    q[0, :, 1] = scores - 127 * q[0, :, 0].int()
    k, v = torch.zeros_like(q), torch.zeros_like(q, dtype=torch.uint8)
    k[0, 0, :2], v[0, 0] = torch.tensor([127, 1]), 1
    one = torch.ones(SIZE, dtype=torch.int32, device=DEVICE)
    neurons = IntegerNeurons(0 * one, 999 - torch.arange(SIZE, device=DEVICE).int(), 1000 * one)
    q, k, v = (x.to(DEVICE) for x in (q, k, v))
    fired = layers.attention(q, k, v, None, 1, curve, one, neurons, 2, backend)
    assert torch.equal((fired[0] & 1).sum(dim=1).cpu(), codes)
