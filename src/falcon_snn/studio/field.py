"""Numbers of the page that a person changes."""

from collections.abc import Callable

from nicegui import events
from nicegui.element import Element

from falcon_snn.studio.state import StudioState

Change = Callable[[StudioState], StudioState]
Apply = Callable[[Change], bool]  # gives False, with a message on the page, for bad input


class Field(Element, component="field.js"):
    """A number to type, with a slider beside it where the range is small.

    NiceGUI's own input and slider take a value whenever it comes: one that was on its way while a
    person typed another undid that. This one takes what followed all that was typed.
    """

    def __init__(self, name: str, apply: Apply, make: Callable[[StudioState, str], StudioState],
                 value: float | None, highest: int | None = None) -> None:  # fmt: skip
        super().__init__()
        self.apply, self.make = apply, make
        self._props.update({"for": self.html_id, "name": name, "seen": 0})
        if highest is not None:
            self._props["highest"] = highest
        self.show(value)
        self.on("change", self._changed)

    def show(self, value: float | None) -> None:
        """Show the value of the state; what was typed and refused is cleared."""
        self.shown = "" if value is None else f"{value:.8g}"
        self._tell(self.shown, refused=False)

    def _tell(self, text: str, *, refused: bool) -> None:
        told = {"value": text, "error": refused}  # an error is red; the page says why
        if any(self._props.get(name) != value for name, value in told.items()):
            self._props.update(told)

    def _changed(self, event: events.GenericEventArguments) -> None:
        text = str(event.args)
        with self._props.suspend_updates():
            typed = text.strip()
            accepted = typed == self.shown or self.apply(lambda state: self.make(state, typed))
            self._tell(text, refused=not accepted)
            self._props["seen"] += 1
        self.update()
