import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from librosa.feature import melspectrogram
from librosa.filters import mel
from tests.data_files import tone
from torch import Tensor

from falcon_snn.data.examples import load_waves
from falcon_snn.data.features import (
    CLIP_SAMPLES,
    exact_log_mel,
    log_mel,
    mel_filters,
    one_second,
)
from falcon_snn.training.export import load_network
from falcon_snn.training.pretrained import pretrained_path
from falcon_snn.workflow.networks import delays_of


def librosa_features(wave: np.ndarray[tuple[int], np.dtype[np.float32]]) -> torch.Tensor:
    power = melspectrogram(
        y=wave, sr=16_000, n_fft=480, win_length=480, hop_length=160, window="hann", center=False,
        power=2.0, n_mels=64, fmin=20.0, fmax=8_000.0, htk=True, norm=None,
    )  # fmt: skip
    logs = np.log(power.astype(np.float64) + 1e-6).T
    return torch.from_numpy((logs - logs.mean()) / logs.std())


def test_features_equal_those_of_librosa() -> None:
    generator = np.random.default_rng(0)
    for level in (1e-4, 0.01, 0.3):
        wave = tone(440) + level * generator.standard_normal(16_000).astype(np.float32)
        features = log_mel(torch.from_numpy(wave)[None])
        assert features.shape == (1, 98, 64)
        torch.testing.assert_close(features[0].double(), librosa_features(wave), atol=2e-3, rtol=0)


def test_mel_filters_equal_those_of_librosa() -> None:
    theirs = mel(sr=16_000, n_fft=480, n_mels=64, fmin=20.0, fmax=8_000.0, htk=True, norm=None)
    np.testing.assert_allclose(mel_filters(), theirs.T, atol=1e-6)


def test_every_clip_is_normalised_by_itself() -> None:
    waves = torch.randn(3, 16_000) * torch.tensor([0.001, 0.1, 1.0])[:, None]
    features = log_mel(waves)
    torch.testing.assert_close(features.mean((1, 2)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(features.std((1, 2), correction=0), torch.ones(3))
    torch.testing.assert_close(log_mel(waves[1:2]), features[1:2], atol=1e-4, rtol=0)


def test_silence_gives_zeros() -> None:
    assert log_mel(torch.zeros(1, 16_000)).abs().max() < 0.01


def test_mixed_precision_does_not_touch_the_features() -> None:
    waves = torch.randn(2, 16_000)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = log_mel(waves)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, log_mel(waves))


@given(st.integers(1, 20_000))
def test_long_clips_are_cut_in_the_centre_short_ones_kept(length: int) -> None:
    width = max(CLIP_SAMPLES, length)
    waves = torch.zeros(1, width, dtype=torch.int16)
    waves[0, :length] = torch.arange(length) % 30_000 + 1
    cut = one_second(waves, torch.tensor([length]))
    start = max(0, length - CLIP_SAMPLES) // 2
    assert cut.shape == (1, CLIP_SAMPLES)
    assert torch.equal(cut * 32768, waves[:, start : start + CLIP_SAMPLES].float())


def test_training_cuts_at_random_and_the_seed_decides() -> None:
    waves = (torch.arange(24_000) % 30_000).to(torch.int16).repeat(8, 1)
    lengths = torch.full((8,), 24_000)
    cuts = [
        one_second(waves, lengths, torch.Generator().manual_seed(seed))[:, 0] * 32768
        for seed in (1, 1, 2)
    ]
    assert torch.equal(cuts[0], cuts[1])
    assert not torch.equal(cuts[0], cuts[2])
    assert len(set(cuts[0].tolist())) > 1
    assert (cuts[0] <= 8_000).all()


def test_integers_do_not_depend_on_batch_threads_or_rounding() -> None:
    """A network reads features in steps of 1/32; in double none comes near a tie."""
    waves = load_waves("embedded", "validation")
    clips = one_second(waves.waves[::8], waves.lengths[::8]).double()
    whole = log_mel(clips)
    alone = torch.cat([log_mel(clip[None]) for clip in clips])
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if threads > 1 else 2)
    other = log_mel(clips)
    torch.set_num_threads(threads)
    error = max(float((whole - one).abs().max()) for one in (alone, other))
    assert error < 1e-11
    steps = 32 * whole
    distance = (steps - steps.floor() - 0.5).abs().min()
    assert float(distance) > 1e3 * 32 * error
    single = torch.cat([exact_log_mel(clip[None]) for clip in clips])
    assert torch.equal((32 * exact_log_mel(clips)).round(), (32 * single).round())
    assert torch.equal(exact_log_mel(clips.float()), whole.float())


def cut(x: Tensor, size: int) -> list[Tensor]:
    return [x[first : first + size] for first in range(0, len(x), size)]


@pytest.mark.parametrize("schedule", ["full", "fastest"])
def test_the_same_clips_give_the_same_integers_whatever_the_threads_and_the_batch(
    schedule: str,
) -> None:
    import numba

    waves = load_waves("embedded", "validation")
    clips = one_second(waves.waves[::24], waves.lengths[::24])
    snn, _ = load_network(pretrained_path("embedded-tiny"))
    delays = delays_of(schedule, snn.network, None)
    before, numba_before = torch.get_num_threads(), numba.get_num_threads()
    found: list[tuple[Tensor, Tensor]] = []
    try:
        for threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            torch.set_num_threads(threads)
            numba.set_num_threads(threads)
            for batch in (1, 7, 64):
                x = torch.cat([exact_log_mel(part) for part in cut(clips, batch)])
                parts = [snn.scores(snn.streams(part, None, delays), None)
                         for part in cut(x, batch)]  # fmt: skip
                found.append((snn.network.source.integers(x), torch.cat(parts)))
    finally:
        torch.set_num_threads(before)
        numba.set_num_threads(numba_before)
    for integers, scores in found[1:]:
        assert torch.equal(integers, found[0][0])
        assert torch.equal(scores, found[0][1])
