"""Undo and redo: the states that a person has been through."""

from dataclasses import dataclass
from urllib.parse import parse_qsl

from falcon_snn.studio.state import StudioState, to_query

MAX_STEPS = 200
SAME_MOVE_S = 1.0  # a slider on its way, a number being typed: one step for undo


@dataclass(frozen=True)
class History:
    """The present state, what came before it, and what was undone."""

    present: StudioState
    past: tuple[StudioState, ...] = ()
    future: tuple[StudioState, ...] = ()
    moved: str | None = None  # the one value that the last change moved
    moved_at_s: float = 0.0

    def changed(self, state: StudioState, at_s: float) -> "History":
        """A new present; what was undone is gone. Moving the same value on is not a new step."""
        differing = differing_words(self.present, state)
        moved = differing.pop() if len(differing) == 1 else None
        on = moved is not None and moved == self.moved and at_s - self.moved_at_s < SAME_MOVE_S
        past = self.past if on else (*self.past, self.present)[-MAX_STEPS:]
        return History(state, past, (), moved, at_s)

    def undone(self) -> "History":
        if not self.past:
            return self
        return History(self.past[-1], self.past[:-1], (self.present, *self.future))

    def redone(self) -> "History":
        if not self.future:
            return self
        return History(self.future[0], (*self.past, self.present), self.future[1:])


def differing_words(one: StudioState, other: StudioState) -> set[str]:
    """The words of the address in which two states differ."""
    left, right = (
        dict(parse_qsl(to_query(state), keep_blank_values=True)) for state in (one, other)
    )
    return {word for word in left | right if left.get(word) != right.get(word)}
