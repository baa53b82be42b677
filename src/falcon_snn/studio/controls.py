"""The left side of the page: everything a person may change."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import groupby

from nicegui import events, ui

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import (
    KEYS,
    SECTIONS,
    load_profile,
    parse_profile,
    shipped_profiles,
)
from falcon_snn.network.falcon import DATASETS
from falcon_snn.studio import state as states
from falcon_snn.studio.field import Apply, Field
from falcon_snn.studio.numbers import Latency, Outlook
from falcon_snn.studio.state import StudioState
from falcon_snn.workflow.networks import BUILT_IN

Refuse = Callable[[FalconError], None]

MAX_FILE_BYTES = 1_000_000
SCHEDULES = {
    "fastest": "Delay 1 everywhere",
    "balanced": "Published: accuracy against latency",
    "accurate": "Published: most accurate within the QNN's latency",
    "full": "Full lookahead: every boundary waits for all slots",
}


class Dial:
    """A named field with a slider, drawn anew where its range changes."""

    def __init__(
        self, name: str, apply: Apply, make: Callable[[StudioState, str], StudioState]
    ) -> None:
        self.name, self.apply, self.make, self.highest = name, apply, make, 0
        self.row = ui.element("div").classes("dial")

    def show(self, value: int, highest: int) -> None:
        if self.highest != highest:
            self.highest = highest
            self.row.clear()
            with self.row:
                ui.label(self.name)
                self.field = Field(self.name, self.apply, self.make, value, highest)
        self.field.show(value)


def drop_zone(
    label: str, what: str, take: Callable[[str, str], object], refuse: Refuse
) -> ui.upload:
    """A place to drop a text file, or to choose one; `take` gets its text and its name."""

    async def uploaded(event: events.UploadEventArguments) -> None:
        event.sender.run_method("reset")
        name, data = event.file.name, await event.file.read()
        try:
            take(data.decode("utf-8"), name)
        except UnicodeDecodeError:
            refuse(FalconError(f"{name}: not a text file; drop {what}"))
        except FalconError as error:
            refuse(error)

    handler: Callable[[events.UploadEventArguments], Awaitable[None]] = uploaded
    return (
        ui.upload(
            label=label, auto_upload=True, max_file_size=MAX_FILE_BYTES, on_upload=handler,
            on_rejected=lambda _: refuse(FalconError(f"that file is over 1 MB; drop {what}")),
        ).props("flat bordered").classes("drop")
    )  # fmt: skip


class NetworkControls:
    """A built-in network or the checkpoint's own, its data set, T and the Q/K prefix."""

    def __init__(self, apply: Apply, state: StudioState) -> None:
        with ui.card().classes("panel"):
            ui.label("Network").classes("panel-title")
            with ui.element("div").classes("pair"):
                self.name = ui.select(
                    _names(state), label="network", value=state.name,
                    on_change=lambda e: apply(
                        lambda s: states.with_network(s, e.value, s.dataset)
                    ),
                )  # fmt: skip
                self.dataset = ui.select(
                    list(DATASETS), label="data set", value=state.dataset,
                    on_change=lambda e: apply(lambda s: states.with_network(s, s.name, e.value)),
                )  # fmt: skip
            for select in (self.name, self.dataset):
                select.props("dense outlined")
            self.slots = Dial("spike slots T", apply, states.with_slots)
            self.prefix = Dial("Q/K prefix", apply, states.with_prefix)

    def show(self, state: StudioState) -> None:
        self.name.value, self.dataset.value = state.name, state.dataset
        self.dataset.set_visibility(state.name != states.OWN)
        self.prefix.row.set_visibility(state.has_prefix)
        self.slots.show(state.slots, state.highest_slots)
        self.prefix.show(state.prefix, state.slots)


def _names(state: StudioState) -> dict[str, str]:
    """The networks to choose from, each with what the page calls it."""
    names = {name: name for name in BUILT_IN}
    return names if state.own is None else names | {states.OWN: f"own: {state.own.name}"}


class HardwareControls:
    """A shipped profile or a dropped file, the values that are changed most, and all others."""

    def __init__(
        self, apply: Apply, state: StudioState, refuse: Refuse, save: Callable[[], None]
    ) -> None:
        self.apply, self.state, self.shipped = apply, state, [*shipped_profiles()]
        self.values: dict[str, Field | ui.select] = {}
        with ui.card().classes("panel"):
            ui.label("Hardware").classes("panel-title")
            self.profile = (
                ui.select(
                    self.shipped,
                    label="profile",
                    on_change=lambda e: self._chosen(e.value),
                )
                .props("dense outlined")
                .classes("w-full")
            )
            drop_zone(
                "Drop a profile here (TOML)", "a hardware profile in TOML", self._dropped, refuse
            ).props('data-drop="profile"')
            with ui.element("div").classes("setting"):
                ui.label("t_cycle (ns)")
                self.t_cycle = Field(
                    "t_cycle in ns", apply, states.with_t_cycle, state.profile.t_cycle_ns
                )
            with ui.element("div").classes("setting"):
                ui.label("active rows")
                self.active_rows = Field(
                    "active rows", apply,
                    lambda s, typed: states.with_hardware(s, "active_rows", typed),
                    state.profile.active_rows,
                )  # fmt: skip
            with ui.element("div").classes("setting"):
                ui.label("attention")
                self.attention = ui.toggle(
                    list(KEYS["attention"].choices or ()),
                    value=state.profile.attention,
                    on_change=lambda e: apply(
                        lambda s: states.with_hardware(s, "attention", e.value)
                    ),
                ).props("dense no-caps unelevated")
            with (
                ui.expansion("Every value", on_value_change=lambda e: self._opened(e.value))
                .classes("w-full")
                .props("dense") as self.every
            ):
                ui.label("…").classes("remark")
            ui.button("save the profile", icon="download", on_click=save).props(
                'outline dense no-caps padding="4px 10px"'
            ).tooltip("Save as a file for falcon-snn --hardware FILE")

    def _opened(self, opened: bool) -> None:
        """Build the fields when they are first wanted: the page opens sooner without them."""
        if not opened or self.values:
            return
        self.every.clear()
        with self.every:
            for section in SECTIONS:
                ui.label(section).classes("group section")
                if section == "energy":
                    ui.label(
                        "Energy is shown where the studio has a checkpoint and clips. The shares "
                        "(…_percent) add up to 100: change one, and the others keep their ratios."
                    ).classes("remark")
                for key in KEYS.values():
                    if key.section == section:
                        self._draw_value(key.name)
        self._show_values()

    def _draw_value(self, name: str) -> None:
        key = KEYS[name]
        with ui.element("div").classes("value"):
            with ui.element("div"):
                ui.label(name)
                ui.label(key.meaning).classes("remark")
            if key.choices is None:
                self.values[name] = Field(
                    name, self.apply, lambda s, typed: states.with_hardware(s, name, typed),
                    getattr(self.state.profile, name),
                )  # fmt: skip
            else:
                self.values[name] = ui.select(
                    list(key.choices), value=getattr(self.state.profile, name),
                    on_change=lambda e: self.apply(
                        lambda s: states.with_hardware(s, name, e.value)
                    ),
                ).props(f'dense outlined aria-label="{name}"')  # fmt: skip

    def _show_values(self) -> None:
        for name, shown in self.values.items():
            value = getattr(self.state.profile, name)
            if isinstance(shown, Field):
                shown.show(value)
            else:
                shown.value = value

    def show(self, state: StudioState) -> None:
        self.state = state
        self._show_values()
        name = state.profile.name
        if name != self.profile.value:
            self.profile.set_options([*dict.fromkeys((*self.shipped, name))], value=name)
        self.t_cycle.show(state.profile.t_cycle_ns)
        self.active_rows.show(state.profile.active_rows)
        self.attention.value = state.profile.attention

    def _chosen(self, name: str) -> None:
        if name in self.shipped:
            self.apply(
                lambda s: s if s.profile.name == name else replace(s, profile=load_profile(name))
            )

    def _dropped(self, text: str, name: str) -> None:
        profile = parse_profile(text, name)
        self.apply(lambda s: replace(s, profile=profile))


class DelayControls:
    """The schedules by name, and a delay for every boundary with what it costs."""

    def __init__(self, apply: Apply, save: Callable[[], None], refuse: Refuse) -> None:
        self.apply = apply
        self.rows: dict[str, tuple[Field, ui.label, ui.label, ui.label]] = {}
        self.drawn: tuple[tuple[str, ...], int] | None = None
        with ui.card().classes("panel"):
            ui.label("Firing delays").classes("panel-title")
            with ui.row().classes("gap-2"):
                for name, meaning in SCHEDULES.items():
                    self._button(name, meaning)
                ui.button("save", icon="download", on_click=save).props(
                    'dense no-caps unelevated padding="4px 10px" aria-label="Save the schedule"'
                ).tooltip("Save as a file for falcon-snn --schedule FILE")
            drop_zone(
                "Drop a schedule here (JSON)", "a schedule in JSON",
                lambda text, name: apply(lambda s: states.with_schedule_file(s, text, name)),
                refuse,
            ).props('data-drop="schedule"')  # fmt: skip
            ui.label(
                "Slack: how much later its spikes may come without moving the end. "
                "+1 adds: what one more slot of delay would cost. Both in µs."
            ).classes("remark")
            self.list = ui.element("div").classes("w-full")

    def _button(self, name: str, meaning: str) -> None:
        ui.button(name, on_click=lambda: self.apply(lambda s: states.with_schedule(s, name))).props(
            'outline dense no-caps padding="4px 10px"'
        ).tooltip(meaning)

    def show(self, state: StudioState, now: Latency) -> None:
        wanted = (tuple(state.delays), state.slots)
        if self.drawn != wanted:
            self.drawn = wanted
            self._draw(state)
        for boundary, (field, name, slack, _) in self.rows.items():
            field.show(state.delays[boundary])
            name.classes(add="waits" if state.delays[boundary] > 1 else "", remove="waits")
            slack_us = now.slack_us[boundary]
            slack.set_text(f"{slack_us:.2f}")
            slack.classes(add="" if slack_us else "critical", remove="critical")

    def show_outlook(self, outlook: Outlook) -> None:
        for boundary, (_, _, _, cost) in self.rows.items():
            added = outlook.next_delay_us.get(boundary)
            cost.set_text("–" if added is None else f"{added:+.2f}")

    def _draw(self, state: StudioState) -> None:
        self.list.clear()
        self.rows = {}
        with self.list:
            blocks = {_group(name) for name in state.delays}  # block0 ends what block0.first begins
            for group, names in groupby(
                state.delays, key=lambda name: name if name in blocks else _group(name)
            ):
                with ui.element("section").props(f'aria-label="{group}"'):
                    with ui.element("div").classes("delay head"):
                        ui.label(group).classes("group")
                        ui.label("delay")
                        ui.label("slack").classes("figure")
                        ui.label("+1 adds").classes("figure")
                    for boundary in names:
                        self._draw_row(boundary, state)

    def _draw_row(self, boundary: str, state: StudioState) -> None:
        with ui.element("div").classes("delay"):
            name = ui.label(boundary.removeprefix(f"{_group(boundary)}."))
            field = Field(
                f"delay of {boundary}", self.apply,
                lambda s, typed: states.with_delay(s, boundary, typed),
                state.delays[boundary], state.slots,
            )  # fmt: skip
            slack = ui.label().classes("figure").props(f'data-slack="{boundary}"')
            cost = ui.label("…").classes("figure").props(f'data-next="{boundary}"')
        self.rows[boundary] = (field, name, slack, cost)


def _group(boundary: str) -> str:
    """The heading that a boundary comes under: the text before its first dot."""
    group, dot, _ = boundary.partition(".")
    return group if dot else "boundary"
