"""The studio in the browser: one page, whose address holds its state."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from fastapi import Request
from nicegui import app, background_tasks, events, ui

from falcon_snn.errors import FalconError
from falcon_snn.studio import numbers
from falcon_snn.studio import state as states
from falcon_snn.studio.comparison import Side, comparison
from falcon_snn.studio.controls import DelayControls, HardwareControls, NetworkControls
from falcon_snn.studio.field import Change
from falcon_snn.studio.guard import MAX_MESSAGE_BYTES, Guard
from falcon_snn.studio.history import History
from falcon_snn.studio.results import (
    ComparisonPanel,
    FrontPanel,
    SamplePanel,
    SummaryPanel,
    Timeline,
)
from falcon_snn.studio.state import StudioState

if TYPE_CHECKING:
    from falcon_snn.studio.front import Evaluated, Front
    from falcon_snn.studio.sample import ClipSample

STYLE = Path(__file__).with_name("studio.css")
FIGURES_FIRST_S = 0.02  # the browser shows the figures, then draws the timeline
SETTLE_S = 0.15  # what is slow starts when nothing has changed for this long


def serve(
    host: str, port: int, browser: bool, start: StudioState, sample: "ClipSample | None" = None,
    front: "Front | None" = None,
) -> None:  # fmt: skip
    """Serve the page until the process is ended."""
    sample_free = asyncio.Lock()  # one run of the network at a time

    @ui.page("/", title="Falcon studio")
    def page(request: Request) -> None:
        Page(dict(request.query_params), start, sample, sample_free, front)

    app.add_middleware(Guard, host=host)
    shown = f"[{host}]" if ":" in host else host
    app.on_startup(lambda: print(f"Falcon studio: http://{shown}:{port} (Ctrl-C ends it)"))
    ui.run(
        host=host, port=port, show=browser, reload=False, dark=None, favicon="🦅", language="en-GB",
        show_welcome_message=False, ws_max_size=MAX_MESSAGE_BYTES,
    )  # fmt: skip


class Page:
    """What one visitor sees: a state, and the elements that show it."""

    def __init__(
        self, query: dict[str, str], start: StudioState, sample: "ClipSample | None",
        sample_free: asyncio.Lock, front: "Front | None",
    ) -> None:  # fmt: skip
        self.sample, self.sample_free, self.front = sample, sample_free, front
        self.client = ui.context.client
        self.pinned: StudioState | None = None
        given, refused = dict(query), None
        pin = given.pop("pin", None)
        state = start
        try:
            state = states.from_query(given, start)
            if pin is not None:
                pairs = dict(parse_qsl(pin, keep_blank_values=True))
                self.pinned = states.from_query(pairs, start)
        except FalconError as error:
            refused = error
        self.history = History(state)
        ui.add_css(STYLE)
        ui.colors(primary="#2f6ba3")
        self._build()
        self._show(renew_address=bool(query) and refused is None)
        if refused is not None:
            self._say(f"This link does not fit, so the page starts afresh: {refused}")

    @property
    def state(self) -> StudioState:
        return self.history.present

    def _build(self) -> None:
        dark = ui.dark_mode(None)
        with ui.header().classes("bar items-center justify-between no-wrap"):
            with ui.row().classes("items-baseline gap-3 no-wrap"):
                ui.label("Falcon studio").classes("title")
                self.network = ui.label().classes("network")
            with ui.row().classes("items-center gap-1 no-wrap"):
                self.core = ui.label().classes("core").props('role="status" aria-live="polite"')
                self.undo_button = self._header_button("undo", "Undo", "Ctrl+Z", self.undo)
                self.redo_button = self._header_button("redo", "Redo", "Ctrl+Y", self.redo)
                ui.button(icon="contrast", on_click=lambda: _next_colours(dark)).props(
                    'flat round dense color=white aria-label="Light, dark or like the system"'
                )
        with ui.row().classes("refusal items-center no-wrap").props('role="alert"') as self.refusal:
            ui.icon("error")
            self.refusal_text = ui.label()
        self.refusal.set_visibility(False)
        # In a field, undo belongs to the text that is being typed there.
        ui.keyboard(self._key, ignore=["input", "select", "textarea"])
        with ui.element("main").classes("layout"):
            with ui.element("div").classes("summary"):
                self.summary = SummaryPanel(
                    accuracy=self.sample is not None or self.front is not None,
                    energy=self.sample is not None,
                )
            with ui.element("div").classes("controls"):
                self.networks = NetworkControls(self.apply, self.state)
                self.delays = DelayControls(self.apply, self._save, self._refuse)
                self.hardware = HardwareControls(
                    self.apply, self.state, self._refuse, self._save_profile
                )
            with ui.element("div").classes("charts"):
                self.compared = ComparisonPanel(self._pin, self._swap, self._unpin)
                self.points = FrontPanel(self._load) if self.front is not None else None
                self.timeline = Timeline(self._choose_below, self.state)
                self.clips = SamplePanel(self._show) if self.sample is not None else None

    def apply(self, change: Change) -> bool:
        """Take a change, or say why not; a refused one leaves everything as it was."""
        try:
            changed = change(self.state)
        except FalconError as error:
            self._refuse(error)
            return False
        self.refusal.set_visibility(False)
        if changed != self.state:
            self.history = self.history.changed(changed, time.monotonic())
            self._show()
        return True

    def undo(self) -> None:
        self._move(self.history.undone())

    def redo(self) -> None:
        self._move(self.history.redone())

    def _move(self, history: History) -> None:
        if history is not self.history:
            self.history = history
            self.refusal.set_visibility(False)
            self._show()

    def _key(self, event: events.KeyEventArguments) -> None:
        if not event.action.keydown or not (event.modifiers.ctrl or event.modifiers.meta):
            return
        key = str(event.key.name).lower()
        if key == "y" or (key == "z" and event.modifiers.shift):
            self.redo()
        elif key == "z":
            self.undo()

    def _pin(self) -> None:
        self.pinned = self.state
        self._show()

    def _unpin(self) -> None:
        self.pinned = None
        self._show()

    def _swap(self) -> None:
        """The pinned state becomes the present one, and the other way round."""
        if self.pinned is not None and self.pinned != self.state:
            pinned, self.pinned = self.pinned, self.state
            self.apply(lambda _: pinned)

    def _load(self, one: "Evaluated") -> None:
        self.apply(lambda state: replace(state, delays=one.delays))

    def _address(self) -> str:
        query = states.to_query(self.state)
        if self.pinned is not None:
            query += "&" + urlencode({"pin": states.to_query(self.pinned)})
        return f"/?{query}"

    def _show(self, renew_address: bool = True) -> None:
        now = numbers.latency(self.state)
        self.network.set_text(f"{self.state.network.name}, T = {self.state.slots}")
        self.core.set_text(f"{now.core_us:.2f} µs")
        self.summary.show(now)
        self.delays.show(self.state, now)
        self.networks.show(self.state)
        self.hardware.show(self.state)
        self.undo_button.set_enabled(bool(self.history.past))
        self.redo_button.set_enabled(bool(self.history.future))
        self._show_comparison(Side(self.state, now))
        accuracy = None if self.front is None else self.front.accuracy(self.state)
        remark = "not measured" if self.front is None else "not evaluated by the search"
        if accuracy is not None and self.front is not None:
            remark = f"by the search, on {self.front.clips:,} clips"
        self.summary.show_accuracy(accuracy, remark)
        if renew_address:
            ui.navigate.history.replace(self._address())
        background_tasks.create(self._show_rest(self.state, now))

    async def _show_rest(self, state: StudioState, now: numbers.Latency) -> None:
        """Timeline, throughput, what one more slot adds, the clips; until the state moves on."""
        await asyncio.sleep(FIGURES_FIRST_S)
        if state is not self.state:
            return
        self.timeline.show(state, now)
        self.summary.show_steps(now)
        await asyncio.sleep(SETTLE_S)
        if state is not self.state:
            return
        outlook = await asyncio.to_thread(numbers.outlook, state)
        if state is not self.state:
            return
        self.summary.show_outlook(outlook)
        self.delays.show_outlook(outlook)
        await self._show_front(state)
        await self._show_clips(state, now)

    async def _show_front(self, state: StudioState) -> None:
        if self.front is None or self.points is None:
            return
        if not self.front.fits(state):
            start = self.front.start
            self.points.decline(
                f"The search is about {start.network.name} with T = {start.slots} and Q/K prefix "
                f"{start.prefix}; choose these to see its schedules."
            )
            return
        found = await asyncio.to_thread(self.front.evaluated, state)
        if state is self.state:
            self.points.show(state, found, self.front.clips)

    async def _show_clips(self, state: StudioState, now: numbers.Latency) -> None:
        if self.sample is None or self.clips is None:
            return
        if not self.sample.fits(state):
            own = self.sample.own
            self.clips.decline(
                f"The checkpoint is {own.network.name} with T = {own.slots}; choose own and this "
                f"T to see more."
            )
            self.summary.show_energy(None, None, "only for the checkpoint's network")
            return
        async with self.sample_free:
            if state is not self.state:
                return
            try:
                effect = await asyncio.to_thread(self.sample.effect, state)
                snn_mj, qnn_mj = await asyncio.to_thread(self.sample.energies_mj, state)
                on_chip = None
                if self.clips.chip.value:
                    on_chip = await asyncio.to_thread(self.sample.right_on_chip, state)
                pinned = await self._measured_pin()
            except FalconError as error:
                self.clips.decline(str(error))
                return
        if state is not self.state:
            return
        self.clips.show(effect, on_chip)
        self.summary.show_energy(snn_mj, qnn_mj)
        if self.front is None or self.front.accuracy(state) is None:
            self.summary.show_accuracy(effect.accuracy, f"on {effect.clips} clips")
        self._show_comparison(Side(state, now, effect.accuracy, snn_mj), pinned)

    async def _measured_pin(self) -> Side | None:
        """The pinned state with what the clips say of it."""
        pinned = self.pinned
        if pinned is None or self.sample is None or not self.sample.fits(pinned):
            return None
        effect = await asyncio.to_thread(self.sample.effect, pinned)
        snn_mj, _ = await asyncio.to_thread(self.sample.energies_mj, pinned)
        return Side(pinned, numbers.latency(pinned), effect.accuracy, snn_mj)

    def _show_comparison(self, present: Side, pinned: Side | None = None) -> None:
        if self.pinned is None:
            self.compared.show(None)
            return
        if pinned is None or pinned.state != self.pinned:
            pinned = Side(self.pinned, numbers.latency(self.pinned))
        if self.front is not None:
            found = [self.front.accuracy(side.state) for side in (pinned, present)]
            if self.sample is None or None not in found:  # on more clips than the sample's
                pinned = pinned._replace(accuracy=found[0])
                present = present._replace(accuracy=found[1])
        self.compared.show(comparison(pinned, present))

    def _choose_below(self, below: str) -> None:
        self.apply(lambda state: replace(state, below=below))

    def _refuse(self, error: FalconError) -> None:
        self._say(f"Not applied: {error}")

    def _say(self, text: str) -> None:
        self.refusal_text.set_text(text)
        self.refusal.set_visibility(True)

    @staticmethod
    def _header_button(icon: str, name: str, keys: str, act: Callable[[], None]) -> ui.button:
        button = ui.button(icon=icon, on_click=act)
        button.props(f'flat round dense color=white aria-label="{name}"').tooltip(
            f"{name} ({keys})"
        )
        return button

    def _save(self) -> None:
        name = f"{self.state.network.name.lower().replace(' ', '-')}-schedule.json"
        ui.download.content(states.schedule_file(self.state), name, "application/json")

    def _save_profile(self) -> None:
        words = "".join(c if c.isalnum() else "-" for c in self.state.profile.name.lower())
        ui.download.content(states.profile_file(self.state), f"{words}.toml", "application/toml")


def _next_colours(dark: ui.dark_mode) -> None:
    """From the system's colours to dark, to light, and round again."""
    dark.value = {None: True, True: False, False: None}[dark.value]
