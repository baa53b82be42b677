"""A watch that keeps what is said."""

from falcon_snn.workflow.watch import Watch


class Heard(Watch):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def notice(self, text: str) -> None:
        self.said.append(text)
