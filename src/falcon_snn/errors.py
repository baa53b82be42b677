"""What users see instead of a traceback: a single line that says what is wrong and what to do."""

LONGEST = 600  # characters of a message; a damaged file can hold a value of any length


class FalconError(Exception):
    """Bad input. The command line prints the message without a traceback and exits with 1."""

    def __init__(self, message: str) -> None:
        line = " ".join(part.strip() for part in message.splitlines())
        if len(line) > LONGEST:  # the beginning says what, the end what to do
            line = f"{line[: LONGEST - 205]} ... {line[-200:]}"
        super().__init__(line)


class Stopped(KeyboardInterrupt):
    """Ctrl-C in a job that can be continued: where it stopped, and how to go on."""

    def __init__(self, where: str, go_on: str = "continue with --resume") -> None:
        super().__init__(f"{where}; {go_on}")
        self.where = where
