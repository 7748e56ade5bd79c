"""Pictures for the tests of those who draw them."""

from __future__ import annotations

from hypothesis import strategies as st

from fanfold.work.picture import Arrow, Box, Look, Picture

TEXTS = st.text(max_size=60) | st.sampled_from(
    [
        'a "quote"', "x]y[z", "a|b", "`code`", "two\nlines", "日本語の契約", "🙂 é\u0301", "<b>&amp;</b>",
        "#35;", "1. list", "- dash", "end", "]]>", "\x1b[31m", "\ud800", "$$x$$", "word " * 30,
        "x" * 150, "漢" * 90,
    ]
)  # fmt: skip
LOOKS = st.sampled_from(["input", "ask", "gate", "fold", "file", "more"])


@st.composite
def dags(draw: st.DrawFn, most: int = 12) -> Picture:
    """Any boxes and arrows without a cycle, with short titles of their own."""
    order = draw(st.permutations([f"t{n}" for n in range(draw(st.integers(1, most)))]))
    pairs = [(a, b) for n, b in enumerate(order) for a in order[:n]]
    arrows = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=30)) if pairs else []
    stated = draw(st.permutations(order))
    return Picture(tuple(Box(id, id) for id in stated), tuple(Arrow(*pair) for pair in arrows))


@st.composite
def pictures(draw: st.DrawFn, deep: int = 2) -> Picture:
    """Any boxes with any text, some of them with a picture inside."""
    boxes = []
    for n in range(draw(st.integers(1, 6))):
        inside = draw(pictures(deep - 1)) if deep and draw(st.integers(0, 3)) == 0 else None
        look: Look = draw(LOOKS)
        lines = tuple(draw(st.lists(TEXTS, max_size=2)))
        boxes.append(Box(f"t{n}", draw(TEXTS), lines, look, inside))
    ids = [box.id for box in boxes]
    pairs = [(a, b) for n, b in enumerate(ids) for a in ids[:n]]
    found = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    arrows = [Arrow(*pair, kind=draw(st.sampled_from(["flow", "reads"]))) for pair in found]
    if pairs and draw(st.booleans()):
        start, end = draw(st.sampled_from(pairs))
        arrows.append(Arrow(end, start, draw(TEXTS), "back"))
    return Picture(tuple(boxes), tuple(arrows), draw(TEXTS))


def fan(lanes: int, *, back: bool = False) -> Picture:
    """So many asks that lead to a gate, which can kick back."""
    asks = [Box(f"ask {n}", f"ask {n}") for n in range(1, lanes + 1)]
    arrows = [Arrow(box.id, "gate") for box in asks]
    if back:
        arrows.append(Arrow("gate", asks[-1].id, "kick back once", "back"))
    return Picture((*asks, Box("gate", "gate", ("quotes evidence",), "gate")), tuple(arrows))
