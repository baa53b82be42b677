"""The inner ear: each step against a literal, slow account of it; seeds; SSC files; faults."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import hankel1, j0, j1, y0, y1
from typer.testing import CliRunner

# Without a GPU the Triton kernels run in Triton's interpreter, which reads this when it is loaded.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

from falcon_snn.cli.main import app
from falcon_snn.data import basilar_membrane, inner_ear, inner_ear_triton, ssc
from falcon_snn.data.bushy_cell import bushy_cell
from falcon_snn.data.hair_cell import hair_cell
from falcon_snn.data.inner_ear import bushy_spikes, firing_probability, membrane_velocity
from falcon_snn.errors import FalconError

RATE_HZ = 16000
DT_S = 2 / RATE_HZ
Floats = NDArray[np.float64]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Transfers of this module's clip lengths, in a cache of its own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FALCON_CACHE", str(folder))
        yield folder


def chirp(samples: int) -> Floats:
    """A tone that rises from 100 Hz to 6 kHz, with a pause in the middle."""
    t = np.arange(samples) / RATE_HZ
    length_s = samples / RATE_HZ
    wave = np.sin(2 * np.pi * (100 * t + (6000 - 100) / (2 * length_s) * t**2))
    wave[samples * 2 // 5 : samples // 2] = 0
    return wave


# --- The model, one channel and one number at a time -------------------------------------------


def literal_velocity(wave: Floats, channel: int) -> Floats:
    n = len(wave)
    x = 0.3 * wave / np.sqrt(np.mean(wave**2))
    window = np.hanning(2 * (n // 2))
    x[: n // 2] *= window[: n // 2]
    x[n - n // 2 :] *= window[n // 2 :]

    a, alpha, rho, C0, de, h, m = 3500.0, 3.0, 1.0, 1e9, 0.15, 0.1, 0.05
    R0 = de * np.sqrt(C0 * m)
    w = 2 * np.pi * np.linspace(1, RATE_HZ / 2, n // 2 + 1)

    def xi(c: float) -> NDArray[np.complex128]:
        spring = C0 * np.exp(-alpha * c) - a - m * w**2
        return np.asarray(spring - 1j * w * R0 * np.exp(-alpha * c / 2))

    def p(c: float) -> NDArray[np.complex128]:
        g0, g = (w * np.sqrt(rho / (h * xi(place))) for place in (0.0, c))
        N = -alpha * np.sqrt(C0 - a - w * (m * w + 1j * R0)) + 1j * alpha * (
            2 * a + w * (2 * m * w + 1j * R0)
        ) / (2 * np.sqrt(a + m * w**2))
        D = (alpha / 2) * np.exp(alpha * c / 2) * (
            -2 * np.sqrt(xi(c))
            + 1j * (2 * a + w * (2 * m * w + 1j * np.exp(-alpha * c / 2) * R0))
            / np.sqrt(a + m * w**2)
        )  # fmt: skip
        G = 2 * g0 / alpha - 2j * np.sqrt(2) * w * np.log(N / D) / (
            alpha * np.sqrt(2 * h * (m * w**2 + a))
        )
        return np.asarray(np.sqrt(G / g) * hankel1(0, G))

    c = float(np.linspace(0, 3.5, 700)[channel])
    k = 2 * w * np.sqrt(2 / (h * C0)) / alpha
    z = np.sqrt(2 * C0 / h) * (1j * j0(k) + y0(k)) / (j1(k) - 1j * y1(k))
    v = 2 * w / xi(c) * p(c) * z / p(0.0)
    return np.asarray(np.fft.ifft(v * np.fft.fft(x)[: n // 2 + 1]).real)


def literal_probability(velocity: Floats) -> Floats:
    y, g, l, r, x, a, b, h, m = 5.05, 2000, 2500, 6580, 66.3, 5, 300, 50000, 1  # noqa: E741
    k0 = g * a / (a + b)
    c = m * y * k0 / (l * k0 + y * (l + r))
    q, w = c * (l + r) / k0, c * r / x
    out = []
    for v in velocity:
        k = g * DT_S * (v + a) / (v + a + b) if v + a > 0 else 0.0
        refill = y * DT_S * (m - q) if q < m else 0.0
        q, c, w = (
            max(q + refill - k * q + x * DT_S * w, 0.0),
            max(c + k * q - (l + r) * DT_S * c, 0.0),
            max(w + r * DT_S * c - x * DT_S * w, 0.0),
        )
        out.append(h * DT_S * c)
    return np.array(out)


def literal_spikes(probability: Floats, cells: int, random: np.random.Generator) -> Floats:
    """Spikes [steps, cells] of bushy cells with 40 fibres each, every fibre followed on its own."""
    free_again = np.zeros((cells, 40), int)
    current, potential, held_until = np.zeros(cells), np.zeros(cells), np.zeros(cells, int)
    spikes = np.zeros((len(probability), cells))
    for step, p in enumerate(probability):
        fires = (random.random((cells, 40)) < p) & (free_again <= step)
        free_again[fires] = step + 8
        current = current * np.exp(-DT_S / 0.5e-3) + 13000 / 40 * fires.sum(axis=1)
        potential = potential * np.exp(-DT_S / 1e-3) + DT_S * current
        potential[step < held_until] = 0
        spikes[step] = potential >= 1
        held_until[potential >= 1] = step + 9
        potential[potential >= 1] = 0
    return spikes


# --- Steps 1 to 3: number by number ------------------------------------------------------------


@pytest.mark.parametrize("samples", [1600, 1203])
def test_velocity_and_probability_are_those_of_the_literal_model(samples: int) -> None:
    wave = chirp(samples)
    batch = torch.from_numpy(np.stack([wave[::-1] * 7, wave * 0.01]))
    velocity = membrane_velocity(batch, RATE_HZ)
    probability = firing_probability(velocity, RATE_HZ)
    for channel in (0, 1, 133, 420, 699):
        want = literal_velocity(wave, channel)
        got = velocity[1, channel // 2, :, channel % 2].numpy()
        assert np.abs(got - want).max() < 2e-6 * np.abs(want).max()
        want = literal_probability(want)
        assert np.abs(probability[1, :, channel].numpy() - want).max() < 5e-6 * want.max()


def test_a_silent_clip_fires_at_the_rate_of_rest() -> None:
    probability = firing_probability(membrane_velocity(torch.zeros(1, 1600), RATE_HZ), RATE_HZ)
    assert torch.allclose(probability, torch.tensor(0.00809596), rtol=1e-5)


def test_transfer_is_kept_on_disk_and_a_broken_file_is_made_again(cache: Path) -> None:
    wave = torch.from_numpy(chirp(800))[None]
    want = membrane_velocity(wave, RATE_HZ)
    [file] = cache.glob("inner-ear-800-*.safetensors")
    for content in (file.read_bytes(), file.read_bytes()[:1000], b""):
        file.write_bytes(content)
        basilar_membrane.pair_transfer.cache_clear()
        assert torch.equal(membrane_velocity(wave, RATE_HZ), want)


# --- Step 4: exact where nothing is random, and in distribution --------------------------------


def spikes_of(probability: torch.Tensor, seed: int = 0) -> torch.Tensor:
    return bushy_spikes(probability, range(len(probability)), rate_hz=RATE_HZ, seed=seed)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_certain_fibres_give_the_literal_spikes(p: float) -> None:
    want = literal_spikes(np.full(200, p), 1, np.random.default_rng(0))[:, 0]
    got = spikes_of(torch.full((1, 200, 100), p))[0].numpy()
    assert (got == want[:, None]).all()
    assert bool(want.any()) == (p > 0)


@pytest.mark.parametrize("top", [0.15, 0.9])
def test_spike_rates_are_those_of_forty_fibres_followed_one_by_one(top: float) -> None:
    steps, cells, bin_steps = 320, 1400, 8
    probability = 0.008 + top * np.sin(np.arange(steps) / 25).clip(0) ** 4
    want = literal_spikes(probability, cells, np.random.default_rng(1))
    got = spikes_of(torch.from_numpy(probability).float()[None, :, None].repeat(1, 1, cells))[0]

    def per_bin(spikes: Floats) -> Floats:
        return np.asarray(spikes.reshape(-1, bin_steps, cells).sum(axis=1))

    a, b = per_bin(want), per_bin(got.numpy().astype(float))
    error = np.sqrt((a.var(axis=1) + b.var(axis=1)) / cells + 1e-9)
    z = (a.mean(axis=1) - b.mean(axis=1)) / error
    assert np.abs(z).max() < 4
    assert np.sqrt(np.mean(z**2)) < 1.4
    assert np.isclose(want.sum(axis=0).std(), got.sum(dim=0).double().std(), rtol=0.1)


def test_spikes_depend_on_seed_and_clip_but_not_on_the_batch() -> None:
    waves = torch.from_numpy(np.stack([chirp(1600), chirp(1600)[::-1], chirp(1600)]))
    ids = [inner_ear.clip_id(name) for name in ("a", "b", "c")]
    first, middle, last = inner_ear.spike_trains(waves, ids, seed=5)
    [alone] = inner_ear.spike_trains(waves[1:2], ids[1:2], seed=5)
    [other_seed] = inner_ear.spike_trains(waves[1:2], ids[1:2], seed=6)
    assert np.array_equal(middle.units, alone.units)
    assert np.array_equal(middle.times_s, alone.times_s)
    assert not np.array_equal(middle.units, other_seed.units)
    assert not np.array_equal(first.units, last.units)
    steps = middle.times_s / DT_S
    assert np.allclose(steps, steps.round(), atol=1e-3)
    assert (np.diff(steps * 700 + middle.units) > 0).all()


def test_gpu_kernels_give_the_cpu_result() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator().manual_seed(0)
    velocity = 60 * torch.randn(2, 17, 29, 2, generator=generator)
    want = firing_probability(velocity, RATE_HZ)
    got = torch.empty_like(want, device=device)
    inner_ear_triton.firing_probability(velocity.to(device), hair_cell(DT_S), got)
    assert torch.allclose(got.cpu(), want, rtol=1e-5)

    want *= torch.linspace(0, 5, want.shape[2])  # from rest to certain firing
    words = np.array([2**63 + 5, 0, 1], np.uint64).view(np.int32).reshape(-1, 2)
    spikes = torch.empty_like(want, dtype=torch.bool, device=device)
    inner_ear_triton.bushy_spikes(
        want.to(device), bushy_cell(DT_S), torch.from_numpy(words).to(device), spikes
    )
    same = spikes.cpu() == spikes_of(want, seed=2**63 + 5)
    assert spikes.any()
    # On a real GPU a last bit of a potential may differ, and with it a cell's spikes thereafter.
    assert same.all(dim=1).double().mean() >= (0.97 if device == "cuda" else 1)


# --- The published software's own output, where there is a copy --------------------------------


@pytest.fixture(scope="module")
def reference() -> Path:
    if "FALCON_REFERENCE" not in os.environ:
        pytest.skip("set FALCON_REFERENCE to a folder that holds inner-ear-reference.npz")
    return Path(os.environ["FALCON_REFERENCE"])


def test_published_software_agrees(reference: Path) -> None:
    with (
        np.load(reference / "inner-ear-reference.npz") as exact,
        np.load(reference / "inner-ear-spikes.npz") as random,
    ):
        for name in ("yes/0a7c2a8d_nohash_0.wav", "seven/0a9f9af7_nohash_0.wav"):
            wave = torch.from_numpy(exact[f"{name}:wave"])[None]
            velocity = membrane_velocity(wave, RATE_HZ)
            probability = firing_probability(velocity, RATE_HZ)
            by_channel = velocity[0].transpose(1, 2).flatten(0, 1)
            for got, key in ((by_channel, "velocity"), (probability[0].T, "probability")):
                want = exact[f"{name}:{key}"]
                error = np.abs(got[::20].numpy() - want).max(axis=1)
                assert (error / np.abs(want).max(axis=1)).max() < 1e-5

            repeats = 16
            trains = list(inner_ear.spike_trains(wave.expand(repeats, -1), range(repeats)))
            units, times_s = random[f"{name}:channels"], random[f"{name}:times_s"]

            def counts(units: NDArray[np.int16], times_s: NDArray[np.float32]) -> Floats:
                bins = np.minimum(np.floor(times_s * 100 + 1e-4).astype(int), 99)
                per_bin = np.bincount(bins, minlength=100)
                return np.concatenate((np.bincount(units, minlength=700), per_bin)).astype(float)

            ours = np.array([counts(*train) for train in trains])
            spread = np.sqrt(ours.var(axis=0, ddof=1) * (1 + 1 / repeats) + 1)
            z = (counts(units, times_s) - ours.mean(axis=0)) / spread
            assert np.abs(z).max() < 6
            assert 0.8 < np.sqrt(np.mean(z**2)) < 1.2
            total = np.array([len(train.units) for train in trains])
            assert abs(len(units) - total.mean()) < 4 * total.std(ddof=1)


# --- The command -------------------------------------------------------------------------------


SPEAKERS = ("bob", "cora", "eve")


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two words by three speakers; the published rule puts these names into training."""
    import soundfile

    folder = tmp_path_factory.mktemp("speech")
    for word in ("down", "up"):
        (folder / word).mkdir()
        for speaker in SPEAKERS:
            soundfile.write(folder / word / f"{speaker}_nohash_0.wav", chirp(15000) * 0.3, RATE_HZ)
    for name in ("validation_list.txt", "testing_list.txt"):  # without them some are set aside
        (folder / name).write_text("")
    return folder


def test_command_writes_an_ssc_file(speech: Path, tmp_path: Path) -> None:
    def run(name: str, *options: str) -> tuple[dict[str, object], Path]:
        file = tmp_path / name
        command = ["data", "spikes", "--data", str(speech), "--split", "training", "--json"]
        result = CliRunner().invoke(
            app, [*command, "--device", "cpu", "--out", str(file), *options]
        )
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout), file

    facts, file = run("some.h5", "--limit", "4")
    read = ssc.read_facts(file)
    assert read.words == ("down", "up")
    assert read.labels.tolist() == [0, 0, 0, 1]
    assert read.names[3] == "up/bob_nohash_0.wav"
    counts = np.zeros((4, ssc.BINS, ssc.FEATURES), np.uint8)
    ssc.read_ssc(file, counts, lambda clips: None)
    assert counts.sum() == facts["spikes"]
    assert not np.array_equal(counts[0], counts[1])  # the same sound, but fibres of its own

    again, other = (np.zeros((4, ssc.BINS, ssc.FEATURES), np.uint8) for _ in range(2))
    ssc.read_ssc(run("again.h5", "--limit", "4")[1], again, lambda clips: None)
    ssc.read_ssc(run("other.h5", "--limit", "4", "--seed", "1")[1], other, lambda clips: None)
    assert np.array_equal(counts, again)
    assert not np.array_equal(counts, other)


def test_command_leaves_nothing_behind_when_it_fails(
    speech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> torch.Tensor:
        raise FalconError("out of luck")

    monkeypatch.setattr(inner_ear, "bushy_spikes", broken)
    command = ["data", "spikes", "--data", str(speech), "--split", "training"]
    file = tmp_path / "spikes.h5"
    result = CliRunner().invoke(app, [*command, "--device", "cpu", "--out", str(file)])
    assert isinstance(result.exception, FalconError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("waves", "ids", "seed", "device", "says"),
    [
        (torch.zeros(2, 100), [1], 0, "cpu", "one id per clip"),
        (torch.zeros(100), [1], 0, "cpu", "one id per clip"),
        (torch.zeros(1, 100), [1], -1, "cpu", "seed is -1"),
        (torch.zeros(1, 100), [1], 0, "meta", "cpu or cuda"),
    ],
)
def test_bad_input_is_refused(
    waves: torch.Tensor, ids: list[int], seed: int, device: str, says: str
) -> None:
    with pytest.raises(FalconError, match=says):
        next(inner_ear.spike_trains(waves, ids, seed=seed, device=device))
