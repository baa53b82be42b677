"""The one error that users see: a single line that says what is wrong, where, and what to do."""


class FalconError(Exception):
    """Bad input. The command line prints the message without a traceback and exits with 1."""
