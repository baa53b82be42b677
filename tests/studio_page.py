"""The studio's page in a browser: how to serve and open it, what stands on it and can be done."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import BrowserContext, Locator, Page, WebSocketRoute, expect
from tests.training_data import WORDS, write_spikes
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.network.description import Network
from falcon_snn.network.qnn import Qnn
from falcon_snn.training.checkpoint import Metadata, prefixed, save_checkpoint
from falcon_snn.workflow.networks import built_in


def write_search(path: Path, network: Network) -> Path:
    """The result of a search that evaluated three schedules."""
    rows: list[dict[str, Any]] = [
        {"delays": delays, "right": right, "accuracy": right / 40, "interval": [0.2, 0.9],
         "latency_cycles": 1, "latency_us": 0.01}
        for delays, right in (({}, 20), ({"stem.fc1": 3}, 30), ({"stem.fc1": 2}, 10))
    ]  # fmt: skip
    chosen = {"fastest": 0, "balanced": 0, "accurate": 1}
    document = {
        "format": "falcon search 1", "boundaries": list(network.boundaries), "clips": 40,
        "uniform": [0] * 7, "chosen": chosen, "evaluated": rows, "front": [0], "found": [0],
        "settings": {"tau": 2.0, "eps": 0.001}, "cycle_ns": 10.0, "budget_cycles": 9,
        "budget_us": 0.09, "schedules_searched": 3, "chosen_compared": [], "changes": [],
        "random": {name: {"existing": 0, "schedules": []} for name in chosen},
    }  # fmt: skip
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """`falcon-snn studio` with a small checkpoint and a few clips; gives its address."""
    network = built_in("tiny", "ssc", classes=len(WORDS))
    torch.manual_seed(4)
    metadata = Metadata(network, WORDS, {}, 1, 0, {})
    checkpoint = folder / "tiny.safetensors"
    save_checkpoint(checkpoint, metadata, prefixed("model.", Qnn(network).state_dict()))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["studio", "--no-browser", "--port", str(port), "--checkpoint", str(checkpoint),
             "--data", str(write_spikes(folder / "spikes")), "--clips", "8",
             "--search", str(write_search(folder / "result.json", network))]  # fmt: skip
    # NiceGUI behaves otherwise when it believes that it is itself under test.
    environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    process = subprocess.Popen(
        [sys.executable, "-m", "falcon_snn.cli.main", *words],
        stdout=subprocess.PIPE, text=True, env=environment, cwd=folder,
    )  # fmt: skip
    assert process.stdout is not None
    assert "Falcon studio: http://127.0.0.1" in process.stdout.readline()
    for _ in range(300):  # it says so just before it listens
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}"
    assert process.poll() is None, "the server ended on its own"
    process.terminate()
    process.wait(timeout=20)
    process.stdout.close()


@contextmanager
def opened(
    browser: BrowserContext, address: str, *, phone: bool = False,
    route: Callable[[WebSocketRoute], None] | None = None,
) -> Iterator[Page]:  # fmt: skip
    """A page that must neither log an error nor ask for anything that is not on the server."""
    page = browser.new_page()
    faults: list[str] = []
    page.on("console", lambda told: faults.append(told.text) if told.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "requestfailed",  # a page that is left or loaded anew cancels what it had asked for
        lambda asked: faults.append(asked.url) if asked.failure != "net::ERR_ABORTED" else None,
    )
    if phone:
        page.set_viewport_size({"width": 390, "height": 844})
        page.emulate_media(color_scheme="dark")
    if route is not None:
        page.route_web_socket("**", route)
    page.goto(address)
    # This figure comes over the socket: what is done before that is open is lost.
    expect(page.locator("[data-next]").first).not_to_have_text("…")
    yield page
    assert faults == []
    page.close()


def core(page: Page) -> Locator:
    return result(page, "core")


def result(page: Page, name: str) -> Locator:
    return page.locator(f"[data-result={name}]")


def field(page: Page, name: str) -> Locator:
    return page.get_by_label(name, exact=True)


def slider(page: Page, name: str) -> Locator:
    return page.locator(f'[aria-label="{name}, slider"] [tabindex]')


def latency(*words: object) -> dict[str, Any]:
    """What `falcon-snn latency --json` says."""
    done = CliRunner().invoke(app, ["latency", *map(str, words), "--json"])
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def us(value: float) -> str:
    return f"{value:.2f}"


def drop(page: Page, name: str, content: bytes, zone_name: str = "profile") -> None:
    """Drop a file on the page as a mouse does."""
    transfer = page.evaluate_handle(
        """([name, bytes]) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([Uint8Array.from(bytes)], name));
            return transfer;
        }""",
        [name, list(content)],
    )
    zone = page.locator(f'[data-drop="{zone_name}"]')
    zone.dispatch_event("dragover", {"dataTransfer": transfer})
    zone.locator(".q-uploader__dnd").dispatch_event("drop", {"dataTransfer": transfer})


def chosen_file(page: Page, zone: str) -> Locator:
    return page.locator(f'[data-drop="{zone}"] input[type=file]')
