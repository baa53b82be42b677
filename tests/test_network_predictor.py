"""The search's predictor starts in the middle of the network and answers as if it had not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from falcon_snn.data.examples import Examples
from falcon_snn.network.convert import convert
from falcon_snn.network.falcon import FalconConfig, falcon
from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import Qnn
from falcon_snn.search.network_predictor import NetworkPredictor

NETWORK = falcon(FalconConfig(
    "small", blocks=2, features=16, tokens=12, classes=5, hidden=32, heads=1, ffn=32,
    encoder_channels=4, stem_channels=4,
))  # fmt: skip
CLIPS = 24


@pytest.fixture(scope="module")
def network() -> Snn:
    torch.manual_seed(3)
    model = Qnn(NETWORK)
    with torch.no_grad():
        for _ in range(4):
            model(torch.randn(32, 12, 16))
    return convert(model.eval())


@pytest.fixture(scope="module", params=[False, True], ids=["whole", "padded"])
def examples(request: pytest.FixtureRequest) -> Examples:
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(CLIPS, 12, 16, generator=generator)
    lengths = torch.full((CLIPS,), 12)
    if request.param:
        lengths = torch.randint(3, 13, (CLIPS,), generator=generator)
    labels = torch.randint(0, 5, (CLIPS,), generator=generator)
    names = [str(clip) for clip in range(CLIPS)]
    return Examples(x, lengths, labels, names, ("a", "b", "c", "d", "e"))


@settings(max_examples=15)
@given(data=st.data())
def test_answers_equal_plain_evaluation(
    network: Snn, examples: Examples, data: st.DataObject
) -> None:
    delay = st.integers(1, 7)
    schedules = [
        {name: data.draw(delay) for name in NETWORK.boundaries}
        for _ in range(data.draw(st.just(3)))
    ]
    predictor = NetworkPredictor(network, examples, batch=7)
    current = schedules[0]
    predictor.start_from(current)
    for schedule in schedules[1:]:
        boundary = data.draw(st.sampled_from(NETWORK.boundaries))
        near = current | {boundary: schedule[boundary]}
        for candidate in (current, near, schedule):
            plain = network.predict(examples.x, examples.lengths, candidate) == examples.labels
            assert np.array_equal(predictor.correct(candidate), plain.numpy())
        predictor.start_from(near)
        current = near


def test_late_changes_cost_little(network: Snn, examples: Examples) -> None:
    predictor = NetworkPredictor(network, examples)
    start = dict.fromkeys(NETWORK.boundaries, 1)
    predictor.start_from(start)
    before = predictor.executed_macs
    # Delay 1 takes seven products of a layer, full lookahead (codes, values, attention) one.
    products = dict.fromkeys(NETWORK.boundaries, 7)
    stages = NETWORK.inner_stages
    assert before == sum(products.get(s.name, 1) * s.macs(NETWORK) for s in stages)
    late = start | {"block1.ffn2": 2}
    predictor.correct(late)
    assert predictor.executed_macs - before == 6 * 12 * 32 * 32  # delay 2: six products
    assert predictor.plain_macs > 10 * (predictor.executed_macs - before)


def test_padding_never_changes_a_prediction(network: Snn) -> None:
    x = torch.randn(6, 9, 16, generator=torch.Generator().manual_seed(8))
    delays = dict.fromkeys(NETWORK.boundaries, 2)
    lengths = torch.full((6,), 9)
    bare = network.streams(x, None, delays)["block1.residual2"]
    for extra in (1, 3, 12):
        padded = torch.cat([x, torch.randn(6, extra, 16)], dim=1)
        streams = network.streams(padded, lengths, delays)
        assert torch.equal(streams["block1.residual2"][:, :9], bare)
        assert torch.equal(
            network.scores(streams, lengths).argmax(1), network.predict(x, None, delays)
        )
