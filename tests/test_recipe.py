"""Recipes: those that come along are the paper's phases; a wrong one is one clear line."""

from pathlib import Path

import pytest

from falcon_snn.errors import FalconError
from falcon_snn.training.recipe import RECIPES, load_recipe

_GOOD = 'forward = "counts"\nepochs = 2\nbatch = 8\nweight_rate = 1e-3\nneuron_rate = 0\n'


def test_the_phases_of_the_paper() -> None:
    recipes = {name: load_recipe(name) for name in RECIPES}
    assert [recipes[phase].epochs for phase in ("qat", "tune", "joint")] == [30, 15, 10]
    assert [recipe.spiking for recipe in recipes.values()] == [False] * 4 + [True] * 3
    moves = {phase: (r.weight_rate > 0, r.neuron_rate > 0) for phase, r in recipes.items()}
    assert moves == {
        "teacher": (True, False), "qnn": (True, False), "small": (True, False),
        "chip": (True, False),
        "qat": (True, False), "tune": (False, True), "joint": (True, True),
    }  # fmt: skip
    for phase in ("tune", "joint"):
        recipe = recipes[phase]
        assert (recipe.threshold_low, recipe.threshold_high) == (0.5, 2.0)
        assert (recipe.offset_low, recipe.offset_high) == (-0.5, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_GOOD + "momentum = 0.9", "unknown key 'momentum'"),
        (_GOOD + "[augment]\nreverb = 1", "unknown key 'augment.reverb'"),
        (_GOOD.replace("epochs = 2", "epochs = 2.5"), "'epochs' is 2.5; it must be a whole number"),
        (_GOOD.replace("epochs = 2", "epochs = true"), "'epochs' is True"),
        (_GOOD.replace("epochs = 2\n", ""), "'epochs' is missing"),
        (_GOOD.replace("epochs = 2", "epochs = 0"), "'epochs' is 0; it must be 1 or more"),
        (_GOOD.replace('"counts"', '"rates"'), "'forward' is 'rates'"),
        (_GOOD + 'ema = "yes"', "'ema' is 'yes'; it must be a number"),
        (_GOOD + "label_smoothing = 1.5", "between 0 and 1"),
        (_GOOD + "weight_decay = -1.0", "0 or more"),
        (_GOOD + "[augment]\nspeed = -0.1", "augment.speed"),
        (_GOOD + "augment = 3", "it must be a table"),
        (_GOOD.replace("1e-3", "0"), "nothing would move"),
        (_GOOD.replace("counts", "spikes") + "weight_noise = 0.1", "'weight_noise' is 0.1"),
        ("epochs = = 3", "not valid TOML"),
    ],
)
def test_a_wrong_recipe_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(FalconError) as caught:
        load_recipe(path)
    assert message in str(caught.value)
    assert "mine.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_recipe_names_those_there_are() -> None:
    with pytest.raises(FalconError, match="qnn, small, chip, qat, tune, joint"):
        load_recipe("nowhere.toml")
