"""Make the pictures of docs/ and README.md with the commands that the pages show.

    python tools/make_docs_pictures.py

Run it again when a drawing or a number changes; the pictures are committed.
"""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
COMMANDS = {
    "timeline.png": "latency --schedule balanced --compare qnn --gantt timeline.png",
    "mlp.png": "latency --graph {root}/examples/mlp.toml --compare qnn --gantt mlp.png",
    "mlp-waits.png": "latency --graph {root}/examples/mlp.toml --delay hidden1=4 --gantt "
    "mlp-waits.png",
    "graph.png": "graph --network tiny --out graph.png",
    "sharing.png": "resources --plot sharing.png",
    "tile-rows.png": "sweep tile_rows 9:72:9 --plot tile-rows.png",
    "theory.svg": "theory --out .",
    "accuracy-latency.png": "results --plot accuracy-latency.png",
}
COLOURS = 160  # flat drawings need few; a picture is then some tens of kilobytes


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for picture, command in COMMANDS.items():
            words = shlex.split(command.format(root=ROOT))
            print("falcon-snn", *words)
            subprocess.run(
                [sys.executable, "-m", "falcon_snn.cli.main", *words],
                cwd=folder, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            shrink(folder / picture, PICTURES / picture)


def shrink(source: Path, target: Path) -> None:
    """Few colours and at most 1600 pixels for a PNG; an SVG stays as it is."""
    from PIL import Image

    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".svg":
        target.write_bytes(source.read_bytes())
        return
    image = Image.open(source).convert("RGB")
    width = min(image.width, 1600)
    image = image.resize((width, image.height * width // image.width), Image.Resampling.LANCZOS)
    image.quantize(COLOURS).save(target, optimize=True)
    print(f"  {target.relative_to(ROOT)}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
