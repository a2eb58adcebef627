"""Bytes, counts and times as text with units."""


def format_bytes(n: float) -> str:
    """Return a number of bytes as text.

    >>> format_bytes(900), format_bytes(12_345_678), format_bytes(2.5e9)
    ('900 bytes', '12 MB', '2.5 GB')
    """
    return format_scaled(n, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")), f"{n:,.0f} bytes")


def format_count(n: float) -> str:
    """Return a large number as text.

    >>> format_count(61_300_000), format_count(850)
    ('61 M', '850')
    """
    return format_scaled(n, ((1e9, "G"), (1e6, "M"), (1e3, "k")), f"{n:,.0f}")


def format_seconds(seconds: float) -> str:
    """Return a length of time as text.

    >>> format_seconds(0.25), format_seconds(100), format_seconds(7200), format_seconds(9 * 86400)
    ('0.25 s', '1.7 min', '2.0 h', '9.0 days')
    """
    return format_scaled(seconds, ((86400, "days"), (3600, "h"), (60, "min")), f"{seconds:.2g} s")


def format_scaled(n: float, units: tuple[tuple[float, str], ...], small: str) -> str:
    """Return `n` in the largest unit of which it has at least one; `small` if it has none."""
    for size, unit in units:
        if n >= size:
            # One decimal below ten, none above: two digits at least, and no false precision.
            return f"{n / size:,.1f} {unit}" if n < 10 * size else f"{n / size:,.0f} {unit}"
    return small
