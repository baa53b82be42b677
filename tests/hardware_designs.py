"""Small networks as hardware, for the tests of their description."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.random_networks import random_inputs

from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.interchange.verilog.design import Design
from falcon_snn.interchange.verilog.folder import ClipRun, write_folder
from falcon_snn.network.description import Network
from falcon_snn.network.integer import Snn
from falcon_snn.network.operations import Attention, Code, Fire, FireTerm, Readout, Source
from falcon_snn.network.product import Product
from falcon_snn.workflow.verify import random_schedules

PAPER = load_profile()
_MISSING = [tool for tool in ("iverilog", "vvp", "make") if shutil.which(tool) is None]
needs_icarus = pytest.mark.skipif(bool(_MISSING), reason=f"without {', '.join(_MISSING)}")

# Every module in one network; weights are -1, 0 and 1, so that sums tie with small thresholds.
ALL = Network(
    "all modules",
    4,
    (
        Source("counts", (4, 1, 3), given=True, encoding="even"),
        Fire("first", (FireTerm("counts", Product(4)),)),
        Code("q", "first", Product(4), 2),
        Code("k", "first", Product(4), 2),
        Fire("v", (FireTerm("first", Product(4)),), lookahead=True),
        Attention("context", "q", "k", "v", 2),
        Fire("mixed", (FireTerm("context", Product(4)), FireTerm("first", Product(4)))),
        Fire("sum", (FireTerm("first"), FireTerm("mixed"))),
        Readout("classes", "sum", 3),
    ),
    weight_bits=2,
)
# Two attentions that want the same arrays at the same time, with one head and with three.
TWO = Network(
    "two attentions",
    3,
    (
        Source("counts", (5, 1, 2), given=True),
        Fire("first", (FireTerm("counts", Product(6)),)),
        Code("block0.q", "first", Product(6)),
        Code("block0.k", "first", Product(6)),
        Fire("block0.v", (FireTerm("first", Product(6)),), lookahead=True),
        Attention("block0.one", "block0.q", "block0.k", "block0.v", 3),
        Attention("block1.other", "block0.k", "block0.q", "block0.v", 1),
        Fire("sum", (FireTerm("block0.one"), FireTerm("block1.other"))),
        Readout("classes", "sum", 3),
    ),
)


def runs_of(snn: Snn, profile: Profile, schedules: int, clips: int = 3) -> list[ClipRun]:
    x = random_inputs(snn.network, clips, seed=1)
    chosen = random_schedules(Design(snn, profile), schedules, seed=0).values()
    return [ClipRun(x[n % clips : n % clips + 1], delays) for n, delays in enumerate(chosen)]


def design_in(folder: Path, snn: Snn, profile: Profile = PAPER, schedules: int = 50) -> Path:
    write_folder(folder, snn, profile, runs_of(snn, profile, schedules))
    return folder


def run_in_icarus(folder: Path) -> subprocess.CompletedProcess[str]:
    """Every expected run, up to the first that differs."""
    return subprocess.run(
        ["make", "icarus"], cwd=folder, capture_output=True, text=True, check=False
    )
