"""Folders of images: splits, sizes, colours, faults, the cache, and augmentation of images."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.data_files import write_folder

from falcon_snn.data import images
from falcon_snn.data.augment import Augmentation, augment_samples, mix
from falcon_snn.data.clips import SPLITS, hash_split
from falcon_snn.data.examples import (
    Examples,
    Kind,
    data_key,
    kind_of,
    load_examples,
    load_noise,
    load_waves,
)
from falcon_snn.errors import FalconError
from falcon_snn.training.batches import Clips
from falcon_snn.training.recipe import load_recipe


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def pixels(seed: int, height: int = 5, width: int = 7) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)


def names_in(split: str, count: int) -> list[str]:
    fitting = [name for name in (f"{i}.png" for i in range(200)) if hash_split(name) == split]
    return fitting[:count]


def write(path: Path, array: NDArray[np.uint8]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes, four grey images of each in training and two in the other splits."""
    names = names_in("training", 4) + names_in("validation", 2) + names_in("testing", 2)
    for label, word in enumerate(("cat", "dog")):
        for number, name in enumerate(names):
            write(tmp_path / "pets" / word / name, pixels(10 * label + number))
    return tmp_path / "pets"


def test_grey_images_split_by_their_names(folder: Path) -> None:
    write(folder / "_other" / "1.png", pixels(0, 9, 9))
    (folder / "cat" / ".hidden.png").write_text("")
    (folder / "cat" / "notes.txt").write_text("")
    assert kind_of(folder) == "images"
    for split, count in zip(SPLITS, (8, 4, 4), strict=True):
        found = load_examples(folder, split)
        assert found.words == ("cat", "dog")
        assert found.kind == "images"
        assert found.x.shape == (count, 5, 7)
        assert found.x.dtype == torch.uint8
        assert found.lengths.tolist() == [5] * count
        for x, label, name in zip(found.x, found.labels, found.names, strict=True):
            assert name.split("/")[0] == found.words[label]
            assert hash_split(name) == split
            assert np.array_equal(x, np.asarray(Image.open(folder / name)))


def test_one_image_in_colour_makes_all_of_them_so(folder: Path) -> None:
    first = folder / "cat" / names_in("training", 1)[0]
    grey = pixels(0)
    colour = np.stack([grey, 255 - grey, grey // 2], axis=2)
    write(first, colour)
    found = load_examples(folder, "training")
    assert found.x.shape == (8, 5, 7, 3)
    assert np.array_equal(found.x[found.names.index(f"cat/{first.name}")], colour)
    other = found.x[found.names.index(f"dog/{first.name}")]
    assert (other[..., 0] == other[..., 2]).all()


def test_formats_and_capitals(tmp_path: Path) -> None:
    flat = np.full((6, 6), 90, np.uint8)
    for place in ("train", "validation", "test"):
        for word, suffix in (
            ("a", "PNG"),
            ("b", "Jpg"),
            ("c", "jpeg"),
            ("d", "bmp"),
            ("e", "webp"),
        ):
            write(tmp_path / "set" / place / word / f"one.{suffix}", flat)
    found = load_examples(tmp_path / "set", "validation")
    assert found.words == ("a", "b", "c", "d", "e")
    assert found.names[0] == "validation/a/one.PNG"
    assert (found.x.float() - 90).abs().max() <= 2
    # WebP knows colours only, so that all are in colour.
    assert found.x.shape == (5, 6, 6, 3)


def test_a_class_that_is_named_train(folder: Path) -> None:
    (folder / "dog").rename(folder / "train")
    assert load_examples(folder, "training").words == ("cat", "train")


def test_faults_are_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(message: str) -> None:
        with pytest.raises(FalconError, match=message) as error:
            load_examples(folder, "training")
        assert "\n" not in str(error.value)

    path = folder / "dog" / names_in("training", 3)[2]
    whole = path.read_bytes()
    write(path, pixels(0, 5, 8))
    told(rf"{re.escape(str(path))}: 8 x 5 pixels, cat/.*\.png has 7 x 5; resize all")
    Image.fromarray(pixels(0).astype(np.uint16) * 256).save(path)
    told("save it with 8 bits per channel")
    for damaged in (whole[:60], whole[: len(whole) // 2], b"", b"GIF89a" + whole):
        path.write_bytes(damaged)
        told(rf"{re.escape(str(path))}: not a readable image")
    path.write_bytes(whole)
    only = folder / "bird" / names_in("training", 1)[0]
    write(only, pixels(0))
    told("no validation image of class 'bird'")
    only.unlink()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "PIL", None)
        told(r"images need Pillow: pip install 'falcon-snn\[images\]'")
    assert len(load_examples(folder, "training")) == 8


def test_split_folders_must_be_complete(tmp_path: Path) -> None:
    for place, word in (("train", "a"), ("train", "b"), ("test", "a"), ("test", "b")):
        write(tmp_path / "set" / place / word / "1.png", pixels(0))
    with pytest.raises(FalconError, match="has train/ but no validation/"):
        load_examples(tmp_path / "set", "training")
    write(tmp_path / "set" / "validation" / "a" / "1.png", pixels(0))
    with pytest.raises(FalconError, match="no validation image of class 'b'"):
        load_examples(tmp_path / "set", "training")


def test_what_is_no_folder_of_images(folder: Path, tmp_path: Path) -> None:
    for load in (lambda: load_waves(folder, "training"), lambda: load_noise(folder)):
        with pytest.raises(FalconError, match="holds images, not recordings"):
            load()
    (tmp_path / "texts" / "a").mkdir(parents=True)
    (tmp_path / "texts" / "a" / "1.txt").write_text("")
    with pytest.raises(FalconError, match=r"no recordings or images in it; accepted: a folder"):
        load_examples(tmp_path / "texts", "training")
    words = write_folder(tmp_path / "words")
    write(words / "yes" / "cover.png", pixels(0))
    assert kind_of(words) == "recordings"


def test_second_start_and_changed_image(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, key = load_examples(folder, "training").x.clone(), data_key(folder)
    with monkeypatch.context() as patch:
        patch.setattr(images, "_opened", lambda *_: pytest.fail("read again"))
        assert torch.equal(load_examples(folder, "training").x, before)
    write(folder / "cat" / names_in("training", 1)[0], pixels(99))
    assert data_key(folder) != key
    after = load_examples(folder, "training").x
    assert (after != before).flatten(1).any(1).sum() == 1


# augmentation


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_shift_moves_and_repeats_the_edge() -> None:
    places = torch.arange(20).repeat(300, 1)
    moved = augment_samples(places, Augmentation(shift_pixels=3), generator())
    assert set((moved[:, 10] - 10).tolist()) == set(range(-3, 4))
    by = moved[:, 10:11] - 10
    assert torch.equal(moved, (torch.arange(20) + by).clamp(0, 19))

    image = (100 * torch.arange(9)[:, None] + torch.arange(12)).repeat(300, 1, 1).short()
    for x in (image, image[..., None].repeat(1, 1, 1, 3)):
        moved = augment_samples(x, Augmentation(shift_pixels=2), generator())
        assert moved.dtype == torch.int16
        centre = moved[:, 4, 6].reshape(300, -1)[:, 0]
        assert len(set(centre.tolist())) == 25
        rows, columns = centre // 100 - 4, centre % 100 - 6
        expected = (torch.arange(9) + rows[:, None]).clamp(0, 8)[:, :, None] * 100
        expected = expected + (torch.arange(12) + columns[:, None]).clamp(0, 11)[:, None]
        assert torch.equal(moved.reshape(300, 9, 12, -1)[..., 0], expected.short())


def test_a_mirror_image_is_its_own_way_back() -> None:
    image = torch.arange(12, dtype=torch.uint8).view(3, 4).repeat(400, 1, 1)
    for x in (image, image[..., None].repeat(1, 1, 1, 3)):
        always = Augmentation(flip=1.0)
        once = augment_samples(x, always, generator())
        assert torch.equal(once, x.flip(2))
        assert torch.equal(augment_samples(once, always, generator()), x)
        half = Augmentation(flip=0.5)
        for start in (x, x.flip(2)):  # the same in distribution, whichever it starts from
            found = augment_samples(start, half, generator())
            mirrored = (found == x.flip(2)).flatten(1).all(1)
            assert (mirrored | (found == x).flatten(1).all(1)).all()
            assert 160 < mirrored.sum() < 240


def test_a_crop_is_a_larger_view_of_a_part() -> None:
    for shape in ((50, 8, 8), (50, 8, 8, 3)):
        constant = torch.full(shape, 77, dtype=torch.uint8)
        cut = augment_samples(constant, Augmentation(crop=0.5), generator())
        torch.testing.assert_close(cut, constant.float())
    ramp = torch.arange(32.0).repeat(500, 32, 1)
    cut = augment_samples(ramp, Augmentation(crop=0.5), generator())
    slope = cut[:, 16, 20] - cut[:, 16, 19]
    assert 0.5 <= slope.min() < 0.55
    assert 0.95 < slope.max() <= 1.0001
    assert cut.min() >= 0
    assert cut.max() <= 31
    torch.testing.assert_close(cut[:, 0], cut[:, 31])
    first = cut[:, 0, 0]  # windows of half the side begin anywhere in the left half
    assert first.min() < 1
    assert first.max() > 10


@pytest.mark.parametrize("shape", [(5,), (4, 6), (4, 6, 3), (2, 3, 4, 5)])
def test_mixup_of_any_shape(shape: tuple[int, ...]) -> None:
    words = torch.eye(2)[torch.arange(60) % 2]
    x = words[:, 0].view(-1, *[1] * len(shape)).expand(60, *shape)
    mixed, targets = mix(x, words, 0.5, generator())
    torch.testing.assert_close(mixed.flatten(1)[:, 0], targets[:, 0])
    assert mixed.shape == x.shape


# batches


def clips_of(x: torch.Tensor, kind: Kind, augment: Augmentation, lengths: int = 4) -> Clips:
    labels = torch.arange(len(x)) % 2
    data = Examples(x, torch.full((len(x),), lengths), labels, [], ("a", "b"), kind)
    recipe = replace(load_recipe("qnn"), batch=4, augment=augment)
    return Clips(data, recipe, torch.device("cpu"), torch.zeros(0))


def test_batches_of_images_and_signals() -> None:
    plain = Augmentation()
    for x, kept in (
        (torch.zeros(8, 4, 6, dtype=torch.uint8), torch.uint8),
        (torch.zeros(8, 4, 6, 3, dtype=torch.uint8), torch.uint8),
        (torch.zeros(8, 4, dtype=torch.int16), torch.int16),
        (torch.zeros(8, 4, 6), torch.float32),
    ):
        clips = clips_of(x, "arrays", plain)
        batch = next(clips.epoch(0, 1))
        assert batch.x.dtype == clips.x.dtype == kept
        assert batch.x.shape == (4, *x.shape[1:])
        assert batch.lengths is None
    assert clips_of(torch.zeros(8, 4, 6), "recordings", plain).x.dtype == torch.float16


def test_the_seed_decides_about_a_batch() -> None:
    x = torch.randint(0, 256, (8, 4, 6, 3), generator=generator()).byte()
    augment = Augmentation(shift_pixels=1, flip=0.5, crop=0.3, mixup=0.5)
    clips = clips_of(x, "images", augment)
    first, again, other = (next(clips.epoch(seed, 1)) for seed in (1, 1, 2))
    assert torch.equal(first.x, again.x)
    assert first.x.dtype == torch.float32
    assert first.targets is not None
    assert not torch.equal(first.x, other.x)


@pytest.mark.parametrize(
    ("shape", "kind", "settings", "message"),
    [
        ((4, 6), "images", {"time_masks": 1}, "augment.time_masks: does not fit images"),
        ((4, 6), "images", {"speed": 0.1, "shift_ms": 9.0}, "augment.speed, augment.shift_ms: "),
        ((4,), "arrays", {"crop": 0.1}, "augment.crop: does not fit signals of one axis"),
        ((4,), "arrays", {"flip": 0.1}, "augment.flip: does not fit signals of one axis"),
        ((4, 1, 1, 1), "arrays", {"shift_pixels": 1}, "does not fit samples of 4 axes"),
        ((4, 6), "recordings", {"flip": 0.5}, "augment.flip: does not fit sound or spikes"),
        ((4, 6), "spikes", {"shift_pixels": 1}, "augment.shift_pixels: does not fit sound"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(
    shape: tuple[int, ...], kind: Kind, settings: dict[str, float], message: str
) -> None:
    augment = Augmentation(**settings)  # type: ignore[arg-type]
    with pytest.raises(FalconError, match=re.escape(message)):
        clips_of(torch.zeros(8, *shape), kind, augment)


def test_bad_settings_are_refused() -> None:
    for settings in ({"crop": 1.0}, {"flip": 1.1}, {"shift_pixels": -1}):
        with pytest.raises(FalconError, match=f"augment.{next(iter(settings))}"):
            Augmentation(**settings)


def test_a_header_that_promises_too_many_pixels_is_one_line(
    folder: Path, recwarn: pytest.WarningsRecorder
) -> None:
    path = folder / "cat" / names_in("training", 1)[0]
    data = bytearray(path.read_bytes())
    data[16:24] = (12_000).to_bytes(4, "big") * 2  # width and height of a PNG
    data[29:33] = crc32(data[12:29]).to_bytes(4, "big")
    path.write_bytes(data)
    with pytest.raises(FalconError, match=r"not a readable image .*exceeds limit"):
        load_examples(folder, "training")
    assert not recwarn.list
