"""Function members: what a target is given, what becomes of its result, how it is found."""

from __future__ import annotations

import asyncio
import datetime
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from fanfold.errors import BadInput, InvalidReply
from fanfold.members.function import Function
from fanfold.members.target import look_for, resolve_target
from fanfold.work.ask import Ask, Message, Reply, Usage
from fanfold.work.item import Item
from fanfold.work.member import Traits, tell_nobody

TRAITS = Traits(id="rules", kind="function", answerer="function:m:f@1", takes="items")


def answer(target: Callable[..., Any], *data: Any, turns: int = 0, threads: bool = False) -> Reply:
    items = tuple(Item(f"i{n}", value) for n, value in enumerate(data))
    ask = Ask(items=items, turns=(Message("user", "again"),) * turns)
    member = Function(TRAITS, target, threads=threads)

    async def once() -> Reply:
        await member.open()
        reply = await member.ask(member.prepare(ask), tell_nobody)
        await member.close()
        return reply

    return asyncio.run(once())


async def shout(data: Any) -> str:
    await asyncio.sleep(0)
    return str(data).upper()


class Finding(BaseModel):
    clause: str


@pytest.mark.parametrize(
    ("target", "reply"),
    [
        (str, Reply(text="x")),
        (lambda data: data + "ß", Reply(text="xß")),
        (shout, Reply(text="X")),
        (lambda data: shout(data), Reply(text="X")),
        (lambda data: {"a": (1, 2), 3: {"b"}}, Reply(data={"a": [1, 2], "3": ["b"]})),
        (lambda data: [data], Reply(data=["x"])),
        (lambda data: 7, Reply(data=7)),
        (lambda data: None, Reply()),
        (lambda data: datetime.date(2024, 1, 2), Reply(text="2024-01-02")),
        (lambda data: Finding(clause=data), Reply(data={"clause": "x"})),
        (lambda data: {"one": Finding(clause=data)}, Reply(data={"one": {"clause": "x"}})),
        (
            lambda data: Reply(text="t", usage=Usage(1, 2), cost_usd=0.5),
            Reply(text="t", usage=Usage(1, 2), cost_usd=0.5),
        ),
        (len, Reply(data=1)),
        (lambda data, more="y": data + more, Reply(text="xy")),
    ],
)
def test_a_result_becomes_the_reply_as_it_will_come_back_from_the_journal(
    target: Callable[..., Any], reply: Reply
) -> None:
    assert answer(target, "x") == reply


def test_a_target_of_two_arguments_gets_the_ask() -> None:
    def revised(data: Any, ask: Ask) -> str:
        return f"{data} {len(ask.turns)}"

    assert answer(revised, "x", turns=2) == Reply(text="x 2")


def test_a_shard_is_answered_item_by_item_with_its_ids() -> None:
    reply = answer(lambda data: data["n"] * 2, {"n": 1}, {"n": 2})
    assert reply == Reply(data={"answers": [{"id": "i0", "answer": 2}, {"id": "i1", "answer": 4}]})


def test_a_target_that_takes_many_gets_the_list() -> None:
    def ranks(many: list[int]) -> list[str]:
        return [f"{sorted(many).index(one)}" for one in many]

    ranks.takes_many = True  # type: ignore[attr-defined]
    assert answer(ranks, 9, 4) == Reply(
        data={"answers": [{"id": "i0", "answer": "1"}, {"id": "i1", "answer": "0"}]}
    )
    assert answer(ranks, 9) == Reply(text="0")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([1], "rules returned 1 answers for 2 items"),
        ("ab", "rules takes many, so it must return a list of answers, not a str"),
        ({"a": 1}, "rules takes many, so it must return a list of answers, not a dict"),
    ],
)
def test_a_target_that_takes_many_must_answer_each(result: Any, message: str) -> None:
    def target(many: list[Any]) -> Any:
        return result

    target.takes_many = True  # type: ignore[attr-defined]
    with pytest.raises(InvalidReply) as error:
        answer(target, 1, 2)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (object(), "rules returned a value that is not JSON: type object has no JSON form"),
        ({"a": {"b": len}}, "rules returned a value that is not JSON"),
        ("\ud800", "rules returned a value that is not JSON"),
    ],
)
def test_what_is_not_json_is_an_invalid_reply_that_names_its_type(
    result: Any, message: str
) -> None:
    with pytest.raises(InvalidReply) as error:
        answer(lambda data: result, "x")
    assert str(error.value).startswith(message)


def test_what_a_target_raises_is_passed_on_as_it_is() -> None:
    fault = KeyError("clause")

    def target(data: Any) -> str:
        raise fault

    with pytest.raises(KeyError) as error:
        answer(target, "x")
    assert error.value is fault


def test_threads_keep_the_loop_free() -> None:
    home = threading.get_ident()
    assert answer(lambda data: threading.get_ident() != home, "x", threads=True).data is True
    assert answer(lambda data: threading.get_ident() == home, "x").data is True
    assert answer(shout, "x", threads=True) == Reply(text="X")


# ── finding the target ───────────────────────────────────────────────────────────────────────


def write(folder: Path, **modules: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    return folder


def test_two_folders_with_modules_of_one_name_get_their_own(tmp_path: Path) -> None:
    source = "import zz_near\ndef tell(d): return zz_near.WHO\ndef me(d): return tell\n"
    a = write(tmp_path / "a", zz_rules=source, zz_near="WHO = 'a'", zz_other="import zz_near as n")
    b = write(
        tmp_path / "b", zz_rules=source, zz_near="WHO = 'b'", zz_other="from zz_rules import tell"
    )
    path = list(sys.path)
    of_a, of_b = resolve_target("zz_rules:tell", a), resolve_target("zz_rules:tell", b)
    assert [of_a(0), of_b(0)] == ["a", "b"]
    assert sys.path == path
    assert resolve_target("zz_rules:me", a)(0) is of_a  # one module, not a second copy
    assert resolve_target("zz_rules:me", b)(0) is of_b
    assert resolve_target("zz_other:tell", b) is of_b
    assert sys.modules["zz_rules"].__file__ == str(a / "zz_rules.py")


def test_a_module_in_the_folder_goes_before_an_installed_one_only_for_the_plan(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "p", msgspec="def mine(d): return 'mine'")
    installed = sys.modules["msgspec"]
    assert resolve_target("msgspec:mine", folder)(0) == "mine"
    assert sys.modules["msgspec"] is installed


def test_targets_may_be_in_packages_classes_and_the_standard_library(tmp_path: Path) -> None:
    inner = tmp_path / "zz_pack"
    write(inner, __init__="", part="class K:\n  @staticmethod\n  def f(d): return d")
    assert resolve_target("zz_pack.part:K.f", tmp_path)(3) == 3
    assert resolve_target("json:dumps", tmp_path)([1]) == "[1]"


@pytest.mark.parametrize("find", [resolve_target, look_for])
@pytest.mark.parametrize(
    ("name", "whose", "rename"),
    [
        ("dis", "Python", "dis.py here; rename the file"),
        ("fanfold", "fanfold", "fanfold.py here; rename the file"),
        ("queue", "Python", "queue/__init__.py here; rename the folder"),
    ],
)
def test_a_file_that_one_of_pythons_own_modules_hides_is_refused_also_by_who_only_looks(
    tmp_path: Path, find: Callable[..., Any], name: str, whose: str, rename: str
) -> None:
    file = tmp_path / rename.partition(" ")[0]
    file.parent.mkdir(exist_ok=True)
    file.write_text("def a(i): return i\nraise SystemExit('it was run')")
    with pytest.raises(BadInput) as error:
        find(f"{name}:a", tmp_path, file="roster.yaml", line=4)
    what = f"`{name}` is a module of {whose} itself, which goes before {rename}"
    assert str(error.value) == f"roster.yaml:4: target `{name}:a`: {what}"


def test_a_file_may_have_the_name_of_a_module_of_python_that_nobody_has_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    folder = write(tmp_path, this="def a(i): return i")
    try:
        assert callable(look_for("this:a", folder))
        assert resolve_target("this:a", folder)(3) == 3
    finally:
        sys.modules.pop("this", None)


def test_what_is_below_a_name_is_not_meant_by_a_file_of_that_name(tmp_path: Path) -> None:
    """A script of the user's may be called fanfold.py, or os.py."""
    folder = write(tmp_path, fanfold="", os="")
    for target in ("fanfold.members.extractive:summarise", "os.path:join"):
        assert callable(look_for(target, folder)) and callable(resolve_target(target, folder))


BROKEN = {
    "zz_syntax": "def f(:\n  pass",
    "zz_name": "x = 1\ny = nothing",
    "zz_exit": "import sys\nsys.exit(3)",
    "zz_deep": "import zz_gone",
    "zz_good": "def flag_risks(d): return d\nLEVEL = 3",
}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("flag", "target `flag` must be module:attribute, for example contracts:flag_risks"),
        ("a:", "target `a:` must be module:attribute, for example contracts:flag_risks"),
        ("../a:b", "target `../a:b` must be module:attribute, for example contracts:flag_risks"),
        ("zz_none:f", "cannot import `zz_none` for target `zz_none:f`: "
                      "no module named `zz_none` here or installed"),
        ("zz_deep:f", "cannot import `zz_deep` for target `zz_deep:f`: "
                      "no module named `zz_gone` here or installed"),
        ("zz_syntax:f", "cannot import `zz_syntax` for target `zz_syntax:f`: "
                        "invalid syntax (zz_syntax.py:1)"),
        ("zz_name:f", "cannot import `zz_name` for target `zz_name:f`: "
                      "NameError: name 'nothing' is not defined (zz_name.py:2)"),
        ("zz_exit:f", "cannot import `zz_exit` for target `zz_exit:f`: SystemExit: 3 (zz_exit.py:2)"),
        ("zz_good:flag_risk", "target `zz_good:flag_risk`: `zz_good` has no `flag_risk`: "
                              "did you mean `flag_risks`?"),
        ("zz_good:LEVEL", "target `zz_good:LEVEL` is a int, not a function"),
    ],
)  # fmt: skip
def test_a_target_that_cannot_be_had_is_one_line(target: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, **BROKEN)
    with pytest.raises(BadInput) as error:
        resolve_target(target, tmp_path, file="roster.yaml", line=4)
    assert str(error.value) == f"roster.yaml:4: {message}"
