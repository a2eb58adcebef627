"""Bytes, counts and times in words."""


def format_bytes(n: float) -> str:
    """Bytes in words.

    >>> format_bytes(900), format_bytes(12_345_678), format_bytes(2.5e9)
    ('900 bytes', '12 MB', '2.5 GB')
    """
    return format_scaled(n, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")), f"{n:,.0f} bytes")


def format_count(n: float) -> str:
    """A large number in words.

    >>> format_count(61_300_000), format_count(850)
    ('61 M', '850')
    """
    return format_scaled(n, ((1e9, "G"), (1e6, "M"), (1e3, "k")), f"{n:,.0f}")


def format_seconds(seconds: float) -> str:
    """A length of time in words.

    >>> format_seconds(0.25), format_seconds(100), format_seconds(7200), format_seconds(9 * 86400)
    ('0.25 s', '1.7 min', '2.0 h', '9.0 days')
    """
    return format_scaled(seconds, ((86400, "days"), (3600, "h"), (60, "min")), f"{seconds:.2g} s")


def format_scaled(n: float, units: tuple[tuple[float, str], ...], small: str) -> str:
    """In the largest unit of which there is a whole one."""
    for size, unit in units:
        if n >= size:
            return f"{n / size:,.1f} {unit}" if n < 10 * size else f"{n / size:,.0f} {unit}"
    return small
