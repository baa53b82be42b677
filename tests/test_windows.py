"""Training on windows of a stream: what is heard in them, and what they should answer."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from falcon_snn.data.augment import Augmentation
from falcon_snn.data.examples import Examples, Waves
from falcon_snn.data.scene import WORD_LEVEL
from falcon_snn.data.windows import CUT, WHOLE, heard_part, stream_windows
from falcon_snn.errors import FalconError
from falcon_snn.training.batches import Clips
from falcon_snn.training.recipe import load_recipe
from falcon_snn.workflow.training import read_recipe

CLASSES = ("high", "low", "silence", "unknown")
HERTZ = {0: 3000.0, 1: 400.0, 3: 1200.0}  # of clips by their label
SPAN = (4_000, 12_000)


def clips(labels: list[int]) -> Tensor:
    """Half a second of a tone in the middle of each clip; silence has a faint hiss."""
    waves = 1e-5 * np.random.default_rng(0).standard_normal((len(labels), 16_000))
    for wave, label in zip(waves, labels, strict=True):
        if label in HERTZ:
            time_s = np.arange(*SPAN) / 16_000
            wave[slice(*SPAN)] += 0.4 * np.sin(2 * np.pi * HERTZ[label] * time_s)
    return torch.from_numpy(waves.astype(np.float32))


def heard_samples(wave: Tensor, hertz: float) -> float:
    """For how many samples a tone is heard, from its strength in short pieces."""
    pieces = wave.view(-1, 80).double()  # 200 Hz apart
    spectrum = torch.fft.rfft(pieces).abs()[:, round(hertz / 200)] / 40
    return 80 * float((spectrum / (WORD_LEVEL * 2**0.5)).clamp(max=1.0).sum())


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_answers_are_what_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """An oracle that knows nothing of places: it measures the tones in the finished windows."""
    monkeypatch.setattr("falcon_snn.data.windows.LEVEL_DB", 0.0)
    labels = [0, 1, 2, 3] * 100
    order = torch.randperm(400, generator=generator(1))
    given = torch.tensor(labels)[order]
    windows, answers = stream_windows(
        clips(given.tolist()), given, CLASSES, Augmentation(), torch.zeros(0), generator()
    )
    assert windows.shape == (400, 16_000)
    torch.testing.assert_close(answers.sum(1), torch.ones(400))
    seen = {"whole": 0, "cut off": 0, "two": 0, "none": 0}
    for wave, answer in zip(windows, answers, strict=True):
        part = {label: heard_samples(wave, hertz) / 8_000 for label, hertz in HERTZ.items()}
        two = sum(share > 0.05 for share in part.values())
        best = max(part, key=lambda label: part[label])
        if part[best] > 1.1:  # twice the same word
            continue
        if part[best] < 0.01:
            assert answer[2] > 0.95
            seen["none"] += 1
        elif part[best] < CUT - 0.1:
            assert float(answer[2] + answer[3]) > 0.95
            seen["cut off"] += 1
        elif part[best] > WHOLE + 0.05:
            assert max(answer) > 0.95
            assert part[int(answer.argmax())] > WHOLE
            seen["whole"] += 1
        seen["two"] += two > 1
    assert min(seen.values()) > 10, seen


def test_the_part_that_is_left_by_hand() -> None:
    span = torch.tensor([[6_000.0, 10_000.0]] * 5)
    shift = torch.tensor([0.0, -8_000.0, -9_000.0, 8_000.0, 30_000.0])
    part = heard_part(span, torch.ones(5), shift, 16_000)
    assert part.tolist() == pytest.approx([1.0, 0.5, 0.25, 0.5, 0.0], abs=0.01)
    # Half as fast, a span of 4,000 samples has 8,000, as many before the centre as after it.
    slow = heard_part(span[:1], torch.tensor([0.5]), torch.tensor([-10_000.0]), 16_000)
    assert slow.tolist() == pytest.approx([0.25], abs=0.01)


def test_noise_is_at_its_ratio_to_words_even_where_none_is_heard() -> None:
    settings = Augmentation(noise_probability=1.0, noise_snr_low_db=10, noise_snr_high_db=10)
    noise = torch.randn(50_000, generator=generator())
    silent = torch.full((40,), 2)
    windows, answers = stream_windows(
        clips([2] * 40), silent, CLASSES, settings, noise, generator()
    )
    level_db = 20 * torch.log10(windows.std(dim=1) / WORD_LEVEL)
    torch.testing.assert_close(level_db, torch.full((40,), -10.0), atol=0.1, rtol=0)
    assert (answers[:, 2] == 1).all()


def training_set(classes: tuple[str, ...], spare: int = 0) -> Waves:
    labels = torch.arange(40) % len(classes)
    names = [str(number) for number in range(40)]
    waves = (clips(labels.tolist()) * 32767).to(torch.int16)
    return Waves(waves, torch.full((40,), 16_000), labels, names, names, classes, spare)


def test_half_of_a_batch_are_windows_and_the_seed_decides() -> None:
    recipe = replace(load_recipe("qat"), batch=40, fit=False)
    recipe = replace(recipe, augment=Augmentation(stream=0.5))
    made = Clips(training_set(CLASSES), recipe, torch.device("cpu"), torch.zeros(0))
    first, again, other = (next(made.epoch(seed, 0)) for seed in (0, 0, 1))
    assert torch.equal(first.x, again.x)
    assert not torch.equal(first.x, other.x)
    assert first.targets is not None
    assert torch.equal(first.labels, first.targets.argmax(dim=1))
    sure = first.targets.amax(dim=1) == 1
    assert sure[20:].all()
    assert not sure[:20].all()
    # With mixup the windows' answers are mixed, not those of their clips.
    mixed = replace(recipe, augment=Augmentation(stream=1.0, mixup=1.0))
    made = Clips(training_set(CLASSES), mixed, torch.device("cpu"), torch.zeros(0))
    batch = next(made.epoch(0, 0))
    assert batch.targets is not None
    assert (batch.targets > 0).sum(dim=1).max() > 2


def test_the_recipe_says_how_many_unknown_words() -> None:
    data = training_set(CLASSES, spare=8)
    for unknown, drawn in ((0.0, 0), (0.1, 2), (0.4, 8), (1.0, 10)):
        recipe = replace(load_recipe("small"), unknown=unknown, augment=Augmentation())
        made = Clips(data, recipe, torch.device("cpu"), torch.zeros(0))
        assert torch.bincount(made.epoch_labels, minlength=4).tolist() == [10, 10, 10, drawn]


def test_streams_need_recordings_and_classes_for_what_is_no_word() -> None:
    recipe = replace(load_recipe("qat"), augment=Augmentation(stream=0.5))
    words = training_set(("high", "low"))
    with pytest.raises(FalconError, match="silence and unknown"):
        Clips(words, recipe, torch.device("cpu"), torch.zeros(0))
    features = Examples(torch.zeros(40, 98, 64), words.lengths, words.labels, words.names, CLASSES)
    with pytest.raises(FalconError, match="recordings"):
        Clips(features, recipe, torch.device("cpu"), torch.zeros(0))
    with pytest.raises(FalconError, match=r"augment\.stream"):
        Augmentation(stream=1.5)
    # Shipped recipes leave out what does not fit.
    assert read_recipe("qat", "qat", "embedded").augment.stream == 0
    plain, heard = (read_recipe("qnn", "qnn", "embedded", classes=c) for c in (None, CLASSES))
    assert plain.augment.stream == heard.augment.mixup == heard.label_smoothing == 0
    assert heard.augment.stream > 0 < min(plain.augment.mixup, plain.label_smoothing)
