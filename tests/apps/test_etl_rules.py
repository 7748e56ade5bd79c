"""The rules of `etl`: forms, dependencies, reports, spelling, joined cells; and what they leave alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fanfold.members.target import resolve_target

FOLDER = Path(__file__).parents[2] / "src" / "fanfold" / "apps" / "etl"
learn_form = resolve_target("forms:learn", FOLDER)
read = resolve_target("forms:read", FOLDER)
learn = resolve_target("learn:learn", FOLDER)
signs = resolve_target("learn:signs", FOLDER)
repaired = resolve_target("repair:rows", FOLDER)

TIMES = [f"{hour}:{minute:02d} {half}.m." for hour in (1, 7, 11, 12) for minute in (0, 5, 40)
         for half in "ap"]  # fmt: skip
DAYS = [f"{month}/{day}/2011" for month in (1, 5, 12) for day in (3, 14, 28, 30)]
OUNCES = [f"{n}.0 {unit}" for n in (8, 12, 16, 24) for unit in ("oz", "oz.", "ounce", "OZ.")]


@pytest.mark.parametrize(
    ("column", "value", "form"),
    [
        (TIMES, "12/02/2011 6:55 a.m.", "6:55 a.m."),
        (TIMES, "11:51aDec 1", "11:51 a.m."),
        (TIMES, "9:19 p.m. (Estimated)", "9:19 p.m."),
        (TIMES, "Thu  14:05", "2:05 p.m."),
        (TIMES, "00:30", "12:30 a.m."),
        (TIMES, "12:00noon", "12:00 p.m."),
        (TIMES, "Contact Airline", ""),
        (TIMES, "7:05 a.m.", "7:05 a.m."),
        (["07:05", "19:40", "23:10", "00:15", "12:30"] * 2, "7:05 p.m.", "19:05"),
        (DAYS, "2011-12-03", "12/3/2011"),
        (DAYS, "14 May 2011", "5/14/2011"),
        (DAYS, "May 14, 2011", "5/14/2011"),
        (DAYS, "12/3/2011", "12/3/2011"),
        (DAYS, "in spring", None),
        (OUNCES, "16.0 ounce", "16"),
        (OUNCES, "8.4 oz", "8.4"),
        ([*OUNCES * 20, "12.0 oz. Silo Can"], "12.0 oz. Silo Can", "12"),
        (OUNCES, "355 ml", None),
        ([f"0.0{n}" for n in range(10, 80)] + [f"0.0{n}%" for n in range(30, 50)], "0.05%", "0.05"),
        ([f"0.0{n}" for n in range(10, 80)] + [f"{n / 10}%" for n in range(30, 50)], "5%", "0.05"),
        ([f"0.0{n}" for n in range(10, 80)], "0.059000000000000004", "0.059"),
        ([str(n / 7) for n in range(1, 80)], "34.819098589999896", "34.819098589999896"),
        ([str(n) for n in range(40)], "N/A", ""),
        ([str(n) for n in range(40)], "7x", None),
        ([f"{n} patients" for n in range(40)], "12 patients", "12 patients"),
        ([f"{n} patients" for n in range(40)], "12 patxents", "12 patients"),
        ([f"{n} patients" for n in range(40)], "12", "12 patients"),
        ([f"{n}-{n}0" for n in range(1000, 1040)], "10201020", None),
        ([f"{n}-{n + 7}" for n in range(1000, 1040)], "10201027", "1020-1027"),
        ([f"{n}-{n + 7}" for n in range(1000, 1040)], " 1020-1027", "1020-1027"),
        ([f"{n} {word} street" for n, word in enumerate("abcdefghijklmnopqrst")], "3 d street", "3 d street"),
        (["Boston", "Reno", "N/A"] * 5, "N/A", "N/A"),
        (["Boston", "Reno", "", "", "N/A"] * 5, "N/A", ""),
    ],
)  # fmt: skip
def test_a_value_is_put_into_the_form_of_its_column(
    column: list[str], value: str, form: str | None
) -> None:
    assert read(value, learn_form(Counter(column))) == form


# ── whole tables ─────────────────────────────────────────────────────────────────────────────


def changed(columns: str, rows: list[list[str]]) -> dict[tuple[int, str], tuple[str, str]]:
    """By row and column: what it becomes, and by which rule."""
    known = learn(columns.split(), rows)
    found: dict[str, Any] = repaired({"rows": list(signs(known))})
    return {(one["row"], one["column"]): (one["to"], one["rule"]) for one in found["changes"]}


def breweries(many: int = 8) -> list[list[str]]:
    """So many rows for each; two cities of one name in different states."""
    towns = [("Portland", "OR"), ("Portland", "OR"), ("Portland", "ME"), ("Denver", "CO"),
             ("Austin", "TX"), ("Chicago", "IL"), ("Boston", "MA"), ("Seattle", "WA")]  # fmt: skip
    return [
        [f"beer {n}{m}", f"{n}00", f"{town} Brewing {n}", town, state]
        for n, (town, state) in enumerate(towns)
        for m in range(many)
    ]


COLUMNS = "beer id brewery city state"


def test_a_clean_table_is_left_as_it_is() -> None:
    assert changed(COLUMNS, breweries()) == {}


def test_what_others_with_the_same_key_say_goes_into_the_cell() -> None:
    rows = breweries()
    rows[3][4], rows[30][3], rows[45][2] = "", "Boston", "Chicago Brewxng 5"
    assert changed(COLUMNS, rows) == {
        (3, "state"): ("OR", "dependency"),
        (30, "city"): ("Denver", "dependency"),
        (45, "brewery"): ("Chicago Brewing 5", "dependency"),
    }


def test_a_mark_for_nothing_is_filled_like_an_empty_cell_and_never_spread() -> None:
    rows = breweries()
    for n in (8, 9, 10, 11, 12):
        rows[n][4] = "N/A"
    rows[40][4] = "-"
    assert changed(COLUMNS, rows) == {
        **{(n, "state"): ("OR", "dependency") for n in (8, 9, 10, 11, 12)},
        (40, "state"): ("IL", "dependency"),
    }


def test_a_key_that_contradicts_its_whole_row_is_itself_wrong() -> None:
    rows = breweries()
    rows[30][1] = "400"
    assert changed(COLUMNS, rows) == {(30, "id"): ("300", "dependency")}


def test_a_city_of_two_states_is_no_reason_to_change_one() -> None:
    """Eight rows in Maine against sixteen in Oregon, and one brewery there with a single row."""
    rows = [*breweries(), ["beer x", "900", "Lone Brewing", "Portland", "ME"]]
    assert changed(COLUMNS, rows) == {}


def flights(sources: list[str]) -> list[list[str]]:
    """Each source on each flight. The airline's own knows; most others are late by a minute, and
    some have nothing."""
    rows = []
    for n in range(12):
        carrier = "xy" if n % 2 else "zq"
        for m, source in enumerate(sources):
            said = f"{n + 1}:{10 + n}" if source == carrier or m % 3 == 0 else f"{n + 1}:{11 + n}"
            gate = "" if m % 4 == 3 else f"{n + 1}:{30 + n + m % 3}"
            rows.append(
                [source, f"{carrier.upper()}-{n}", f"{said} p.m.", f"{gate} p.m." if gate else ""]
            )
    return rows  # fmt: skip


def test_the_own_report_of_a_thing_goes_before_the_majority() -> None:
    sources = ["one", "two", "three", "four", "five", "six", "seven", "xy", "zq"]
    found = changed("source flight left gate", flights(sources))
    assert found[1, "left"] == ("1:10 p.m.", "first hand")
    assert {rule for _, rule in found.values()} <= {"first hand", "reports"}
    assert not any(to == "1:11 p.m." for (row, column), (to, _) in found.items() if row < 9)


def test_without_an_own_report_the_majority_counts() -> None:
    found = changed("source flight left gate", flights([*"abcdefghi"]))
    assert found[0, "left"] == ("1:11 p.m.", "reports")


def test_a_rare_value_next_to_a_common_one_is_a_slip() -> None:
    rows = [[f"row {n}", "Birmingham" if n % 2 else "Montgomery"] for n in range(60)]
    rows[4][1], rows[7][1], rows[9][1] = "Montgomexy", "Birmingham-*", "Mobile"
    assert changed("id city", rows) == {
        (4, "city"): ("Montgomery", "spelling"),
        (7, "city"): ("Birmingham", "spelling"),
    }


def test_numbers_that_differ_by_a_digit_are_both_right() -> None:
    rows = [[f"row {n}", "Model 1200" if n % 2 else "Model 1300"] for n in range(60)]
    rows[4][1] = "Model 1201"
    assert changed("id model", rows) == {}


def test_two_cells_in_one_are_taken_apart() -> None:
    rows = breweries()
    for n in (1, 20, 33, 50):
        rows[n][3], rows[n][4] = f"{rows[n][3]} {rows[n][4]}", ""
    assert changed(COLUMNS, rows) == {
        (1, "city"): ("Portland", "joined"), (1, "state"): ("OR", "joined"),
        (20, "city"): ("Portland", "joined"), (20, "state"): ("ME", "joined"),
        (33, "city"): ("Austin", "joined"), (33, "state"): ("TX", "joined"),
        (50, "city"): ("Boston", "joined"), (50, "state"): ("MA", "joined"),
    }  # fmt: skip


@pytest.mark.parametrize("rows", [[], [["1", "2"]], [["", ""], ["", ""]]])
def test_a_table_with_nothing_to_learn_from_is_left_alone(rows: list[list[str]]) -> None:
    assert changed("a b", rows) == {}
