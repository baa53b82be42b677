"""A folder of images, `class/name.png`, all of one size.

train/ validation/ test/   if these hold class folders, they are the split; otherwise the published
                           SHA-1 rule of recordings splits by file name, about 80 : 10 : 10
class/name.png             png, jpg, jpeg, bmp or webp with 8 bits per channel; folders and files
                           whose names begin with _ or . are skipped

Images are uint8 [height, width], or [height, width, 3] if any of the set has colours.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from falcon_snn.data.audio import in_parallel
from falcon_snn.data.cache import key_of
from falcon_snn.data.clips import SPLITS, hash_split
from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
SPLIT_FOLDERS = {"train": "training", "validation": "validation", "test": "testing"}
_FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
_GREY = ("1", "L", "LA", "La")
_COLOUR = ("P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr")


class Picture(NamedTuple):
    """One image of one class."""

    file: str  # class/name.png, or train/class/name.png
    word: str
    split: str


@dataclass(frozen=True)
class ImageSet:
    """A folder of images, listed split after split."""

    folder: Path
    pictures: list[Picture]

    @cached_property
    def key(self) -> str:
        stats = ((each.file, (self.folder / each.file).stat()) for each in self.pictures)
        return key_of(f"{file} {stat.st_size} {stat.st_mtime_ns}" for file, stat in stats)

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(sorted({each.word for each in self.pictures}))

    def form(self) -> tuple[int, int, int]:
        """Height, width and channels (1 or 3) of all images, from their headers."""

        def one(picture: Picture) -> tuple[int, int, str]:
            with _opened(self.folder / picture.file) as image:
                return image.height, image.width, image.mode

        forms = in_parallel(one, self.pictures)
        for picture, (height, width, mode) in zip(self.pictures, forms, strict=True):
            path = self.folder / picture.file
            if mode not in _GREY + _COLOUR:
                raise FalconError(f"{path}: pixels of mode {mode}; save it with 8 bits per channel")
            if (height, width) != forms[0][:2]:
                raise FalconError(
                    f"{path}: {width} x {height} pixels, {self.pictures[0].file} has "
                    f"{forms[0][1]} x {forms[0][0]}; resize all images to one size"
                )
        coloured = any(mode in _COLOUR for _, _, mode in forms)
        return forms[0][0], forms[0][1], 3 if coloured else 1

    def read_into(self, out: NDArray[np.uint8], advance: Callable[[int], None]) -> None:
        """Read every image into its row of `out`."""
        mode = "L" if out.ndim == 3 else "RGB"

        def one(row: int) -> None:
            with _opened(self.folder / self.pictures[row].file) as image:
                out[row] = np.asarray(image.convert(mode))
            advance(1)

        in_parallel(one, range(len(self.pictures)))


def holds_images(folder: Path) -> bool:
    """Whether a folder holds class folders of images, or splits of such."""
    return _is_split(folder) or any(_images(each) for each in _folders(folder))


def open_images(folder: Path) -> ImageSet:
    """List the images of a folder with their split, in order of their names within a split."""
    if _is_split(folder):
        for name in SPLIT_FOLDERS:
            if not (folder / name).is_dir():
                raise FalconError(f"{folder}: has train/ but no {name}/; add it")
        pictures = [
            Picture(f"{name}/{word.name}/{file}", word.name, split)
            for name, split in SPLIT_FOLDERS.items()
            for word in _folders(folder / name)
            for file in _images(word)
        ]
    else:
        pictures = [
            Picture(f"{word.name}/{file}", word.name, hash_split(file))
            for word in _folders(folder)
            for file in _images(word)
        ]
    if not pictures:
        raise FalconError(f"{folder}: no images; a folder of images holds class/name.png files")
    present = {(each.split, each.word) for each in pictures}
    for word in sorted({each.word for each in pictures}):
        for split in SPLITS:
            if (split, word) not in present:
                raise FalconError(
                    f"{folder}: no {split} image of class '{word}'; add images, or make the split "
                    "yourself with folders train/, validation/ and test/"
                )
    return ImageSet(folder, sorted(pictures, key=lambda each: SPLITS.index(each.split)))


def _is_split(folder: Path) -> bool:
    """Whether `train/` holds class folders; one that holds images itself is a class."""
    train = folder / "train"
    return train.is_dir() and any(_images(word) for word in _folders(train))


def _folders(folder: Path) -> list[Path]:
    return sorted(
        each for each in folder.iterdir() if each.is_dir() and not each.name.startswith(("_", "."))
    )


def _images(folder: Path) -> list[str]:
    return sorted(
        each.name
        for each in folder.iterdir()
        if each.suffix.lower() in SUFFIXES and not each.name.startswith(("_", "."))
    )


@contextmanager
def _opened(path: Path) -> "Iterator[Image]":
    """An image for reading; whatever is wrong with it becomes one line that names it."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise FalconError("images need Pillow: pip install 'falcon-snn[images]'") from None

    too_large = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(path, formats=_FORMATS)
        with opened as image:
            yield image
    except UnidentifiedImageError:
        raise FalconError(f"{path}: not a readable image; save it again as PNG") from None
    except (OSError, SyntaxError, ValueError, EOFError, *too_large) as error:
        raise FalconError(f"{path}: not a readable image ({error}); save it again") from None
