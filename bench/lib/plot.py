"""Points in a plane as SVG, without a library: fronts, where every point is a configuration and has a name, and curves."""

import html
import math

_WIDTH, _HEIGHT = 860, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 230, 50, 60

# Told apart with any colour vision, and by their shape as well.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b5489a", "#a67c00", "#3fa3dc", "#7a3e1d", "#6a51a3")


def front(points):
    """The points that no other one is as good as in both ways: more to the right and further down. By x."""
    best = []
    for point in sorted(points, key=lambda point: (-point[0], point[1])):
        if not best or point[1] < best[-1][1]:
            best.append(point)
    return best[::-1]


def scatter(title, x_name, y_name, series, y_ticks):
    """A drawing of `series` (name -> [(x, y, name)]). x goes from 0 to 1.1 at least; y is a logarithm from the first of
    `y_ticks` (value, name) to the last. Each series' front is a line. Names appear under the pointer.
    """
    xs = [x for points in series.values() for x, _, _ in points]
    x_end = max([1.1, *(1.05 * x for x in xs)])
    low, high = y_ticks[0][0], y_ticks[-1][0]

    def across(x):
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * x / x_end

    def down(y):
        y = min(max(y, low), high)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * math.log(y / low) / math.log(high / low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        _text(_LEFT, 28, title, "start", 16),
    ]
    for value, name in y_ticks:
        parts.append(_line(_LEFT, down(value), _WIDTH - _RIGHT, down(value), "#e1e5ea"))
        parts.append(_text(_LEFT - 8, down(value) + 4, name, "end"))
    for tenth in range(0, int(x_end * 10) + 1, 2):
        parts.append(_line(across(tenth / 10), _TOP, across(tenth / 10), _HEIGHT - _BOTTOM, "#e1e5ea"))
        parts.append(_text(across(tenth / 10), _HEIGHT - _BOTTOM + 20, f"{tenth * 10} %", "middle"))
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    parts.append(_text(across(x_end / 2), _HEIGHT - 14, x_name, "middle"))
    parts.append(f'<g transform="rotate(-90 20 {middle})">{_text(20, middle, y_name, "middle")}</g>')
    for number, (name, points) in enumerate(series.items()):
        parts += _series(number, name, points, across, down)
    return "\n".join([*parts, "</svg>", ""])


def growth(title, x_name, y_name, series, x_ticks, y_ticks):
    """A drawing of `series` (name -> [(x, y)], by x), both axes logarithms from the first tick (value, name) to the last,
    and for each the dashed line on which y grows as x does from its first point on.
    """
    def place(value, ticks, begin, end):
        low, high = ticks[0][0], ticks[-1][0]
        value = min(max(value, low), high)
        return begin + (end - begin) * math.log(value / low) / math.log(high / low)

    def across(x):
        return place(x, x_ticks, _LEFT, _WIDTH - _RIGHT)

    def down(y):
        return place(y, y_ticks, _HEIGHT - _BOTTOM, _TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        _text(_LEFT, 28, title, "start", 16),
    ]
    for value, name in y_ticks:
        parts.append(_line(_LEFT, down(value), _WIDTH - _RIGHT, down(value), "#e1e5ea"))
        parts.append(_text(_LEFT - 8, down(value) + 4, name, "end"))
    for value, name in x_ticks:
        parts.append(_line(across(value), _TOP, across(value), _HEIGHT - _BOTTOM, "#e1e5ea"))
        parts.append(_text(across(value), _HEIGHT - _BOTTOM + 20, name, "middle"))
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 14, x_name, "middle"))
    parts.append(f'<g transform="rotate(-90 20 {middle})">{_text(20, middle, y_name, "middle")}</g>')
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        (x, y), (last, _) = points[0], points[-1]
        straight = f"{across(x):.1f},{down(y):.1f} {across(last):.1f},{down(y * last / x):.1f}"
        line = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{straight}" fill="none" stroke="{colour}" stroke-dasharray="5 4" opacity=".6"/>')
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [_mark(number, across(x), down(y), colour, f"{name}: {x:g}, {y:.3g}") for x, y in points]
        height = _TOP + 12 + 22 * number
        parts.append(_mark(number, _WIDTH - _RIGHT + 24, height, colour, name))
        parts.append(_text(_WIDTH - _RIGHT + 38, height + 4, name, "start"))
    height = _TOP + 12 + 22 * len(series)
    parts.append(_text(_WIDTH - _RIGHT + 18, height + 4, "dashed: in proportion", "start"))
    return "\n".join([*parts, "</svg>", ""])


def _series(number, name, points, across, down):
    colour = _COLOURS[number % len(_COLOURS)]
    line = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y, _ in front(points))
    yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5" opacity=".7"/>'
    for x, y, label in points:
        yield _mark(number, across(x), down(y), colour, f"{name}: {label}")
    height = _TOP + 12 + 22 * number
    yield _mark(number, _WIDTH - _RIGHT + 24, height, colour, name)
    yield _text(_WIDTH - _RIGHT + 38, height + 4, name, "start")


def _mark(number, x, y, colour, label):
    title = f"<title>{html.escape(label)}</title>"
    if number % 3 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}">{title}</circle>'
    if number % 3 == 1:
        return f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9" fill="{colour}">{title}</rect>'
    corners = f"{x:.1f},{y - 6:.1f} {x + 6:.1f},{y + 5:.1f} {x - 6:.1f},{y + 5:.1f}"
    return f'<polygon points="{corners}" fill="{colour}">{title}</polygon>'


def _line(x1, y1, x2, y2, colour):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x, y, text, anchor, size=13):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="#16191d">'
            f"{html.escape(text)}</text>")
