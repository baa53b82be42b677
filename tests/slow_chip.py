"""A chip written a second time: NumPy and loops, no line shared with the package.

It follows the words of `neuron/counter_noise.py`, `neuron/analog.py` and `network/chip.py`: places
are hashed, hashes become normal numbers, cells get their errors, row groups their converters.
"""

import zlib
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from falcon_snn.hardware.profile import Profile

WAN_1D = (0.701, 22.086, -50.773, 47.095, -16.458)
UNIT = 65536


def hash32(x: int) -> int:
    x &= 0xFFFFFFFF
    x ^= x >> 16
    x = x * 0x7FEB352D & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 0x846CA68B & 0xFFFFFFFF
    return x ^ (x >> 16)


def key(*parts: Any) -> int:
    value = zlib.crc32("/".join(str(part) for part in parts).encode())
    return value if value < 2**31 else value - 2**32


def place(index: int, of: int) -> int:
    return hash32(hash32(index + of) ^ (key(of, "again") & 0xFFFFFFFF))


def fresh(one: int, other: int, weights: tuple[int, ...] = (1, 1, -1, -1)) -> int:
    """Two hashes to the weighted sum of four signed bytes."""
    wide = ((one & 0xFFFFFFFF) | 1) * ((other & 0xFFFFFFFF) | 1)
    mixed = (wide & 0xFFFFFFFF) ^ (wide >> 32)
    drawn = np.frombuffer(mixed.to_bytes(4, "little"), dtype=np.int8).astype(int)
    return int((drawn * np.array(weights)).sum())


def table() -> NDArray[np.float64]:
    middle = norm.ppf((np.arange(65536) + 0.5) / 65536)
    return np.rint(middle / np.sqrt((middle**2).mean()) * 4096) / 4096


NORMAL = table()


def normal(hashed: int) -> float:
    return float(NORMAL[(hashed >> 16) ^ 0x8000])  # the sign bit counts as in two's complement


class SlowChip:
    """One layer of weights [row][output] on one chip; converters count in `parts` of a step."""

    def __init__(
        self, weights: NDArray[np.int64], profile: Profile, own: int, bits: int,
        span: float | None, parts: int,
    ) -> None:  # fmt: skip
        self.profile, self.own, self.span, self.parts = profile, own, span, parts
        self.rows, self.outputs = weights.shape
        top = 2 ** (min(bits, profile.weight_bits) - 1) - 1
        self.worth = (2 ** (bits - 1) - 1) / top
        self.weights = np.rint(weights / self.worth).astype(int)
        self.off = 1 / profile.on_off_ratio
        shape = (profile.weight_slices, self.rows, self.outputs)
        self.value, self.variance = np.zeros(shape), np.zeros(shape)
        for number in range(profile.weight_slices):
            for row in range(self.rows):
                for output in range(self.outputs):
                    self.write(number, row, output)

    def write(self, number: int, row: int, output: int) -> None:
        """All cells of one slice of one weight."""
        profile, weight = self.profile, int(self.weights[row, output])
        for side, sign in enumerate((1, -1)):
            for bit in range(profile.slice_bits):
                at = (side * profile.slice_bits + bit) * profile.weight_slices + number
                at = (at * self.rows + row) * self.outputs + output
                on = sign * weight > 0 and abs(weight) >> (number * profile.slice_bits + bit) & 1
                mean, variance = self.cell(bool(on), at)
                scale = sign * 2**bit / (1 - self.off)
                self.value[number, row, output] += scale * mean
                self.variance[number, row, output] += scale**2 * variance

    def cell(self, on: bool, at: int) -> tuple[float, float]:
        profile = self.profile
        g = 1.0 if on else self.off
        if profile.programming == "wan2022-1d":
            sigma = sum(c * g**n for n, c in enumerate(WAN_1D)) / 40
            g = max(g + sigma * normal(place(at, key(self.own, "programming"))), 0.0)
        signed = place(at, key(self.own, "stuck"))
        share = (signed - 2**32 if signed >= 2**31 else signed) / 2**32 + 0.5
        if share < profile.stuck_hrs_rate:
            g = self.off
        if share >= 1 - profile.stuck_lrs_rate:
            g = 1.0
        return g, 0.0 if profile.read_noise == "none" else profile.read_sigma**2

    def offset(self, group: int, column: int) -> float:
        tile_groups = -(-self.profile.tile_rows // self.profile.active_rows)
        converters = -(-self.outputs * self.profile.weight_slices // self.profile.mux)
        at = group // tile_groups * converters + column // self.profile.mux
        return self.profile.offset_steps * normal(place(at, key(self.own, "offset")))

    def groups(self) -> list[range]:
        """Rows that are on together: of a tile, so many at a time."""
        profile, found = self.profile, []
        if self.span is None:
            return [range(self.rows)]
        for first in range(0, self.rows, profile.tile_rows):
            last = min(first + profile.tile_rows, self.rows)
            found += [range(at, min(at + profile.active_rows, last))
                      for at in range(first, last, profile.active_rows)]  # fmt: skip
        return found

    def sums(
        self, x: NDArray[np.int64], clip: int, row_of_clip: int, number: int
    ) -> list[float]:  # fmt: skip
        """Sums of one pass of one row of inputs, in weights; `number` is the pass."""
        read = key(self.own, "read")
        row_key = hash32((clip & 0xFFFFFFFF) ^ place(row_of_clip, read))
        row_key = hash32(row_key ^ (key("pass", number) & 0xFFFFFFFF))
        columns = self.profile.weight_slices * self.outputs
        found = []
        for output in range(self.outputs):
            total = 0.0
            for part in range(self.profile.weight_slices):
                worth = self.worth * 2 ** (part * self.profile.slice_bits)
                for group, rows in enumerate(self.groups()):
                    y: float = sum(int(x[r]) * self.grid(self.value[part, r, output]) for r in rows)
                    dark = self.shift(group, output * self.profile.weight_slices + part)
                    y += dark
                    # Two row groups share a place.
                    at = place(group // 2 * columns + part * self.outputs + output, read)
                    on = sum(int(x[r]) ** 2 for r in rows)
                    if self.span is None:
                        if self.profile.read_noise != "none":
                            drawn = np.float32(fresh(row_key, at))
                            y = float(np.float32(y) + self.spread(part, output, on) * drawn)
                        total += worth * y / UNIT
                        continue
                    noise = 0
                    if self.profile.read_noise != "none":
                        a, b, c, d = self.byte_weights(part, output, on)
                        noise = fresh(row_key, at, (b, d, a, c) if group % 2 else (a, b, c, d))
                    total += worth * self.converted(y, noise)
                    if self.profile.offset_trim == "silent":
                        total -= worth * self.converted(dark, 0)
            found.append(float(np.floor(total * UNIT + 0.5) / UNIT))
        return found

    def spread(self, part: int, output: int, on: int) -> np.float32:
        """The deviation of a row group in which inputs add up to `on`, by their squares."""
        one = self.variance[part, 0, output] * UNIT**2 / ((256**2 - 1) / 3)
        return np.sqrt(np.float32(on) * np.float32(one))

    def step(self) -> int:
        assert self.span is not None
        return round(self.span / ((self.profile.converter_levels - 1) // 2) * UNIT)

    def grid(self, value: float) -> int:
        """A cell in parts of a converter's step, or in parts of a unit."""
        if self.span is None:
            return round(value * UNIT)
        return self.coarse * round(self.in_parts(value) / self.coarse)

    def in_parts(self, value: float) -> int:
        return round(round(value * UNIT) * (self.parts / self.step()))

    @cached_property
    def coarse(self) -> int:
        """Cells with errors have eleven bits, if 256 or more of them still fit a step."""
        largest = max(abs(self.in_parts(value)) for value in self.value.flat)
        grid = 1
        while 2048 * grid < largest:
            grid *= 2
        return 1 if self.profile.programming == "none" or 256 * grid > self.parts else grid

    def shift(self, group: int, column: int) -> int:
        if self.span is None or not self.profile.offset_steps:
            return 0
        return round(self.offset(group, column) * self.parts)

    def byte_weights(self, part: int, output: int, on: int) -> tuple[int, ...]:
        """Of two neighbouring whole numbers as many of the higher one as the variance wants."""
        deviation = UNIT * np.sqrt(self.variance[part, 0, output]) / self.step() * self.parts
        wanted = on * deviation**2 / ((256**2 - 1) / 12)
        found = min(
            ((low, higher) for low in range(128) for higher in range(5)),
            key=lambda one: (abs((4 - one[1]) * one[0] ** 2 + one[1] * (one[0] + 1) ** 2 - wanted),
                             one[1]),
        )  # fmt: skip
        sizes = [found[0] + (place < found[1]) for place in range(4)]
        return sizes[0], sizes[3], -sizes[1], -sizes[2]

    def converted(self, y: float, noise: int) -> float:
        """The nearest code of a sum in parts of a step, the higher one in the middle."""
        top = (self.profile.converter_levels - 1) // 2
        code = (y + noise + self.parts // 2) // self.parts
        return min(max(code, -top), top) * self.step() / UNIT
