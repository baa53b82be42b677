import pytest
import torch

from falcon_snn.data.augment import Augmentation, augment_features, augment_waves, mix, warp
from falcon_snn.errors import FalconError

ALL = Augmentation(
    speed=0.1, shift_ms=100, noise_probability=0.5, noise_level=0.1,
    time_masks=2, time_mask_frames=12, band_masks=2, band_mask_bands=8,
)  # fmt: skip


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_nothing_is_changed_by_default() -> None:
    waves, x = torch.randn(4, 16_000), torch.randn(4, 98, 64)
    assert torch.equal(augment_waves(waves, Augmentation(), torch.zeros(0), generator()), waves)
    assert torch.equal(augment_features(x, Augmentation(), generator()), x)


def test_the_seed_decides() -> None:
    waves, noise = torch.randn(4, 16_000), torch.randn(50_000)
    first, again, other = (augment_waves(waves, ALL, noise, generator(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_warp_shifts_by_whole_samples_and_fills_with_zeros() -> None:
    waves = torch.randn(3, 100)
    moved = warp(waves, torch.ones(3), torch.tensor([0.0, 10.0, -10.0]))
    torch.testing.assert_close(moved[0], waves[0])
    torch.testing.assert_close(moved[1, 10:], waves[1, :-10])
    torch.testing.assert_close(moved[2, :-10], waves[2, 10:])
    assert moved[1, :10].abs().max() == 0
    assert moved[2, -10:].abs().max() == 0


def test_twice_the_speed_halves_the_period() -> None:
    time = torch.arange(16_000) - 7_999.5
    slow = torch.cos(2 * torch.pi * 200 * time / 16_000)[None]
    fast = warp(slow, torch.tensor([2.0]), torch.tensor([0.0]))
    inner = slice(4_200, 11_800)
    expected = torch.cos(2 * torch.pi * 400 * time / 16_000)
    torch.testing.assert_close(fast[0, inner], expected[inner], atol=2e-3, rtol=0)
    assert fast[0, :3_990].abs().max() == 0


def test_noise_is_added_to_about_the_wanted_part() -> None:
    settings = Augmentation(noise_probability=0.5, noise_level=0.1)
    noisy = augment_waves(torch.zeros(400, 200), settings, torch.ones(1_000), generator())
    levels = noisy[:, 0]
    assert 150 < (levels > 0).sum() < 250
    assert 0.08 < levels.max() <= 0.1


def test_masks_are_runs_no_wider_than_allowed() -> None:
    masked = augment_features(torch.ones(200, 98, 64), ALL, generator())
    frames = (masked.sum(2) == 0).sum(1)
    bands = (masked.sum(1) == 0).sum(1)
    assert frames.max() <= 24
    assert bands.max() <= 16
    assert frames.float().mean() > 5
    assert bands.float().mean() > 3


def test_a_mixed_clip_and_its_target_hold_the_same_parts_of_two_words() -> None:
    words = torch.eye(5)[torch.arange(400) % 5]
    x = words[:, None, :].expand(400, 7, 5)  # a clip that says how much of each word is in it
    mixed, targets = mix(x, words, 0.5, generator())
    torch.testing.assert_close(mixed, targets[:, None, :].expand(400, 7, 5))
    torch.testing.assert_close(targets.sum(1), torch.ones(400))
    assert torch.equal(targets.argmax(1), words.argmax(1))
    assert 100 < (targets.amax(1) < 1).sum() < 250  # a fifth of the partners is the same word


def test_bad_settings_are_refused() -> None:
    with pytest.raises(FalconError, match="speed"):
        Augmentation(speed=-0.1)
    with pytest.raises(FalconError, match="shorter than a clip"):
        augment_waves(torch.zeros(1, 200), ALL, torch.zeros(100), generator())
