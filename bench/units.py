"""Format the seconds that a piece of work takes, in the unit that suits it."""


def per_second(seconds: float) -> str:
    """Show how many in a second."""
    return f"{1 / seconds:,.0f}/s"


def micro(seconds: float) -> str:
    """Show microseconds."""
    return f"{seconds * 1e6:,.0f} µs"


def fine_micro(seconds: float) -> str:
    """Show microseconds of what takes few of them."""
    return f"{seconds * 1e6:.2f} µs"


def milli(seconds: float) -> str:
    """Show milliseconds."""
    return f"{seconds * 1e3:.2f} ms"


def plain(seconds: float) -> str:
    """Show seconds."""
    return f"{seconds:.2f} s"


def of_a_core(share: float) -> str:
    """Show seconds of work in a second as a share."""
    return f"{share:.1%} of a core"


def megabytes(seconds_of_a_byte: float) -> str:
    """Show megabytes in a second."""
    return f"{1 / seconds_of_a_byte / 1e6:,.0f} MB/s"


def short(seconds: float) -> str:
    """Show an amount of time in the unit that suits it."""
    if seconds < 0.001:
        return micro(seconds)
    return milli(seconds) if seconds < 1 else plain(seconds)


def times(ratio: float) -> str:
    """Show a ratio with three digits that mean something."""
    digits = 0 if ratio >= 100 else 1 if ratio >= 10 else 2
    return f"{ratio:,.{digits}f}"
