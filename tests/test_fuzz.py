"""Files damaged at random: every loader refuses them in one line, or takes them for what they are.

A larger campaign: `python -m tools.fuzz --seed 1 --cases 15000`.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_damaged_files_of_every_kind(tmp_path: Path) -> None:
    arguments = ["--seed", "7", "--cases", "120", "--findings", str(tmp_path / "findings")]
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 findings" in done.stdout
    assert int(done.stdout.splitlines()[-1].split()[0].replace(",", "")) > 2_000
