"""What this machine has, and what each missing thing costs."""

import importlib.util
import os
import platform
from pathlib import Path
from typing import Any

# (module, what it is for, what its absence costs, the extra that brings it)
_OPTIONAL = (
    ("triton", "fused GPU kernels", "backend 'triton' cannot run", "gpu"),
    ("ray", "search on several machines", "--engine ray cannot run", "ray"),
    ("plotly", "interactive timelines", "--gantt x.html cannot run", "plotly"),
    ("nicegui", "the studio page", "studio cannot run", "studio"),
    ("nir", "NIR files", "export and --graph F.nir cannot run", "interchange"),
    ("onnx", "ONNX files", "export --format onnx cannot run", "interchange"),
    ("pyosys", "synthesis", "export --synthesise needs yosys", "rtl"),
    ("optuna", "search for networks", "design cannot run", "design"),
    ("PIL", "folders of images", "images cannot be read", "images"),
    ("sounddevice", "the microphone", "listen cannot run", "listen"),
)


def examine() -> list[dict[str, Any]]:
    """One row per thing: name, whether it is there, what was seen, what its absence costs."""
    import torch

    rows: list[dict[str, Any]] = [
        _row("python", True, platform.python_version()),
        _row("cpu", True, f"{platform.machine()}, cores: {os.cpu_count()}"),
        _row("torch", True, f"{torch.__version__}, threads: {torch.get_num_threads()}"),
    ]
    if torch.cuda.is_available():
        memory_gib = torch.cuda.get_device_properties(0).total_memory / 2**30
        rows.append(_row("gpu", True, f"{torch.cuda.get_device_name(0)}, {memory_gib:.0f} GiB"))
    else:
        rows.append(
            _row("gpu", False, "none that torch can use",
                 "everything works on the CPU; training real networks takes hours, not minutes")
        )  # fmt: skip
    for module, purpose, cost, extra in _OPTIONAL:
        found = importlib.util.find_spec(module) is not None
        mend = f"{cost}; pip install 'falcon-snn[{extra}]'"
        rows.append(_row(module, found, purpose, "" if found else mend))
    rows.append(_data_row())
    return rows


def _row(name: str, present: bool, seen: str, cost: str = "") -> dict[str, Any]:
    return {"name": name, "present": present, "seen": seen, "cost": cost}


def _data_row() -> dict[str, Any]:
    folder = os.environ.get("FALCON_DATA")
    if not folder:
        cost = "only the embedded set is found by name; other data needs --data PATH"
        return _row("data", False, "FALCON_DATA is not set", cost)
    if not Path(folder).is_dir():
        return _row("data", False, f"FALCON_DATA={folder} is not a folder", "set it to a folder")
    names = sorted(entry.name for entry in Path(folder).iterdir() if entry.is_dir())
    return _row("data", bool(names), f"{folder}: {', '.join(names) or 'empty'}",
                "" if names else "put data sets there, one folder each")  # fmt: skip
