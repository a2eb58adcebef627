"""Bytes, counts and times in words."""


def as_bytes(n: float) -> str:
    """Bytes in words.

    >>> as_bytes(900), as_bytes(12_345_678), as_bytes(2.5e9)
    ('900 bytes', '12 MB', '2.5 GB')
    """
    return scaled(n, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")), f"{n:,.0f} bytes")


def as_count(n: float) -> str:
    """A large number in words.

    >>> as_count(61_300_000), as_count(850)
    ('61 M', '850')
    """
    return scaled(n, ((1e9, "G"), (1e6, "M"), (1e3, "k")), f"{n:,.0f}")


def as_time(seconds: float) -> str:
    """A length of time in words.

    >>> as_time(0.25), as_time(100), as_time(7200), as_time(9 * 86400)
    ('0.25 s', '1.7 min', '2.0 h', '9.0 days')
    """
    return scaled(seconds, ((86400, "days"), (3600, "h"), (60, "min")), f"{seconds:.2g} s")


def scaled(n: float, units: tuple[tuple[float, str], ...], small: str) -> str:
    """In the largest unit of which there is a whole one."""
    for size, unit in units:
        if n >= size:
            return f"{n / size:,.1f} {unit}" if n < 10 * size else f"{n / size:,.0f} {unit}"
    return small
