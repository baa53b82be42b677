"""The studio in the browser: one page, whose address holds its state."""

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import Request
from nicegui import app, background_tasks, ui

from falcon_snn.errors import FalconError
from falcon_snn.studio import numbers
from falcon_snn.studio import state as states
from falcon_snn.studio.controls import Change, DelayControls, HardwareControls, NetworkControls
from falcon_snn.studio.results import SamplePanel, Summary, Timeline
from falcon_snn.studio.state import StudioState

if TYPE_CHECKING:
    from falcon_snn.studio.sample import Sample

STYLE = Path(__file__).with_name("studio.css")
FIGURES_FIRST_S = 0.02  # the browser shows the figures, then draws the timeline
SETTLE_S = 0.15  # what is slow starts when nothing has changed for so long


def serve(
    host: str, port: int, browser: bool, start: StudioState, sample: "Sample | None" = None
) -> None:
    """Serve the page until the process is ended."""
    sample_free = asyncio.Lock()  # one run of the network at a time

    @ui.page("/", title="Falcon studio")
    def page(request: Request) -> None:
        Page(dict(request.query_params), start, sample, sample_free)

    app.on_startup(lambda: print(f"Falcon studio: http://{host}:{port} (Ctrl-C ends it)"))
    ui.run(
        host=host, port=port, show=browser, reload=False, dark=None, favicon="🦅", language="en-GB",
        show_welcome_message=False,
    )  # fmt: skip


class Page:
    """What one visitor sees: a state, and the elements that show it."""

    def __init__(
        self,
        query: dict[str, str],
        start: StudioState,
        sample: "Sample | None",
        sample_free: asyncio.Lock,
    ) -> None:
        self.sample, self.sample_free = sample, sample_free
        self.client = ui.context.client
        try:
            self.state, refused = states.from_query(query, start), None
        except FalconError as error:
            self.state, refused = start, error
        ui.add_css(STYLE)
        ui.colors(primary="#2f6ba3")
        self._build()
        self._show(renew_address=bool(query) and refused is None)
        if refused is not None:
            self._refuse(refused)

    def _build(self) -> None:
        dark = ui.dark_mode(None)
        with ui.header().classes("bar items-center justify-between no-wrap"):
            with ui.row().classes("items-baseline gap-3 no-wrap"):
                ui.label("Falcon studio").classes("title")
                self.network = ui.label().classes("network")
            with ui.row().classes("items-center gap-1 no-wrap"):
                self.core = ui.label().classes("core").props('role="status" aria-live="polite"')
                ui.button(icon="contrast", on_click=lambda: _next_colours(dark)).props(
                    'flat round dense color=white aria-label="Light, dark or as the system"'
                )
        with ui.row().classes("refusal items-center no-wrap").props('role="alert"') as self.refusal:
            ui.icon("error")
            self.refusal_text = ui.label()
        self.refusal.set_visibility(False)
        with ui.element("main").classes("layout"):
            with ui.element("div").classes("summary"):
                self.summary = Summary()
            with ui.element("div").classes("controls"):
                self.networks = NetworkControls(self.apply, self.state)
                self.delays = DelayControls(self.apply, self._save)
                self.hardware = HardwareControls(self.apply, self.state, self._refuse)
            with ui.element("div").classes("charts"):
                self.timeline = Timeline(self._choose_below, self.state)
                self.clips = SamplePanel() if self.sample is not None else None

    def apply(self, change: Change) -> bool:
        """Take a change, or say why not; a refused one leaves everything as it was."""
        try:
            changed = change(self.state)
        except FalconError as error:
            self._refuse(error)
            return False
        self.refusal.set_visibility(False)
        if changed != self.state:
            self.state = changed
            self._show()
        return True

    def _show(self, renew_address: bool = True) -> None:
        now = numbers.latency(self.state)
        self.network.set_text(f"{self.state.network.name}, T = {self.state.slots}")
        self.core.set_text(f"{now.core_us:.2f} µs")
        self.summary.show(now)
        self.delays.show(self.state, now)
        self.networks.show(self.state)
        self.hardware.show(self.state)
        if renew_address:
            ui.navigate.history.replace(f"/?{states.to_query(self.state)}")
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
        if self.sample is None or self.clips is None:
            return
        if not self.sample.fits(state):
            own = self.sample.own
            self.clips.decline(
                f"The checkpoint is {own.network.name} with T = {own.slots}; choose own and this "
                f"T to see more."
            )
            return
        async with self.sample_free:
            if state is not self.state:
                return
            try:
                effect = await asyncio.to_thread(self.sample.effect, state)
            except FalconError as error:
                self.clips.decline(str(error))
                return
        if state is self.state:
            self.clips.show(effect)

    def _choose_below(self, below: str) -> None:
        self.apply(partial(states.with_below, below=below))

    def _refuse(self, error: FalconError) -> None:
        self.refusal_text.set_text(f"Not taken: {error}")
        self.refusal.set_visibility(True)

    def _save(self) -> None:
        name = f"{self.state.network.name.lower().replace(' ', '-')}-schedule.json"
        ui.download.content(states.schedule_file(self.state), name, "application/json")


def _next_colours(dark: ui.dark_mode) -> None:
    """From as the system is, to dark, to light, and round again."""
    dark.value = {None: True, True: False, False: None}[dark.value]
