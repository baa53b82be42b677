"""What users see instead of a traceback: a single line that says what is wrong and what to do."""


class FalconError(Exception):
    """Bad input. The command line prints the message without a traceback and exits with 1."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C in a job that can be continued: where it stopped, and how it goes on."""

    def __init__(self, where: str, go_on: str = "go on with --resume") -> None:
        super().__init__(f"{where}; {go_on}")
        self.where = where
