"""`falcon-snn theory`: Theorem 1 and Proposition 1, drawn and tabulated."""


def theory() -> None:
    """Show when waiting longer keeps the counts and still loses accuracy."""
