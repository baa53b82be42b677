"""A recipe is one TOML file: how long, how fast, what moves, and what happens to the clips."""

import os
from dataclasses import dataclass, field, fields
from math import cos, isfinite, pi
from pathlib import Path
from typing import Any

from falcon_snn.data.augment import Augmentation
from falcon_snn.errors import FalconError
from falcon_snn.files import read_toml

PHASES = ("qat", "tune", "joint")  # of adaptation, in their order
RECIPES = ("teacher", "qnn", "small", "chip", *PHASES)  # that come with Falcon
STEPS_WANTED = 20  # of an epoch, where the batch is fitted to the data
SMALLEST_FITTED = 16  # clips; batch norm needs more than a few
_FOLDER = Path(__file__).parent / "recipes"


@dataclass(frozen=True)
class Recipe:
    """One training phase. A rate of zero means that those parameters do not move."""

    forward: str  # "counts": the QNN; "spikes": the SNN under a schedule, batch norm frozen
    epochs: int
    batch: int  # clips of a step
    weight_rate: float  # peak learning rate of everything but thresholds and offsets
    neuron_rate: float  # peak learning rate of thresholds and offsets
    fit: bool = False  # small sets get smaller batches, see `fitted_batch`
    warmup: float = 0.3  # part of all steps in which the learning rate rises
    weight_decay: float = 0.0  # on matrices only
    weight_clip: float = 0.0  # largest weight, in standard deviations of its layer; 0 is no limit
    weight_noise: float = 0.0  # on weights, fresh in each step, as part of an output's largest
    gradient: str = "rate"  # of spikes: "rate" (through the counts), "temporal" (through slots)
    label_smoothing: float = 0.0  # without a teacher
    class_weight: float = 0.0  # a clip counts as its class's size to the power of minus this
    ema: float = 0.0  # decay of the weights' moving average per step; 0 is none
    unknown: float = 0.1  # unknown words' clips of an epoch, as part of those of the words
    distil: float = 0.0  # part of the loss that follows the teacher, if there is one
    temperature: float = 1.0  # of the teacher's and the student's scores
    augment: Augmentation = field(default_factory=Augmentation)
    threshold_low: float = 0.5
    threshold_high: float = 2.0
    offset_low: float = -0.5
    offset_high: float = 0.5

    @property
    def spiking(self) -> bool:
        return self.forward == "spikes"

    @property
    def needs_waves(self) -> bool:
        """Whether a part of the augmentation needs recordings; features can be shifted, too."""
        return self.augment.speed > 0 or self.augment.noisy or self.augment.stream > 0


def load_recipe(source: str | Path, epochs: int | None = None) -> Recipe:
    """Read a recipe: one of those that come with Falcon, by name, or a TOML file.

    `epochs` are taken instead of the recipe's own.
    """
    path = _FOLDER / f"{source}.toml" if str(source) in RECIPES else Path(source)
    if not os.path.exists(path):
        raise FalconError(f"no recipe '{source}'; give a TOML file or one of {', '.join(RECIPES)}")
    values = read_toml(path)
    return parse_recipe(values if epochs is None else {**values, "epochs": epochs}, str(path))


def parse_recipe(values: dict[str, Any], where: str) -> Recipe:
    """Check keys, types and ranges; say the first thing that is wrong."""
    values = dict(values)
    table = values.pop("augment", {})
    if not isinstance(table, dict):
        raise FalconError(f"{where}: 'augment' is {table!r}; it must be a table")
    clean = _checked(Recipe, values, where, "")
    for key in ("forward", "epochs", "batch", "weight_rate", "neuron_rate"):
        if key not in values:
            raise FalconError(f"{where}: the key '{key}' is missing")
    try:
        augment = Augmentation(**_checked(Augmentation, table, where, "augment."))
    except FalconError as error:
        raise FalconError(f"{error}" if where in str(error) else f"{where}: {error}") from None
    recipe = Recipe(**clean, augment=augment)
    _check_ranges(recipe, where)
    return recipe


def _checked(kind: type, values: dict[str, Any], where: str, prefix: str) -> dict[str, Any]:
    """The values of a table, if the dataclass knows their keys and they have its types."""
    known: dict[str, Any] = {each.name: each.type for each in fields(kind)}
    clean = {}
    for key, value in values.items():
        if key not in known:
            raise FalconError(f"{where}: unknown key '{prefix}{key}'; known: {', '.join(known)}")
        wanted = known[key]
        if wanted is float and type(value) is int:
            value = float(value) if abs(value) < 1 << 53 else value
        if type(value) is not wanted or (wanted is float and not isfinite(value)):
            names = {float: "a number", int: "a whole number", bool: "true or false"}
            name = names.get(wanted, "text")
            raise FalconError(f"{where}: '{prefix}{key}' is {value!r}; it must be {name}")
        clean[key] = value
    return clean


def _check_ranges(recipe: Recipe, where: str) -> None:
    def demand(good: bool, key: str, wanted: str) -> None:
        if not good:
            raise FalconError(f"{where}: '{key}' is {getattr(recipe, key)!r}; it must be {wanted}")

    demand(recipe.forward in ("counts", "spikes"), "forward", "'counts' or 'spikes'")
    demand(recipe.gradient in ("rate", "temporal"), "gradient", "'rate' or 'temporal'")
    for key in ("epochs", "batch"):
        demand(getattr(recipe, key) >= 1, key, "1 or more")
    demand(recipe.epochs <= 1_000_000, "epochs", "a million or less")
    for key in ("warmup", "label_smoothing", "class_weight", "ema", "unknown", "distil"):
        demand(0 <= getattr(recipe, key) <= 1, key, "between 0 and 1")
    for each in fields(recipe):
        if each.type in (int, float) and not each.name.startswith("offset_"):
            demand(getattr(recipe, each.name) >= 0, each.name, "0 or more")
    demand(recipe.temperature > 0, "temperature", "above 0")
    demand(recipe.threshold_low > 0, "threshold_low", "above 0")
    demand(
        recipe.threshold_high >= recipe.threshold_low, "threshold_high", "at least the low bound"
    )
    demand(recipe.offset_high >= recipe.offset_low, "offset_high", "at least the low bound")
    demand(
        not recipe.weight_noise or not recipe.spiking, "weight_noise",
        "0 where spikes are run: a chip brings its own",
    )  # fmt: skip
    if recipe.weight_rate == recipe.neuron_rate == 0:
        raise FalconError(f"{where}: weight_rate and neuron_rate are both 0; nothing would move")


def fitted_batch(recipe: Recipe, clips: int) -> int:
    """The clips of a step: the recipe's, at most all; with `fit`, such that an epoch has steps.

    The batch is then halved to a power of two until an epoch has STEPS_WANTED steps, but not
    below SMALLEST_FITTED clips.
    """
    batch = min(recipe.batch, clips)
    if not recipe.fit or clips >= STEPS_WANTED * recipe.batch or batch <= SMALLEST_FITTED:
        return batch
    wanted = max(1, clips // STEPS_WANTED)
    return min(batch, max(SMALLEST_FITTED, 1 << (wanted.bit_length() - 1)))


def one_cycle(step: int, steps: int, warmup: float) -> float:
    """The learning rate at a step, as part of its peak: half a cosine up, half a cosine down."""
    rising = warmup * steps
    if step < rising:
        return 0.04 + 0.96 * 0.5 * (1 - cos(pi * step / rising))
    return 0.5 * (1 + cos(pi * (step - rising) / max(steps - rising, 1)))
