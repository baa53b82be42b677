"""The studio as a person uses it: a real server, a real browser."""

import shutil
import socket
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import (
    BrowserContext,
    Page,
    WebSocketRoute,
    expect,
    sync_playwright,
)
from tests.studio_page import (
    chosen_file,
    core,
    drop,
    field,
    latency,
    opened,
    result,
    served,
    slider,
    us,
)

from falcon_snn.hardware.profile import shipped_profiles

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
MEDIUM = "/?network=medium&dataset=gsc&T=7"
PATIENCE_MS = 30_000  # a busy machine is no failure

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine (apt-get install chromium)"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("studio")) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[BrowserContext]:
    """One browser for all pages, so that it loads the page's scripts once."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        context = chromium.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(PATIENCE_MS)
        yield context
        chromium.close()


@pytest.fixture
def page(browser: BrowserContext, server: str) -> Iterator[Page]:
    with opened(browser, server + MEDIUM) as page:
        yield page


def test_a_moved_delay_shows_what_the_command_says(page: Page) -> None:
    expect(core(page)).to_have_text("115.82")
    expect(result(page, "qnn")).to_have_text("130.86")
    expect(result(page, "full")).to_have_text("252.44")
    slider(page, "delay of block0.ffn1").press("ArrowRight")
    field(page, "delay of block2.ffn2").fill("4")
    said = latency("--delay", "block0.ffn1=2", "--delay", "block2.ffn2=4")
    expect(core(page)).to_have_text(us(said["core_latency_us"]))
    expect(field(page, "delay of block0.ffn1")).to_have_value("2")
    for row in said["boundaries"]:
        expect(page.locator(f'[data-slack="{row["name"]}"]')).to_have_text(us(row["slack_us"]))
        added = f"{row['next_delay_us']:+.2f}"
        expect(page.locator(f'[data-next="{row["name"]}"]')).to_have_text(added)
    expect(page.get_by_label("Timeline of every stage")).to_contain_text("block2.ffn2 δ=4")


def test_a_page_that_opens_sets_no_field(browser: BrowserContext, server: str) -> None:
    """A field that is set while the page opens would lose what a quick person typed into it."""
    page = browser.new_page()
    received: list[str] = []
    page.on("websocket", lambda line: line.on("framereceived", lambda f: received.append(str(f))))
    page.goto(server + MEDIUM)
    expect(page.locator("[data-next]").first).not_to_have_text("…")
    assert received
    assert not [frame for frame in received if "updateValue" in frame]
    page.close()


def test_published_schedules_by_button(page: Page) -> None:
    for name, core_us in {
        "balanced": "119.64", "accurate": "129.04", "full": "252.44", "fastest": "115.82",
    }.items():  # fmt: skip
        page.get_by_role("button", name=name, exact=True).click()
        expect(core(page)).to_have_text(core_us)
    expect(result(page, "interval")).to_have_text("30.84")


def test_save_and_reload_from_the_address(page: Page, tmp_path: Path) -> None:
    page.get_by_role("button", name="accurate", exact=True).click()
    field(page, "Q/K prefix").fill("5")
    said = latency("--schedule", "accurate", "--qk-prefix", "5")
    expect(core(page)).to_have_text(us(said["core_latency_us"]))
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the schedule").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert latency("--schedule", file, "--qk-prefix", "5") == said
    page.wait_for_url("**prefix=5**")
    page.reload()
    expect(core(page)).to_have_text(us(said["core_latency_us"]))
    expect(field(page, "delay of block0.ffn1")).to_have_value("3")
    expect(field(page, "Q/K prefix")).to_have_value("5")


def test_slots_hardware_and_network(page: Page, tmp_path: Path) -> None:
    field(page, "spike slots T").fill("5")
    page.get_by_role("button", name="streamed").click()
    said = latency("--slots", "5", "--attention", "streamed")
    expect(core(page)).to_have_text(us(said["core_latency_us"]))
    field(page, "t_cycle in ns").fill("20")
    field(page, "active rows").fill("18")
    text = shipped_profiles()["paper"].replace('"paper"', '"mine"')
    text = text.replace("active_rows = { value = 9", "active_rows = { value = 18")
    text = text.replace("t_adc_ns = { value = 10.0", "t_adc_ns = { value = 15.4")
    profile = tmp_path / "mine.toml"
    profile.write_text(text, encoding="utf-8")
    words = ("--slots", "5", "--hardware", profile)
    said = latency(*words, "--attention", "streamed")
    expect(core(page)).to_have_text(us(said["core_latency_us"]))
    chosen_file(page, "profile").set_input_files(profile)
    expect(core(page)).to_have_text(us(latency(*words)["core_latency_us"]))
    page.wait_for_url("**hardware=mine**")
    page.reload()
    expect(field(page, "active rows")).to_have_value("18")
    page.get_by_label("network").click()
    page.get_by_role("option", name="large").click()
    expect(core(page)).to_have_text(us(latency(*words, "--network", "large")["core_latency_us"]))
    expect(field(page, "delay of block4.residual2")).to_have_value("1")


def test_bad_input_is_refused_and_the_server_stays(page: Page, server: str) -> None:
    alert = page.get_by_role("alert")
    for typed, message in {
        "9": "delay of block0.ffn1 is 9; it must lie in 1..7",
        "0": "delay of block0.ffn1 is 0; it must lie in 1..7",
        "1.5": "delay of block0.ffn1 is '1.5'; it must be a whole number",
        "": "delay of block0.ffn1 is ''; it must be a whole number",
    }.items():
        field(page, "delay of block0.ffn1").fill(typed)
        expect(alert).to_contain_text(message)
        expect(core(page)).to_have_text("115.82")
    field(page, "active rows").fill("0")
    expect(alert).to_contain_text("active_rows = 0; allowed: a whole number from 1 to 65536")
    good = shipped_profiles()["paper"]
    for name, content, message in (
        ("broken.toml", b"name = [", "broken.toml: not valid TOML"),
        ("picture.toml", b"\x89PNG\xff\xfe", "picture.toml: not a text file"),
        ("short.toml", b'name = "short"', "short.toml: [analog] t_set_ns is missing"),
        ("typo.toml", good.replace("active_rows", "active_row").encode(), "did you mean"),
    ):
        drop(page, name, content)
        expect(alert).to_contain_text(message)
    chosen_file(page, "profile").set_input_files(
        {"name": "big.toml", "mimeType": "text/plain", "buffer": b"#" * 1_100_000}
    )
    expect(alert).to_contain_text("over 1 MB")
    expect(core(page)).to_have_text("115.82")
    field(page, "delay of block0.ffn1").fill("2")
    expect(core(page)).to_have_text("117.70")
    expect(alert).to_be_hidden()
    page.goto(f"{server}/?network=huge")
    expect(page.get_by_role("alert")).to_contain_text("This link does not fit")
    expect(page.get_by_role("alert")).to_contain_text("unknown network 'huge'")
    page.goto(f"{server}/?network=own&of=Another&T=7")
    expect(page.get_by_role("alert")).to_contain_text("this link is about the network 'Another'")
    with urllib.request.urlopen(server) as answer:
        assert answer.status == 200


def test_everything_works_from_the_keyboard(page: Page) -> None:
    page.get_by_role("button", name="balanced", exact=True).focus()
    page.keyboard.press("Enter")
    expect(core(page)).to_have_text("119.64")
    for _ in range(5):  # accurate, full, save, load, the first slider
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(field(page, "delay of stem.conv1")).to_have_value("3")
    page.keyboard.press("Tab")
    page.keyboard.type("1")
    page.keyboard.press("Control+A")
    page.keyboard.type("2")
    said = latency("--schedule", "balanced", "--delay", "stem.conv1=2")
    expect(core(page)).to_have_text(us(said["core_latency_us"]))


def test_what_is_typed_is_not_undone_by_an_older_answer(
    browser: BrowserContext, server: str
) -> None:
    """A server that answers late: its values of before arrive when other ones were typed."""
    held: list[Callable[[], None]] = []
    said_all: list[str] = []
    late = False

    def route(to_page: WebSocketRoute) -> None:
        def answer(said: str | bytes) -> None:
            said_all.append(str(said))
            held.append(lambda: to_page.send(said)) if late else to_page.send(said)

        to_page.connect_to_server().on_message(answer)

    with opened(browser, server + MEDIUM, route=route) as page:
        late = True
        slider(page, "delay of stem.conv1").press("ArrowRight")
        page.keyboard.press("Tab")
        page.keyboard.type("5")
        while not any("stem.conv1=5" in said for said in said_all):
            page.wait_for_timeout(50)
        late = False
        for deliver in held:
            deliver()
        said = latency("--delay", "stem.conv1=5")
        expect(core(page)).to_have_text(us(said["core_latency_us"]))
        expect(field(page, "delay of stem.conv1")).to_have_value("5")
        page.wait_for_url("**stem.conv1=5**")
        page.get_by_role("button", name="fastest", exact=True).click()
        expect(field(page, "delay of stem.conv1")).to_have_value("1")


def test_undo_and_redo(page: Page) -> None:
    page.get_by_role("button", name="balanced", exact=True).click()
    expect(core(page)).to_have_text("119.64")
    page.get_by_role("button", name="accurate", exact=True).click()
    expect(core(page)).to_have_text("129.04")
    page.keyboard.press("Control+z")
    expect(core(page)).to_have_text("119.64")
    page.wait_for_url("**block0.ffn1=2**")
    page.get_by_role("button", name="Undo").click()
    expect(core(page)).to_have_text("115.82")
    expect(page.get_by_role("button", name="Undo")).to_be_disabled()
    page.keyboard.press("Control+y")
    expect(core(page)).to_have_text("119.64")
    page.keyboard.press("Control+Shift+Z")
    expect(core(page)).to_have_text("129.04")
    expect(page.get_by_role("button", name="Redo")).to_be_disabled()


def test_a_pinned_state_stands_beside_the_present_one(page: Page) -> None:
    table = page.locator("[data-result=comparison]")
    page.get_by_role("button", name="pin this state").click()
    page.get_by_role("button", name="accurate", exact=True).click()
    expect(table.get_by_role("row", name="core latency")).to_contain_text("115.82129.04+13.22")
    expect(table.get_by_role("row", name="delay of block0.ffn1")).to_contain_text("13+2")
    expect(table.get_by_role("row", name="delay of stem.fc2")).to_have_count(0)
    page.wait_for_url("**block0.ffn1=3**pin=**")  # the address comes after the figures
    page.reload()
    expect(table.get_by_role("row", name="core latency")).to_contain_text("115.82129.04+13.22")
    page.get_by_role("button", name="swap").click()
    expect(core(page)).to_have_text("115.82")
    expect(table.get_by_role("row", name="core latency")).to_contain_text("129.04115.82-13.22")
    page.get_by_role("button", name="unpin").click()
    expect(table).to_be_hidden()


def test_a_saved_schedule_is_loaded(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"delays": {"block0.ffn1": 2}}', encoding="utf-8")
    chosen_file(page, "schedule").set_input_files(file)
    expect(core(page)).to_have_text("117.70")
    expect(field(page, "delay of block0.ffn1")).to_have_value("2")
    drop(page, "other.json", b'{"delays": {"nowhere": 2}}', "schedule")
    expect(page.get_by_role("alert")).to_contain_text("other.json: unknown boundary 'nowhere'")
    expect(core(page)).to_have_text("117.70")


def test_every_value_of_the_hardware(page: Page, tmp_path: Path) -> None:
    page.get_by_text("Every value", exact=True).click()
    field(page, "tile_rows").fill("64")
    field(page, "clock_mhz").fill("250")
    with page.expect_download() as download:
        page.get_by_role("button", name="save the profile").click()
    profile = tmp_path / download.value.suggested_filename
    download.value.save_as(profile)
    said = latency("--hardware", profile)
    assert said["core_latency_us"] != latency()["core_latency_us"]
    expect(core(page)).to_have_text(us(said["core_latency_us"]))
    page.reload()
    expect(core(page)).to_have_text(us(said["core_latency_us"]))
    page.get_by_text("Every value", exact=True).click()
    field(page, "control_percent").fill("0")
    page.wait_for_url("**control_percent=0.0**")
    field(page, "mux").fill("0")
    expect(page.get_by_role("alert")).to_contain_text("mux = 0; allowed: a whole number")


def test_a_click_on_the_front_loads_a_schedule(browser: BrowserContext, server: str) -> None:
    with opened(browser, server) as page:
        front = page.get_by_label("Accuracy over latency")
        expect(result(page, "front")).to_contain_text("3 schedules, each on 40 clips")
        expect(result(page, "measured")).to_have_text("50.00")
        expect(page.locator("[data-remark=measured]")).to_contain_text("by the search")
        page.get_by_role("button", name="accurate: ").click()
        expect(field(page, "delay of stem.fc1")).to_have_value("3")
        expect(result(page, "measured")).to_have_text("75.00")
        front.scroll_into_view_if_needed()
        fastest = front.locator(".scatterlayer .trace").nth(1).locator(".points path").first
        box = fastest.bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        expect(field(page, "delay of stem.fc1")).to_have_value("1")
        field(page, "spike slots T").fill("6")
        expect(result(page, "front")).to_contain_text("The search is about Falcon-Tiny SSC")


def test_strangers_are_refused(server: str) -> None:
    port = server.rpartition(":")[2]

    def asked(head: str, body: bytes = b"") -> str:
        with socket.create_connection(("127.0.0.1", int(port)), timeout=20) as connection:
            connection.sendall(head.replace("\n", "\r\n").encode() + body)
            return connection.recv(200).decode("latin-1").splitlines()[0]

    upgrade = (
        "GET /_nicegui_ws/socket.io/?EIO=4&transport=websocket HTTP/1.1\nHost: {host}\n"
        "Origin: {origin}\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n\n"
    )
    here = f"localhost:{port}"
    assert "101" in asked(upgrade.format(host=here, origin=f"http://{here}"))
    assert "403" in asked(upgrade.format(host=here, origin="http://evil.example"))
    evil = f"evil.example:{port}"
    assert "403" in asked(upgrade.format(host=evil, origin=f"http://{evil}"))
    assert "403" in asked(f"GET / HTTP/1.1\nHost: {evil}\n\n")
    assert "200" in asked(f"GET / HTTP/1.1\nHost: {here}\n\n")
    large = f"POST / HTTP/1.1\nHost: {here}\nContent-Length: 5000000\n\n"
    assert "413" in asked(large)


def test_a_dark_phone_shows_all_of_it(browser: BrowserContext, server: str) -> None:
    with opened(browser, f"{server}{MEDIUM}&below=qnn", phone=True) as page:
        timeline = page.get_by_label("Timeline of every stage")
        expect(timeline).to_contain_text("Matched QNN: 130.86 µs")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_checkpoint_adds_accuracy_and_changed_spikes(
    browser: BrowserContext, server: str
) -> None:
    with opened(browser, server) as page:
        expect(result(page, "accuracy")).to_contain_text("of 8 clips; +0 against delay 1")
        expect(result(page, "energy")).to_contain_text("0.")
        expect(page.locator("[data-remark=energy]")).to_contain_text("matched QNN 0.")
        field(page, "delay of stem.fc1").fill("5")
        page.wait_for_url("**stem.fc1=5**")
        expect(page.get_by_label("Changed spikes per stage")).to_contain_text("block0.residual2")
        field(page, "spike slots T").fill("6")
        expect(result(page, "accuracy")).to_contain_text("Falcon-Tiny SSC with T = 7")
        expect(page.get_by_label("Changed spikes per stage")).to_be_hidden()
