"""The right side of the page: what follows from the choices."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nicegui import ui

from falcon_snn.pipeline.timing import PARTS, PathStep, Timing
from falcon_snn.report.timeline import LEGEND, timeline_spec
from falcon_snn.studio.numbers import Latency, Outlook, Rate
from falcon_snn.studio.state import BELOW, StudioState

if TYPE_CHECKING:
    from falcon_snn.studio.comparison import Row
    from falcon_snn.studio.front import Evaluated
    from falcon_snn.studio.sample import Effect

PART_COLOURS = {
    "analog": "#3b76af", "neuron": "#e1812c", "attention": "#3a923a", "waiting": "#a79fbb",
}  # fmt: skip
_GRID = "rgba(128,128,128,0.25)"
_CONFIG = {"displaylogo": False, "displayModeBar": False}


class SummaryPanel:
    """Latency beside its rivals, throughput, accuracy and energy where they are measured, and
    what the critical path is made of.
    """

    def __init__(self, *, accuracy: bool, energy: bool) -> None:
        with ui.element("div").classes("cards"):
            self.core = _Card("core latency", "core")
            self.qnn = _Card("matched QNN", "qnn")
            self.full = _Card("full lookahead", "full")
            self.rate = _Card("a sample every", "interval")
            self.accuracy = _Card("accuracy", "measured", "%") if accuracy else None
            self.energy = _Card("energy of an inference", "energy", "mJ", 5) if energy else None
        with ui.card().classes("panel"):
            ui.label("Critical path").classes("panel-title")
            with ui.element("div").classes("parts").props('role="img"') as self.bar:
                self.parts = {part: ui.element("div").classes("part") for part in PARTS}
            with ui.row().classes("gap-x-5 gap-y-1"):
                self.legend = {part: _legend("", PART_COLOURS[part]) for part in PARTS}
            with ui.expansion("Every step of it").classes("w-full").props("dense"):
                self.steps = ui.table(
                    columns=[
                        _column("stage", "stage", "left"), _column("part", "part", "left"),
                        _column("start", "from µs"), _column("end", "to µs"),
                        _column("takes", "takes µs"),
                    ],
                    rows=[], row_key="start",
                ).props("dense flat hide-pagination").classes("w-full steps")  # fmt: skip
                self.steps.props(":rows-per-page-options=[0]")

    def show(self, now: Latency) -> None:
        core_us = now.core_us
        self.core.show(core_us, f"{now.snn.core_cycles:,} cycles")
        self.qnn.show(now.qnn.core_us, _against(now.qnn.core_us, core_us))
        self.full.show(now.full.core_us, _against(now.full.core_us, core_us))
        said = []
        for part, took_us in now.parts_us.items():
            share = took_us / core_us if core_us else 0.0
            self.parts[part].style(f"width: {share:.4%}; background: {PART_COLOURS[part]}")
            self.legend[part].set_text(f"{part} {took_us:.2f} µs ({share:.0%})")
            said.append(f"{part} {took_us:.2f} µs")
        self.bar.props(f'aria-label="{", ".join(said)}"')

    def show_steps(self, now: Latency) -> None:
        self.steps.rows = [_path_row(now.snn, step) for step in now.path]

    def show_accuracy(self, share: float | None, remark: str) -> None:
        if self.accuracy is not None:
            self.accuracy.show(None if share is None else 100 * share, remark)

    def show_energy(self, snn_mj: float | None, qnn_mj: float | None, remark: str = "") -> None:
        if self.energy is not None:
            if snn_mj is not None and qnn_mj is not None:
                remark = f"matched QNN {qnn_mj:.5f} mJ"
            self.energy.show(snn_mj, remark)

    def show_outlook(self, outlook: Outlook) -> None:
        self.rate.show(outlook.snn.interval_us, _rate_text(outlook.snn, outlook.qnn))


class Timeline:
    """Every stage over time, with another run below if wanted."""

    def __init__(self, choose: Callable[[str], None], state: StudioState) -> None:
        with ui.card().classes("panel"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label("Timeline").classes("panel-title")
                with ui.row().classes("items-center gap-2"):
                    ui.label("below it").classes("text-sm")
                    self.below = ui.toggle(
                        BELOW, value=state.below, on_change=lambda e: choose(e.value)
                    ).props("dense no-caps unelevated")
            with ui.row().classes("gap-x-5 gap-y-1"):
                for kind, colour in LEGEND.items():
                    _legend(kind, colour)
            self.plot = ui.plotly({"data": [], "layout": {}}).classes("w-full")
            self.plot.props('role="img" aria-label="Timeline of every stage"')

    def show(self, state: StudioState, now: Latency) -> None:
        self.below.value = state.below
        timings = {"SNN": now.snn}
        if state.below != "nothing":
            below = {"qnn": now.qnn, "full": now.full}[state.below]
            timings[BELOW[state.below].capitalize().replace("qnn", "QNN")] = below
        figure = timeline_spec(timings)
        rows = sum(len(axis["categoryarray"]) for axis in _y_axes(figure["layout"]))
        figure["layout"] |= {
            **_plain_layout(),
            "height": 68 + 17 * rows + 34 * (len(timings) - 1),
            "margin": {"l": 8, "r": 8, "t": 28, "b": 40},
            "showlegend": False,
        }
        figure["layout"]["xaxis"] |= {"gridcolor": _GRID, "zeroline": False}
        for axis in _y_axes(figure["layout"]):
            axis |= {"automargin": True, "gridcolor": _GRID, "showgrid": False}
        self.plot.update_figure({**figure, "config": _CONFIG})


class SamplePanel:
    """Accuracy on the clips, ideal and on a chip, and where spikes differ from delay 1."""

    def __init__(self, switched: Callable[[], None]) -> None:
        with ui.card().classes("panel"):
            ui.label("On a sample of clips").classes("panel-title")
            self.text = ui.label("…").props('role="status" data-result="accuracy"')
            self.chip = ui.switch("On a sampled chip of this hardware", on_change=switched)
            self.chip_text = ui.label("").props('role="status" data-result="chip"')
            with ui.element("div").classes("w-full") as self.changed:
                ui.label("Share of each stage's spike trains that differ from those under delay 1")
                self.plot = ui.plotly({"data": [], "layout": {}}).classes("w-full")
                self.plot.props('role="img" aria-label="Changed spikes per stage"')
        self.decline("…")

    def decline(self, why: str) -> None:
        """There is nothing to show; say why."""
        self.text.set_text(why)
        self.chip_text.set_text("")
        self.changed.set_visibility(False)

    def show(self, effect: "Effect", on_chip: int | None) -> None:
        """`on_chip`: how many clips are right on a chip, if that was asked for."""
        gain = effect.right - effect.right_fastest
        self.chip_text.set_text(
            ""
            if on_chip is None
            else f"{on_chip / effect.clips:.1%} right on chip number 0 "
            f"({on_chip} of {effect.clips}), with its converters, slices and errors"
        )
        self.changed.set_visibility(True)
        self.text.set_text(
            f"{effect.right / effect.clips:.1%} right ({effect.right} of {effect.clips} clips; "
            f"{gain:+d} against delay 1)"
        )
        bars = {
            "type": "bar", "x": list(effect.changed), "y": [*effect.changed.values()],
            "marker": {"color": "#845b97"}, "hovertemplate": "%{x}: %{y:.1%}<extra></extra>",
        }  # fmt: skip
        layout = _plain_layout() | {
            "height": 240,
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "yaxis": {"tickformat": ".0%", "rangemode": "tozero", "gridcolor": _GRID,
                      "automargin": True, "zeroline": False},
            "xaxis": {"tickangle": -90, "dtick": 1, "automargin": True},
        }  # fmt: skip
        self.plot.update_figure({"data": [bars], "layout": layout, "config": _CONFIG})


class FrontPanel:
    """Accuracy over latency of what a search evaluated; a point or a button loads its schedule."""

    def __init__(self, load: "Callable[[Evaluated], None]") -> None:
        self.load, self.known = load, dict[int, "Evaluated"]()
        with ui.card().classes("panel"):
            ui.label("Schedules of the search").classes("panel-title")
            self.text = ui.label("…").classes("remark").props('data-result="front"')
            with ui.element("div").classes("w-full") as self.body:
                self.plot = ui.plotly({"data": [], "layout": {}}).classes("w-full")
                self.plot.props('role="img" aria-label="Accuracy over latency"')
                self.plot.on(
                    "plotly_click",
                    lambda event: self._chosen(event.args),
                    js_handler="(event) => emit(event.points[0].customdata)",
                )
                ui.label("On the front, by latency:").classes("remark")
                self.buttons = ui.row().classes("gap-2")
        self.decline("…")

    def decline(self, why: str) -> None:
        """There is nothing to show; say why."""
        self.text.set_text(why)
        self.body.set_visibility(False)

    def show(self, state: StudioState, found: "list[Evaluated]", clips: int) -> None:
        self.known = {one.number: one for one in found}
        front = sorted((o for o in found if o.on_front), key=lambda o: (o.latency_us, o.number))
        self.text.set_text(
            f"{len(found)} schedules, each on {clips:,} clips, timed on '{state.profile.name}' as "
            "it is set now. A click on a point loads its schedule."
        )
        here = [one for one in found if one.delays == state.delays][:1]
        data = [
            _points("evaluated", [o for o in found if not o.on_front], "markers", "#8b97a3", 6),
            _points("front", front, "lines+markers", "#3b76af", 9),
            _points("this schedule", here, "markers", "#e1812c", 14),
        ]
        layout = _plain_layout() | {
            "height": 300,
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "hovermode": "closest",
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "xaxis": {"title": {"text": "core latency (µs)"}, "gridcolor": _GRID,
                      "automargin": True, "zeroline": False},
            "yaxis": {"title": {"text": "accuracy (%)"}, "gridcolor": _GRID, "automargin": True,
                      "zeroline": False},
        }  # fmt: skip
        self.body.set_visibility(True)
        self.plot.update_figure({"data": data, "layout": layout, "config": _CONFIG})
        self.buttons.clear()
        with self.buttons:
            for one in unique_places(front):
                self._button(one)

    def _button(self, one: "Evaluated") -> None:
        named = f"{', '.join(one.names)}: " if one.names else ""
        text = f"{named}{one.latency_us:.2f} µs, {one.accuracy:.2%}"
        ui.button(text, on_click=lambda: self.load(one)).props(
            'outline dense no-caps padding="2px 8px" size=sm'
        ).tooltip(f"95 % interval {one.interval[0]:.2%} to {one.interval[1]:.2%}")

    def _chosen(self, number: object) -> None:
        if isinstance(number, int) and number in self.known:
            self.load(self.known[number])


def unique_places(front: "list[Evaluated]") -> "list[Evaluated]":
    """One schedule for each latency and accuracy; what the search chose goes first."""
    places: dict[tuple[float, float], Evaluated] = {}
    for one in front:
        place = (one.latency_us, one.accuracy)
        if place not in places or (one.names and not places[place].names):
            places[place] = one
    return [*places.values()]


class ComparisonPanel:
    """A pinned state beside the present one."""

    def __init__(self, pin: Callable[[], None], back: Callable[[], None],
                 unpin: Callable[[], None]) -> None:  # fmt: skip
        with ui.card().classes("panel"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label("Side by side").classes("panel-title")
                with ui.row().classes("gap-2"):
                    plain = 'outline dense no-caps padding="4px 10px"'
                    ui.button("pin this state", icon="push_pin", on_click=pin).props(plain)
                    self.back = ui.button("swap", icon="swap_horiz", on_click=back).props(plain)
                    self.unpin = ui.button("unpin", icon="close", on_click=unpin).props(plain)
            self.text = ui.label(
                "Pin a state, change something, and see the difference here."
            ).classes("remark")
            self.table = ui.table(
                columns=[
                    _column("what", "", "left"), _column("pinned", "pinned"),
                    _column("present", "now"), _column("change", "change"),
                ],
                rows=[], row_key="what",
            ).props("dense flat hide-pagination wrap-cells").classes("w-full")  # fmt: skip
            self.table.props(":rows-per-page-options=[0] data-result=comparison")
        self.show(None)

    def show(self, rows: "list[Row] | None") -> None:
        """None: nothing is pinned."""
        for element in (self.back, self.unpin, self.table):
            element.set_visibility(rows is not None)
        self.text.set_visibility(rows is None)
        self.table.rows = [] if rows is None else [row._asdict() for row in rows]


def _points(
    name: str, found: "list[Evaluated]", mode: str, colour: str, size: int
) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": mode, "name": name,
        "x": [one.latency_us for one in found], "y": [100 * one.accuracy for one in found],
        "customdata": [one.number for one in found],
        "line": {"shape": "hv", "width": 1.5, "color": colour},
        "marker": {"color": colour, "size": size, "opacity": 0.55 if size < 9 else 1},
        "text": [_waits(one) for one in found],
        "hovertemplate": "%{y:.2f} %, %{x:.2f} µs<br>%{text}<extra></extra>",
    }  # fmt: skip


def _waits(one: "Evaluated") -> str:
    waits = [f"{name} δ={delay}" for name, delay in one.delays.items() if delay > 1]
    more = f" and {len(waits) - 6} more" if len(waits) > 6 else ""
    return (", ".join(waits[:6]) or "delay 1 everywhere") + more


class _Card:
    """A figure with its unit, its name above and a remark below."""

    def __init__(self, name: str, key: str, unit: str = "µs", digits: int = 2) -> None:
        self.digits = digits
        with ui.card().classes(f"panel card card-{key}"):
            ui.label(name).classes("card-name")
            with ui.row().classes("items-baseline gap-1 no-wrap"):
                self.value = ui.label("…").classes("card-value").props(f'data-result="{key}"')
                ui.label(unit)
            self.remark = ui.label().classes("card-remark").props(f'data-remark="{key}"')

    def show(self, value: float | None, remark: str) -> None:
        self.value.set_text("–" if value is None else f"{value:.{self.digits}f}")
        self.remark.set_text(remark)


def _against(rival_us: float, core_us: float) -> str:
    """How the network compares with a rival."""
    if rival_us == core_us or not core_us:
        return "the same"
    return f"takes {rival_us / core_us:.2f}× as long"


def _rate_text(snn: Rate, qnn: Rate) -> str:
    limit = snn.limited_by.removesuffix(".array")
    return f"{snn.samples_per_s:,.0f}/s, limited by {limit}; QNN {qnn.interval_us:.2f} µs"


def _legend(text: str, colour: str) -> ui.label:
    with ui.row().classes("items-center gap-2 no-wrap"):
        ui.element("div").classes("swatch").style(f"background: {colour}")
        return ui.label(text).classes("text-sm")


def _column(name: str, label: str, align: str = "right") -> dict[str, str]:
    return {"name": name, "field": name, "label": label, "align": align}


def _path_row(timing: Timing, step: PathStep) -> dict[str, str]:
    times = {"start": step.start, "end": step.end, "takes": step.end - step.start}
    shown = {name: f"{timing.us(cycles):.2f}" for name, cycles in times.items()}
    return {"stage": step.stage, "part": step.part, **shown}


def _plain_layout() -> dict[str, Any]:
    """No colours of its own, so that light and dark pages can set them."""
    clear = "rgba(0,0,0,0)"
    return {"paper_bgcolor": clear, "plot_bgcolor": clear, "font": {"size": 11}, "dragmode": False}


def _y_axes(layout: dict[str, Any]) -> list[dict[str, Any]]:
    return [axis for name, axis in layout.items() if name.startswith("yaxis")]
