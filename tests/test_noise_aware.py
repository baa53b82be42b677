"""Adaptation on chips: the network learns to stand what a profile does to it."""

from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.training_data import NETWORK, make_examples, make_job

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.network.chip import sampled
from falcon_snn.network.convert import convert
from falcon_snn.network.parts import Weights
from falcon_snn.network.product import Product
from falcon_snn.network.qnn import Qnn, with_weight_bits
from falcon_snn.training.checkpoint import load_model
from falcon_snn.training.devices import Devices
from falcon_snn.training.evaluate import accuracy, snn_predictions
from falcon_snn.training.loop import train
from falcon_snn.training.step import Job
from falcon_snn.workflow.training import adapt

# Bad enough that a network which knows nothing of it loses many clips.
BAD = replace(
    load_profile("noisy"), programming="proportional", programming_sigma=0.4, stuck_lrs_rate=0.02,
    converter_range="unit",
)  # fmt: skip
DELAYS = dict.fromkeys(NETWORK.boundaries, 1)


ONE = torch.ones(())


def run(job: Job) -> float:
    torch.set_num_threads(1)
    return train(job, Devices(torch.device("cpu"))).best_accuracy


def on_chips(model: Qnn, profile: Profile, delays: dict[str, int] | None) -> float:
    """Mean accuracy on chips that training has not seen; no delays: of the QNN."""
    snn, clips, qnn = convert(model), make_examples(60, 7), delays is None
    spans = {name: 7.0 for name in snn.tensors if name.endswith("weight")}
    used = delays or dict.fromkeys(NETWORK.boundaries, NETWORK.slots)
    chips = [sampled(snn, profile, seed, spans, qnn=qnn) for seed in range(4)]
    return fmean(accuracy(snn_predictions(chip, clips, used), clips) for chip in chips)


@pytest.mark.parametrize("delays", [DELAYS, None], ids=["spikes", "qnn"])
def test_a_network_learns_to_stand_bad_chips(tmp_path: Path, delays: dict[str, int] | None) -> None:
    run(make_job(tmp_path / "qnn", epochs=12))
    model, _ = load_model(tmp_path / "qnn" / "best.safetensors")
    before = on_chips(model, BAD, delays)
    changes: Any = {"epochs": 16, "weight_clip": 2.0, "weight_rate": 1e-2}
    run(make_job(tmp_path / "qat", "qat", model=model, profile=BAD, delays=delays, **changes))
    adapted, metadata = load_model(tmp_path / "qat" / "best.safetensors")
    assert metadata.delays == delays
    assert on_chips(adapted, BAD, delays) > before + 20
    raw = load_file(tmp_path / "qat" / "last.safetensors")
    for part, module in adapted.named_modules():
        if isinstance(module, Weights):
            weight = raw[f"raw.{part}.weight"]  # clipped after the step, so its deviation fell
            assert float(weight.abs().max()) < 2.3 * float(weight.std()), part


def test_fewer_bits_are_trained_as_such(tmp_path: Path) -> None:
    """Arrays hold codes of -3..3, the encoder, which is digital, keeps its 8 bits."""
    run(make_job(tmp_path, epochs=1))
    model, _ = load_model(tmp_path / "best.safetensors")
    three = with_weight_bits(model, 3)
    assert with_weight_bits(three, 8) is three
    tensors = convert(three).tensors
    source = f"{NETWORK.source.name}.weight"
    arrays = [t for name, t in tensors.items() if ".weight" in name and name != source]
    arrays = [t for t in arrays if not t.is_floating_point()]
    assert {int(t.abs().max()) for t in arrays if t.dtype == torch.int8} == {3}
    assert int(tensors[source].abs().max()) == 127


def test_noise_on_weights_is_fresh_in_training_only() -> None:
    torch.manual_seed(0)
    weights = Weights(Product(4), 6, 3)
    weights.noise = 0.1
    x = torch.randn(2, 1, 1, 6)
    first, second = weights.currents(x, ONE), weights.currents(x, ONE)
    assert not torch.equal(first, second)
    draws = torch.stack([weights.currents(x, ONE) for _ in range(2000)])
    largest = weights.weight.detach().abs().amax(dim=(1, 2, 3))
    wanted = 0.1 * largest * x.norm(dim=3, keepdim=True)
    assert torch.allclose(draws.std(dim=0), wanted, rtol=0.1)
    weights.eval()
    assert torch.equal(weights.currents(x, ONE), weights.currents(x, ONE))
    assert torch.allclose(
        draws.mean(dim=0), weights.currents(x, ONE), atol=0.1 * float(wanted.max())
    )


def test_training_on_chips_is_the_same_again_and_after_a_stop(tmp_path: Path) -> None:
    whole, cut, plain = (tmp_path / name for name in ("whole", "cut", "plain"))
    run(make_job(whole, "qat", epochs=2, profile=BAD))
    job = make_job(cut, "qat", epochs=2, profile=BAD)

    def stop(clips: int, ended: object) -> None:
        if ended is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(job, Devices(torch.device("cpu")), stop)
    run(make_job(cut, "qat", epochs=2, profile=BAD, resume=True))
    run(make_job(plain, "qat", epochs=2))
    held = [load_file(folder / "last.safetensors") for folder in (whole, cut, plain)]
    assert all(torch.equal(held[0][name], held[1][name]) for name in held[0])
    assert any(not torch.equal(held[0][name], held[2][name]) for name in held[0])


def test_other_chips_do_not_go_on(tmp_path: Path) -> None:
    facts = [{"hardware": {"name": "mine", "toml": text}} for text in ("one", "two")]
    run(make_job(tmp_path, "qat", epochs=1, profile=BAD, facts=facts[0]))
    with pytest.raises(FalconError, match="hardware"):
        run(make_job(tmp_path, "qat", epochs=1, profile=BAD, facts=facts[1], resume=True))


def test_slots_in_float_know_no_chips(tmp_path: Path) -> None:
    recipe = tmp_path / "slots.toml"
    recipe.write_text(
        'forward = "spikes"\ngradient = "temporal"\nepochs = 1\nbatch = 4\nweight_rate = 1e-3\n'
        "neuron_rate = 0\n"
    )
    run(make_job(tmp_path, "qat", epochs=1))
    with pytest.raises(FalconError, match=r"--hardware: .* gradient 'rate'"):
        adapt(tmp_path / "best.safetensors", DELAYS, "embedded", tmp_path / "out", phases=["qat"],
              recipes={"qat": recipe}, profile=BAD)  # fmt: skip


def test_a_qnn_is_adapted_on_chips_only_and_with_whole_counts(tmp_path: Path) -> None:
    run(make_job(tmp_path, epochs=1))
    best, out = tmp_path / "best.safetensors", tmp_path / "out"
    with pytest.raises(FalconError, match=r"--schedule: .* add --hardware"):
        adapt(best, None, "embedded", out, phases=["qat"])
    with pytest.raises(FalconError, match="whole counts"):
        adapt(best, None, "embedded", out, phases=["qat"], profile=BAD, qk_prefix=2)
    assert not out.exists()
