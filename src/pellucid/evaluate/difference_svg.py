"""Inline SVG of differences: right of the middle B is better, left of it A."""

from collections.abc import Iterable

from pellucid.evaluate.bootstrap import PairedScore

WIDTH, HEIGHT = 220, 26


def axis_reach(values: Iterable[float]) -> float:
    """Return the value at the edge of a picture: a little more than the largest of the values."""
    # 1.0 where all values are 0, for positions are divided by it.
    return 1.06 * max(map(abs, values), default=0.0) or 1.0


def whisker_svg(score: PairedScore, edge: float) -> str:
    """Draw a difference as a dot, with its 95 % confidence interval as a line through it."""
    direction = -1 if score.lower_is_better else 1  # a lower TER is better, so it goes to the right
    low, high = sorted(direction * end for end in (score.difference.low, score.difference.high))
    middle = HEIGHT / 2
    ends = "".join(
        f'<line x1="{axis_position(end, edge):.1f}" x2="{axis_position(end, edge):.1f}" '
        f'y1="{middle - 4}" y2="{middle + 4}"/>'
        for end in (low, high)
    )
    return frame_svg(
        score.better,
        f'<line x1="{axis_position(low, edge):.1f}" x2="{axis_position(high, edge):.1f}" '
        f'y1="{middle}" y2="{middle}"/>{ends}'
        f'<circle cx="{axis_position(direction * score.difference.score, edge):.1f}" cy="{middle}" r="5"/>',
    )


def bar_svg(difference: float, edge: float) -> str:
    """Draw a difference as a bar from the middle."""
    start, end = sorted((axis_position(0, edge), axis_position(difference, edge)))
    better = "B" if difference > 0 else "A"
    return frame_svg(better, f'<rect x="{start:.1f}" y="7" width="{end - start:.1f}" height="{HEIGHT - 14}" rx="2"/>')


def axis_position(value: float, edge: float) -> float:
    """Return the x coordinate of a value."""
    return WIDTH / 2 * (1 + value / edge)


def frame_svg(better: str | None, content: str) -> str:
    """Return an SVG of this content with its middle line."""
    # Hidden from screen readers: its numbers are in the cells beside it.
    return (
        f'<svg class="{"even" if better is None else better.lower()}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" aria-hidden="true"><line class="zero" x1="{WIDTH / 2}" x2="{WIDTH / 2}" y1="0" '
        f'y2="{HEIGHT}"/>{content}</svg>'
    )
