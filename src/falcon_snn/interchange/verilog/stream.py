"""What the modules of a hardware description hand to each other, and numbers in their files."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Stream:
    """What a module gives to others: wires, and how wide one value of one slot is."""

    count: str
    slots: str
    width: int  # bits of a value; 1 is a spike
    depth: int  # slots that are kept


def words(values: NDArray[np.int64]) -> str:
    """Signed 32-bit words in hexadecimal, one per line."""
    return "".join(f"{value & 0xFFFFFFFF:08x}\n" for value in values.tolist())
