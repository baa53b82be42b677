"""How fast the studio answers: its parts, and from a key press to the new number in a browser.

python benchmarks/studio.py
"""

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, sync_playwright

from falcon_snn.report.timeline import timeline_spec
from falcon_snn.studio import numbers
from falcon_snn.studio.state import first_state

PORT = 8765
# Starts a clock at the next key press and stops it when the core latency has changed.
WATCH = """() => { window.answered = new Promise(done => {
    let pressed;
    addEventListener(
        "keydown", () => { pressed = performance.now(); }, {capture: true, once: true});
    new MutationObserver((_, watcher) => {
        watcher.disconnect(); done(performance.now() - pressed);
    }).observe(document.querySelector("[data-result=core]"),
               {childList: true, characterData: true, subtree: true});
}); }"""


def main() -> None:
    rows = {model: _parts(model) for model in ("medium", "large")}
    chromium = shutil.which("chromium")
    if chromium is not None:
        command = [sys.executable, "-m", "falcon_snn.cli.main", "studio", "--no-browser"]
        server = subprocess.Popen([*command, "--port", str(PORT)], stdout=subprocess.PIPE)
        assert server.stdout is not None
        server.stdout.readline()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--headless", "--no-sandbox", "--disable-gpu"]
            )
            for model, row in rows.items():
                row["key_to_number_ms"] = _in_browser(browser.new_page(), model)
            browser.close()
        server.terminate()
        server.wait()
    print(json.dumps(rows, indent=1))


def _parts(model: str) -> dict[str, Any]:
    state = first_state(model)
    now = numbers.latency(state)
    return {
        "latency_ms": _median_ms(lambda: numbers.latency(state)),
        "timeline_ms": _median_ms(lambda: timeline_spec({"SNN": now.snn})),
        "outlook_ms": _median_ms(lambda: numbers.outlook(state)),
    }


def _median_ms(call: Callable[[], object], times: int = 20) -> float:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        taken.append(1000 * (time.perf_counter() - started))
    return round(statistics.median(taken), 1)


def _in_browser(page: Page, model: str) -> float:
    page.goto(f"http://127.0.0.1:{PORT}/?model={model}&dataset=gsc&T=7")
    page.wait_for_timeout(3000)
    page.locator('[aria-label="delay of stem.conv1, slider"] [tabindex]').focus()
    taken = []
    for key in ["ArrowRight", "ArrowLeft"] * 10:
        page.evaluate(WATCH)
        page.keyboard.press(key)
        taken.append(page.evaluate("answered"))
        page.wait_for_timeout(600)
    return round(statistics.median(taken), 1)


if __name__ == "__main__":
    main()
