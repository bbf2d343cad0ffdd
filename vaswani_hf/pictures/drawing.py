# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What all pictures share: colours, fonts, axes, files."""

from collections.abc import Sequence
from functools import cache, partial
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..extras import require


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SUFFIXES = (".png", ".svg", ".pdf")
# Okabe and Ito 2008, "Color Universal Design", without black and the yellow that white swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", "-.", ":")  # the next one once the colours are used up
# On a dark ground: the same palette, with its yellow in place of its dark blue.
COLOURS_ON_DARK = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00")
FEW_POINTS = 40  # up to this many, each point is marked
WIDE_RANGE = 20.0  # a larger ratio of values is drawn on a logarithmic axis
SLIDE = (13.33, 7.5)  # inches of a slide, on which a picture should be as large as can be


class Theme(NamedTuple):
    """The colours of a picture.

    Attributes:
        paper: the ground.
        ink: words and axes.
        faint: what is in the background, such as the lines of a grid.
        colours: of curves and heads.
        shades: of weights, from 0 to 1. Lightness alone tells them apart.
        diverging: matplotlib's colours from -1 to 1, whose middle is near the ground.
    """

    paper: str
    ink: str
    faint: str
    colours: tuple[str, ...]
    shades: tuple[str, ...]
    diverging: str


THEMES = {
    "light": Theme(
        paper="#FFFFFF",
        ink="#1A1A1A",
        faint="#DDDDDD",
        colours=COLOURS,
        shades=("#FFFFFF", "#C6DDF0", "#5BA3D0", "#0072B2", "#082F52"),
        diverging="PuOr",
    ),
    "dark": Theme(
        paper="#15181D",
        ink="#E8E8E8",
        faint="#3C424B",
        colours=COLOURS_ON_DARK,
        shades=("#15181D", "#123A57", "#1F78A8", "#8CC7E8", "#FFF6D5"),
        diverging="berlin",
    ),
}
OWN_FONT = "DejaVu Sans"  # comes with matplotlib
LAST_RESORT = "Last Resort"  # comes with matplotlib too, and has a box for every character
UNKNOWN = "\N{WHITE SQUARE}"


class Curve(NamedTuple):
    """A logged quantity, and the label of its axis with the unit."""

    name: str
    label: str
    is_ratio: bool = False


def save_picture(figure: "Figure", path: str | PathLike[str]) -> None:
    """Write a figure in the format of its suffix: PNG, SVG or PDF.

    Raises:
        ValueError: if the suffix is another one.
    """
    check_suffix(path)
    figure.savefig(fspath(path), dpi=150)


def check_suffix(path: str | PathLike[str]) -> None:
    """Refuse a name without the suffix of a supported format.

    Raises:
        ValueError: if the suffix is not .png, .svg or .pdf.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"{fspath(path)}: the name of a picture must end in {', '.join(SUFFIXES)}."
        )


def columns_on_slide(
    count: int, size: tuple[float, float], margins: tuple[float, float] = (0.0, 0.0)
) -> int:
    """In how many columns pictures of one size are largest, once all of them fill a slide.

    Args:
        count: of pictures.
        size: width and height of one, in inches.
        margins: width and height of what stands around all of them, in inches.
    """

    def scale(columns: int) -> float:
        counts = (columns, -(-count // columns))
        return min(
            slide / (number * inches + margin)
            for slide, number, inches, margin in zip(SLIDE, counts, size, margins, strict=True)
        )

    return max(range(1, count + 1), key=scale)


def decimals(value: float, digits: int, *, sign: str = "-") -> str:
    """A number with so many decimals and a minus that is no hyphen; `sign="+"` shows a plus too."""
    return f"{value:{sign}.{digits}f}".replace("-", "\N{MINUS SIGN}")


def draw_curve(
    axes: "Axes",
    curve: Curve,
    points: Sequence[tuple[list[int], list[float]]],
    names: Sequence[str],
) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    for number, ((steps, values), name) in enumerate(zip(points, names, strict=True)):
        if steps:
            marker = "o" if len(steps) <= FEW_POINTS else None
            axes.plot(
                steps, values, label=name, marker=marker, markersize=3.5, **line_style(number)
            )
    label_axes(axes, "updates", curve.label)
    drawn = [value for _, values in points for value in values if value > 0]
    if curve.is_ratio and drawn and max(drawn) > WIDE_RANGE * min(drawn):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif curve.name == "learning_rate":
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
        axes.set_ylim(bottom=0)


def label_axes(axes: "Axes", x: str, y: str, theme: str = "light") -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(True, color=theme_of(theme).faint, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def line_style(number: int, theme: str = "light") -> dict[str, Any]:
    colours = theme_of(theme).colours
    return {
        "color": colours[number % len(colours)],
        "linestyle": DASHES[number // len(colours) % len(DASHES)],
        "linewidth": 1.6,
    }


def all_handles(every_axes: Any) -> tuple[list[Any], list[str]]:
    """Handles and labels of a legend: each run once, in the order of the colours."""
    found: dict[str, Any] = {}
    for axes in every_axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def theme_of(name: str) -> Theme:
    """The colours of this name.

    Raises:
        ValueError: if it is neither `"light"` nor `"dark"`.
    """
    if name not in THEMES:
        raise ValueError(f'theme must be "light" or "dark", got theme={name!r}.')
    return THEMES[name]


def shades_of(theme: str) -> Any:
    """The colour map of weights from 0 to 1."""
    colors = require("matplotlib.colors")
    return colors.LinearSegmentedColormap.from_list("weights", theme_of(theme).shades)


def new_figure(theme: str = "light") -> "Figure":
    """A figure without pyplot, which may need a screen and keeps every figure in memory.

    Notebooks show it: without pyplot they ask for `_repr_png_`, which matplotlib's figures lack.

    Raises:
        ValueError: if there is no such theme.
        ImportError: naming the extra to install.
    """
    paper = theme_of(theme).paper
    figure, layouts = require("matplotlib.figure"), require("matplotlib.layout_engine")
    # Padding in inches, the space between axes as a share of the width.
    layout = layouts.ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, wspace=0.03)
    shown = figure.Figure(layout=layout, facecolor=paper)
    shown._repr_png_ = partial(_as_png, shown)
    return shown


def _as_png(figure: "Figure") -> bytes:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=100)
    return file.getvalue()


def finish(figure: "Figure", theme: str = "light") -> "Figure":
    """Give words and axes the colours of the theme, and fonts that have their characters.

    Characters that no installed font has become boxes, and a note below the picture names them.

    Returns:
        The figure.
    """
    from matplotlib.axes import Axes
    from matplotlib.text import Text

    _, ink, *_ = colours = theme_of(theme)
    for axes in figure.findobj(Axes):  # axes inside of others too
        axes.set_facecolor(colours.paper)
        axes.tick_params(which="both", colors=ink)
        for spine in axes.spines.values():
            spine.set_edgecolor(ink)
    texts = [text for text in figure.findobj(Text) if text.get_text()]
    # What nobody has chosen is matplotlib's own, or the user's for all pictures.
    settings = require("matplotlib").rcParams
    unchosen = {settings[f"{name}color"] for name in ("text.", "axes.label")}
    for text in texts:
        if text.get_color() in unchosen:
            text.set_color(ink)
    families, missing = fonts_for("".join(text.get_text() for text in texts))
    if missing:
        boxes = str.maketrans(dict.fromkeys(missing, UNKNOWN))
        for text in texts:
            text.set_text(text.get_text().translate(boxes))
        names = " ".join(f"U+{ord(letter):04X}" for letter in missing[:8])
        more = " and others" if len(missing) > 8 else ""
        note = f"{UNKNOWN}: no installed font has {names}{more}; install one, such as Noto."
        if figure.legends:  # which stands below too
            figure.legends[0].set_title(note)
            figure.legends[0].get_title().set_fontsize(8)
            texts.append(figure.legends[0].get_title())
        else:
            texts.append(figure.supxlabel(note, fontsize=8, color=ink))
    if len(families) > 1:
        for text in texts:
            text.set_fontfamily(families)
    return figure


def fonts_for(text: str) -> tuple[list[str], str]:
    """Families of installed fonts that have the characters of a text, and those that none has."""
    fonts = require("matplotlib.font_manager").fontManager
    wanted = {letter for letter in text if not letter.isspace()}
    wanted -= _characters_of(fonts.findfont(OWN_FONT))
    families = [OWN_FONT]
    plain = [
        font
        for font in fonts.ttflist
        if font.style == "normal"
        and font.weight in (400, "normal", "regular")
        and not font.name.startswith((LAST_RESORT, OWN_FONT))
    ]
    # Noto has a family for each script, made to stand beside the others.
    for font in sorted(plain, key=lambda font: (not font.name.startswith("Noto Sans"), font.name)):
        if not wanted:
            break
        found = wanted & _characters_of(font.fname)
        if found:
            families.append(font.name)
            wanted -= found
    return families, "".join(sorted(wanted))


@cache
def _characters_of(path: str) -> frozenset[str]:
    """The characters that a font has; none of one that cannot be read."""
    try:
        return frozenset(map(chr, require("matplotlib.ft2font").FT2Font(path).get_charmap()))
    except RuntimeError:
        return frozenset()
