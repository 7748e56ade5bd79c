"""Images of pictures: whole documents, boxes that never overlap, text that stays in its box."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

from hypothesis import given

from fanfold.observe.arrange import CELL, LINE, PAD, Arranged, Route, Spot, arrange
from fanfold.observe.svg import svg
from fanfold.observe.table import cells_wide
from fanfold.work.picture import Arrow, Box, Picture
from tests.unit.observe.pictures import dags, fan, pictures

NAMES = "{http://www.w3.org/2000/svg}"
A_BIT = 0.01

REVIEW = Picture(
    (
        Box("in", "input", ("jsonl a.jsonl",), "input"),
        Box("map", "map", ("haiku",), inside=fan(3, back=True)),
        Box("write", "write", ("report.md",), "file"),
    ),
    (Arrow("in", "map"), Arrow("map", "write"), Arrow("in", "write", kind="reads")),
    "contract-review <1>",
)


def parsed(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(svg(picture).encode())


def numbers(node: ElementTree.Element, *names: str) -> list[float]:
    return [float(node.get(name, "0")) for name in names]


def overlap(a: Spot, b: Spot) -> bool:
    return (
        a.x < b.x + b.width - A_BIT
        and b.x < a.x + a.width - A_BIT
        and a.y < b.y + b.height - A_BIT
        and b.y < a.y + a.height - A_BIT
    )


def contains(a: Spot, b: Spot) -> bool:
    return (
        a.x < b.x
        and a.y < b.y
        and b.x + b.width < a.x + a.width
        and b.y + b.height < a.y + a.height
    )


def families(picture: Picture, spots: list[Spot]) -> list[tuple[Spot, ...]]:
    """Each spot with those it stands in, by the order in which they come: frames first."""
    found: list[tuple[Spot, ...]] = []

    def walk(inside: Picture, above: tuple[Spot, ...]) -> None:
        for box in inside.boxes:
            spot = spots.pop(0)
            assert spot.box is box
            found.append((*above, spot))
            if box.inside is not None:
                walk(box.inside, (*above, spot))

    walk(picture, ())
    assert spots == []
    return found


# ── the document ─────────────────────────────────────────────────────────────────────────────


def test_it_is_one_document_that_needs_nothing_else() -> None:
    root = parsed(REVIEW)
    assert root.tag == f"{NAMES}svg"
    assert root.get("role") == "img"
    assert root.findtext(f"{NAMES}title") == "contract-review <1>"
    assert root.findtext(f"{NAMES}desc") == "input; map; write"
    assert {node.tag.removeprefix(NAMES) for node in root.iter()} == {
        "svg", "title", "desc", "style", "defs", "marker", "path", "rect", "text",
    }  # fmt: skip
    text = svg(REVIEW).replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert re.findall(r"https?:|@import|href|url\((?!#to\))", text) == []


def test_it_can_be_read_on_light_and_on_dark() -> None:
    """Every colour has its other under `prefers-color-scheme`."""
    style = parsed(REVIEW).findtext(f"{NAMES}style") or ""
    light, dark = style.split("@media (prefers-color-scheme:dark)")
    coloured = re.compile(r"([.a-z,]+)\{[^}]*(?:fill|stroke):#")
    assert set(coloured.findall(light)) == set(coloured.findall(dark))
    classes = {name for node in parsed(REVIEW).iter() for name in node.get("class", "").split()}
    assert {name for name in classes if f".{name}" not in light} == set()


def test_every_text_is_there_once() -> None:
    texts = [node.text for node in parsed(REVIEW).iter(f"{NAMES}text")]
    assert texts == [
        "contract-review <1>", "input", "jsonl a.jsonl", "map", "haiku", "ask 1", "ask 2", "ask 3",
        "gate", "quotes evidence", "write", "report.md", "kick back once",
    ]  # fmt: skip


def test_every_arrow_is_there_with_its_kind() -> None:
    paths = [node for node in parsed(REVIEW).iter(f"{NAMES}path") if node.get("marker-end")]
    kinds = [node.get("class") for node in paths]
    assert sorted(filter(None, kinds)) == ["back", *["flow"] * 5, "reads"]


@given(pictures())
def test_any_text_gives_xml_with_all_inside_the_frame(picture: Picture) -> None:
    root = parsed(picture)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    assert [width, height] == numbers(root, "width", "height")
    for rect in root.iter(f"{NAMES}rect"):
        x, y, wide, high = numbers(rect, "x", "y", "width", "height")
        assert x >= 0 and x + wide <= width + A_BIT
        assert y >= 0 and y + high <= height + A_BIT
    for text in root.iter(f"{NAMES}text"):
        x, y = numbers(text, "x", "y")
        assert x + cells_wide(text.text or "") * CELL <= width
        assert y <= height


def test_nothing_is_an_empty_page() -> None:
    root = parsed(Picture(()))
    assert root.findtext(f"{NAMES}title") == "plan"
    assert len(list(root.iter(f"{NAMES}rect"))) == 1


# ── where things stand ───────────────────────────────────────────────────────────────────────


@given(pictures())
def test_boxes_overlap_only_with_what_is_inside(picture: Picture) -> None:
    lines = families(picture, list(arrange(picture).spots))
    for line in lines:
        for outer, inner in pairwise(line):
            assert contains(outer, inner)
    for a, b in combinations(lines, 2):
        assert a[-1] in b or not overlap(a[-1], b[-1])


@given(pictures())
def test_labels_fit_into_their_boxes(picture: Picture) -> None:
    for spot in arrange(picture).spots:
        lines = (*spot.title, *spot.text)
        assert max(map(cells_wide, lines)) * CELL + 2 * PAD <= spot.width + A_BIT
        assert len(lines) * LINE + 2 * PAD <= spot.height + A_BIT
        assert spot.title != ()


@given(dags())
def test_boxes_of_any_graph_stand_apart_and_below_their_parents(picture: Picture) -> None:
    spots = {spot.box.id: spot for spot in arrange(picture).spots}
    assert len(spots) == len(picture.boxes)
    assert not [pair for pair in combinations(spots.values(), 2) if overlap(*pair)]
    for arrow in picture.arrows:
        upper, lower = spots[arrow.start], spots[arrow.end]
        assert upper.y + upper.height < lower.y


@given(dags())
def test_no_arrow_runs_behind_a_box(picture: Picture) -> None:
    """A bend stays between its two ends, so its hull must be free of boxes."""
    arranged = arrange(picture)
    assert len(arranged.routes) == len(picture.arrows)
    for route, arrow in zip(arranged.routes, picture.arrows, strict=True):
        spots = {spot.box.id: spot for spot in arranged.spots}
        start, end = spots[arrow.start], spots[arrow.end]
        assert route.points[0] == (start.x + start.width / 2, start.y + start.height)
        assert route.points[-1] == (end.x + end.width / 2, end.y)
        assert crossed(route, arranged) == []


def crossed(route: Route, arranged: Arranged) -> list[str]:
    hulls = [
        Spot(Box("", ""), (), (), min(a, c), min(b, d), max(abs(a - c), 0.1), max(abs(b - d), 0.1))
        for (a, b), (c, d) in pairwise(route.points)
    ]
    return [spot.box.id for hull in hulls for spot in arranged.spots if overlap(hull, spot)]


def test_an_arrow_back_goes_round_at_the_right() -> None:
    arranged = arrange(fan(3, back=True))
    (back,) = [route for route in arranged.routes if route.kind == "back"]
    edge = max(spot.x + spot.width for spot in arranged.spots)
    assert back.label == "kick back once"
    assert [x > edge for x, _ in back.points] == [False, True, True, False]
    assert max(x for x, _ in back.points) + cells_wide(back.label) * CELL < arranged.width
