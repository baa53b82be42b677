"""Noise in evaluation and training: its power, its sameness, what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import falcon_snn
from falcon_snn.data.augment import Augmentation, augment_waves, snr_level
from falcon_snn.data.examples import load_noise, load_waves
from falcon_snn.errors import FalconError
from falcon_snn.workflow.sources import load_split


def test_noise_has_the_power_that_was_asked_for() -> None:
    chance = np.random.default_rng(0)
    waves, pieces = (torch.from_numpy(chance.normal(size=(4, 1000))) for _ in range(2))
    for snr_db in (-5.0, 0.0, 12.5):
        added = snr_level(waves, pieces, torch.tensor(snr_db))[:, None] * pieces
        ratio = waves.numpy().var(axis=1) + waves.numpy().mean(axis=1) ** 2
        ratio = ratio / (added.numpy() ** 2).mean(axis=1)
        np.testing.assert_allclose(10 * np.log10(ratio), snr_db, atol=1e-9)


def test_training_draws_ratios_between_its_bounds() -> None:
    generator = torch.Generator().manual_seed(3)
    waves = torch.randn(200, 800, generator=generator)
    noise = torch.randn(5000, generator=generator)
    settings = Augmentation(noise_probability=0.5, noise_snr_low_db=3.0, noise_snr_high_db=9.0)
    added = augment_waves(waves, settings, noise, generator) - waves
    noisy = added.abs().sum(dim=1) > 0
    assert 60 < int(noisy.sum()) < 140
    ratios = 10 * torch.log10(waves[noisy].square().mean(dim=1) / added[noisy].square().mean(dim=1))
    assert 2.9 < float(ratios.min()) < 4
    assert 8 < float(ratios.max()) < 9.1


def test_level_and_ratio_exclude_each_other() -> None:
    with pytest.raises(FalconError, match="not both"):
        Augmentation(noise_level=0.1, noise_snr_high_db=20.0)
    with pytest.raises(FalconError, match="at least"):
        Augmentation(noise_snr_low_db=20.0, noise_snr_high_db=10.0)


def test_a_clip_gets_the_same_noise_alone_and_among_others() -> None:
    clean = load_split("embedded", "validation", limit=40)
    many = load_split("embedded", "validation", limit=40, noise_db=5.0)
    few = load_split("embedded", "validation", limit=10, noise_db=5.0)
    places = [many.names.index(name) for name in few.names]
    assert torch.equal(many.x[places], few.x)
    assert torch.equal(many.labels, clean.labels)
    assert not torch.equal(many.x, clean.x)
    almost = load_split("embedded", "validation", limit=10, noise_db=100.0)
    assert (almost.x - load_split("embedded", "validation", limit=10).x).abs().max() < 0.1


def test_noisy_features_are_those_of_clip_plus_noise() -> None:
    """One clip by hand in NumPy: find the piece of noise that explains its features."""
    waves, noise = load_waves("embedded", "validation"), load_noise("embedded").double().numpy()
    start = int(np.random.Generator(np.random.Philox(0)).random(len(waves))[0]
                * (len(noise) - 16000 + 1))  # fmt: skip
    clip = waves.waves[0][:16000].double().numpy() / 32768
    piece = noise[start : start + 16000]
    level = np.sqrt((clip**2).mean() / (piece**2).mean()) * 10 ** (-5 / 20)
    frames = np.stack([(clip + level * piece)[at : at + 480] for at in range(0, 15521, 160)])
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480)
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    from falcon_snn.data.features import mel_filters

    logs = np.log(power @ mel_filters() + 1e-6)
    wanted = (logs - logs.mean()) / logs.std()
    found = load_split("embedded", "validation", limit=1, noise_db=5.0).x[0].numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_arrays_get_white_noise_in_their_own_range() -> None:
    x = np.random.default_rng(1).integers(0, 256, (60, 8, 8)).astype(np.uint8)
    y = np.arange(60) % 3
    data = {"x_train": x, "y_train": y, "x_test": x[:20], "y_test": y[:20]}
    clean, noisy = (load_split(data, "test", noise_db=db) for db in (None, 0.0))
    assert noisy.x.dtype == torch.uint8
    difference = noisy.x.double() - clean.x.double()
    assert 30 < float(difference.std()) < 75  # clipped at 0 and 255
    assert torch.equal(noisy.x, load_split(data, "test", noise_db=0.0).x)


@pytest.mark.parametrize("ratio", [float("nan"), float("inf"), 1000.0])
def test_odd_ratios_are_refused(ratio: float) -> None:
    with pytest.raises(FalconError, match="-100 to 100 dB"):
        load_split("embedded", "validation", limit=2, noise_db=ratio)


def test_a_run_measures_under_noise_too(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    y = np.arange(150) % 3
    x = chance.normal(100, 20, (150, 8, 8))
    for label in range(3):
        x[y == label, label * 2 : label * 2 + 3] += 70
    x = x.clip(0, 255).astype(np.uint8)
    data = {"x_train": x[:120], "y_train": y[:120], "x_test": x[120:], "y_test": y[120:]}
    recipes = {}
    for name, forward in (("qnn", "counts"), ("qat", "spikes")):
        recipes[name] = tmp_path / f"{name}.toml"
        recipes[name].write_text(
            f'forward = "{forward}"\nepochs = 3\nbatch = 20\n'
            "weight_rate = 2e-3\nneuron_rate = 0.0\n"
        )
    page = falcon_snn.run(
        data, tmp_path / "run", network="kestrel-5", recipes=recipes, phases=["qat"], random=0,
        noise_db=-12.0,
    )  # fmt: skip
    measured = json.loads((tmp_path / "run" / "measure" / "accuracy.json").read_text())
    networks = measured["networks"]
    assert measured["noise_db"] == -12.0
    assert all(0 <= row["noisy_percent"] <= 100 for row in networks.values())
    assert networks["QNN"]["noisy_percent"] == networks["full"]["noisy_percent"]
    assert networks["QNN"]["noisy_percent"] < networks["QNN"]["percent"]
    assert "at -12 dB" in page.read_text()
