"""What a network must know of its data before it is made."""

from dataclasses import dataclass

from falcon_snn.network.product import Shape


@dataclass(frozen=True)
class Samples:
    """The samples of a data set."""

    shape: Shape
    classes: int
    levels: float  # integer steps per unit of input
    zero: float = 0.0  # the input that becomes the integer 0
