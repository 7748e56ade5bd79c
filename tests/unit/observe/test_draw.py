"""Pictures for the terminal: what they look like, never too wide, and no arrow told wrong."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from fanfold.observe.canvas import listed
from fanfold.observe.draw import draw
from fanfold.observe.table import cells_wide, wrapped
from fanfold.work.picture import Arrow, Box, Picture
from tests.unit.observe.pictures import dags, fan, pictures

REVIEW = Picture(
    (
        Box("input", "input", ("jsonl contracts.jsonl", "163 items"), "input"),
        Box("map", "map", ("haiku",), inside=fan(3, back=True)),
        Box("write", "write", ("report.md", "reads steps.input"), "file"),
    ),
    (Arrow("input", "map"), Arrow("map", "write"), Arrow("input", "write", kind="reads")),
    "contract-review",
)


def shown(text: str) -> str:
    """A drawing in a test, without the margin and the first line."""
    return "\n".join(line.removeprefix("    ") for line in text.splitlines()[1:-1])


def test_steps_stand_one_below_the_other() -> None:
    assert draw(REVIEW) == shown("""
    contract-review

                  ┌───────────────────────┐
                  │ input                 │
                  │ jsonl contracts.jsonl │
                  │ 163 items             │────────────────┐
                  └───────────┬───────────┘                │
                              │                            │
                              ▼                            │
    ┌───────────────────────────────────────────────────┐  │
    │ map                                               │  │
    │ haiku                                             │  │
    │                                                   │  │
    │ ┌───────┐  ┌───────┐  ┌───────┐                   │  │
    │ │ ask 1 │  │ ask 2 │  │ ask 3 │◀─┐                │  │
    │ └───┬───┘  └───┬───┘  └───┬───┘  │                │  │
    │     └──────────┼──────────┘      │                │  │
    │                ▼                 │ kick back once │  │
    │       ┌─────────────────┐        │                │  │
    │       │ gate            │        │                │  │
    │       │ quotes evidence │────────┘                │  │
    │       └─────────────────┘                         │  │
    └─────────────────────────┬─────────────────────────┘  │
                              │                            │
                              ▼                            │
                    ┌───────────────────┐                  │
                    │ write             │◀─────────────────┘
                    │ report.md         │
                    │ reads steps.input │
                    └───────────────────┘
    """)


def test_a_row_forks_and_joins() -> None:
    ids = "abcd"
    arrows = [Arrow("a", "b"), Arrow("a", "c"), Arrow("b", "d"), Arrow("c", "d")]
    assert draw(Picture(tuple(Box(id, id) for id in ids), tuple(arrows))) == shown("""
        ┌───┐
        │ a │
        └─┬─┘
      ┌───┴──┐
      ▼      ▼
    ┌───┐  ┌───┐
    │ b │  │ c │
    └─┬─┘  └─┬─┘
      └───┬──┘
          ▼
        ┌───┐
        │ d │
        └───┘
    """)


def test_what_is_no_row_has_lanes() -> None:
    """`├─│─●` comes from the first lane and passes the second."""
    pairs = ("ac", "bd", "ae", "ce", "df", "eg", "bg", "ah")
    picture = Picture(tuple(Box(id, id) for id in "abcdefgh"), tuple(Arrow(*p) for p in pairs))
    assert draw(Picture((Box("g", "graph", inside=picture),))) == shown("""
    ┌───────────────────┐
    │ graph             │
    │                   │
    │ ●        a        │
    │ │ ●      b        │
    │ ├─│─●    c ← a    │
    │ │ ├─│─●  d ← b    │
    │ ├─│─● │  e ← a, c │
    │ │ │ │ ●  f ← d    │
    │ │ ●─┘    g ← e, b │
    │ ●        h ← a    │
    └───────────────────┘
    """)


def test_a_row_that_is_too_wide_has_lanes() -> None:
    assert draw(fan(12, back=True), 60).splitlines()[-5:] == [
        "│ │ │ │ │ │ │ │ │ │ │ ●  ask 12",
        "●─┴─┴─┴─┴─┴─┴─┴─┴─┴─┴─┘  gate · quotes evidence ↩ kick back",
        "                         once to ask 12 ← ask 1, ask 2, ask",
        "                         3, ask 4, ask 5, ask 6, ask 7, ask",
        "                         8, ask 9, ask 10, ask 11, ask 12",
    ]


def test_an_arrow_that_skips_a_row_has_a_lane() -> None:
    picture = Picture(
        tuple(Box(id, id) for id in "abc"), tuple(Arrow(*p) for p in ("ab", "bc", "ac"))
    )
    assert draw(picture) == shown("""
    ●    a
    ├─●  b ← a
    ●─┘  c ← b, a
    """)


def test_an_arrow_back_to_the_middle_of_a_row_is_told_in_words() -> None:
    """At the side it would seem to lead to the last of the row."""
    arrows = (Arrow("a", "c"), Arrow("b", "c"), Arrow("c", "a", "once more", "back"))
    assert draw(Picture(tuple(Box(id, id) for id in "abc"), arrows)) == shown("""
    ●    a
    │ ●  b
    ●─┘  c ↩ once more to a ← a, b
    """)


def test_frames_that_cannot_stand_side_by_side_become_a_list() -> None:
    row = Picture(tuple(Box(id, id, inside=fan(12)) for id in "abcde"))
    lines = draw(row, 80).split("\n")
    assert max(map(cells_wide, lines)) <= 80
    assert lines[0] == (
        "●    a [ask 1; ask 2; ask 3; ask 4; ask 5; ask 6; ask 7; ask 8; ask 9; ask 10;"
    )


def test_frames_as_deep_as_can_be_keep_the_width() -> None:
    box = Box("z", "z", ("innermost",))
    for n in range(20):
        box = Box("a", f"frame {n}", inside=Picture((box,)))
        if n in (5, 13, 19):
            assert max(map(cells_wide, draw(Picture((box,)), 60).split("\n"))) <= 60


def test_too_many_lanes_become_an_indented_list() -> None:
    wide = [Box(f"t{n}", f"t{n}") for n in range(30)]
    last = Box("z", "z", ("opus",))
    picture = Picture((*wide, last), tuple(Arrow(box.id, "z") for box in wide))
    lines = listed(picture, 40)
    assert lines[:2] == ["●    t0", "●    t1"]
    assert lines[30:32] == [
        "  ●  z · opus ← t0, t1, t2, t3, t4, t5,",
        "     t6, t7, t8, t9, t10, t11, t12, t13,",
    ]


def test_nothing_is_drawn_as_nothing() -> None:
    assert draw(Picture(())) == ""
    assert draw(Picture((Box("a", "", inside=Picture(())),))) == "┌──┐\n│  │\n└──┘"


def test_wide_letters_take_two_columns() -> None:
    assert (
        draw(Picture((Box("a", "日本", ("e\u0301!",)),)))
        == "┌──────┐\n│ 日本 │\n│ e\u0301!   │\n└──────┘"
    )


@example(
    Picture((Box("a", "a"), Box("b", "b")), (Arrow("a", "b"), Arrow("b", "a", "\x1b", "back"))), 60
)
@example(
    Picture((Box("a", "a"), Box("b", "b")), (Arrow("a", "b"), Arrow("b", "a", "\u0301", "back"))),
    60,
)
@given(pictures(), st.integers(60, 100))
def test_no_line_is_too_wide_and_nothing_steers_the_terminal(picture: Picture, width: int) -> None:
    for line in draw(picture, width).split("\n"):
        assert cells_wide(line) <= width
        assert line.isprintable()


@given(dags())
def test_every_box_is_drawn(picture: Picture) -> None:
    words = draw(picture).split()
    assert {box.title for box in picture.boxes} <= set(words)


# ── lanes, read again ────────────────────────────────────────────────────────────────────────

FROM_ABOVE = "●│├┼┤"
GIVES = "├┼┤└┴┘"
ENDS = "└┴┘"


def read_lanes(lines: list[str]) -> dict[str, set[str]]:
    """Each box with those whose lanes lead to it, by the signs alone."""
    found: dict[str, set[str]] = {}
    holder: dict[int, str] = {}
    above = ""
    for line in lines:
        own = line.index("●")
        left, text = line[: len(line) - len(line.lstrip("●│├┼┤└┴┘─ "))], line.lstrip("●│├┼┤└┴┘─ ")
        name = text.split()[0]
        parents = {holder[own]} if above[own : own + 1] in list(FROM_ABOVE) else set()
        for step in (-1, 1):
            at = own + step
            while 0 <= at < len(left) and left[at] != " ":
                if left[at] in GIVES:
                    parents.add(holder[at])
                at += step
        for at, char in enumerate(left):
            if char in ENDS:
                holder.pop(at, None)
        holder[own] = name
        found[name] = parents
        above = left
    return found


@given(dags())
def test_lanes_tell_exactly_the_arrows(picture: Picture) -> None:
    lines = listed(picture, 200)
    told = {line.split("●")[1].lstrip("─┘┴┤┼│ ").split()[0]: line for line in lines}
    assert read_lanes(lines) == {id: set(above) for id, above in picture.parents().items()}
    for id, above in picture.parents().items():
        words = told[id].split(" ← ")[1] if above else ""
        assert words == ", ".join(above)


# ── wrapping ─────────────────────────────────────────────────────────────────────────────────


def test_words_are_kept_whole_where_they_fit() -> None:
    assert wrapped("one two  three\nfour", 9) == ["one two", "three", "four"]
    assert wrapped("abcdefghij kl", 4) == ["abcd", "efgh", "ij", "kl"]
    assert wrapped("日本語", 5) == ["日本", "語"]
    assert wrapped("a b c d e", 1, lines=3) == ["a", "b", "…"]
    assert wrapped("", 9) == [""]


@given(st.text(max_size=200), st.integers(4, 40))
def test_wrapping_keeps_all_letters_and_the_width(text: str, most: int) -> None:
    lines = wrapped(text, most, lines=1000)
    assert all(cells_wide(line) <= most for line in lines)
    kept = "".join(char if char.isprintable() else " " for char in text)
    assert "".join("".join(lines).split()) == "".join(kept.split())
