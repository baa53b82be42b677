"""The studio's page in a browser: how to open it, what stands on it, what can be done with it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Locator, Page, WebSocketRoute, expect
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.network.description import Network


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
