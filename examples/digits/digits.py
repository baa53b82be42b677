"""An MLP on scikit-learn's digits, from a plain torch module to a schedule and its report.

pip install scikit-learn
python examples/digits/digits.py
"""

from pathlib import Path

from torch import nn

import falcon_snn as falcon

RECIPES = Path(__file__).parent


def network() -> nn.Module:
    """Two hidden layers; pixels become spike counts by scaling alone."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def main(out: str = "digits-out", epochs: int = 30) -> falcon.Model:
    from sklearn.datasets import load_digits

    digits = load_digits()
    x, y = digits.images.astype("float32"), digits.target
    data = {"x_train": x[:1400], "y_train": y[:1400], "x_test": x[1400:], "y_test": y[1400:]}

    design = falcon.from_torch(network(), example=x[:1400], slots=4)
    recipe = RECIPES / "qnn.toml"
    qnn = falcon.train(design, data, f"{out}/qnn", recipe=recipe, epochs=epochs)
    found = falcon.search_delays(qnn, data, f"{out}/search")
    recipes = {"qat": RECIPES / "qat.toml"}
    snn = falcon.adapt(
        qnn, data, found.balanced, f"{out}/adapted", phases=("qat",), recipes=recipes,
        epochs=max(1, epochs // 3),
    )  # fmt: skip
    for name, model, schedule in (("QNN", qnn, "qnn"), ("SNN", snn, None)):
        tested = model.evaluate(data, "test", schedule)
        us = model.latency(schedule).core_us
        print(f"{name}: {tested.accuracy:.2f} % of {tested.clips} test digits in {us:.2f} us")
    return snn


if __name__ == "__main__":
    main()
