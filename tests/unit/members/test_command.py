"""Command members: fed on stdin, read from stdout, ended with all their children."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import uvloop

from fanfold.errors import InvalidReply, MemberError, Terminal, TimedOut, Transient
from fanfold.members.command import CommandMember
from fanfold.members.process import by_pidfd, by_thread, run_program
from fanfold.price import FREE, Price
from fanfold.work.ask import Ask, Message, Reply, Schema, Usage
from fanfold.work.member import Traits, tell_nobody
from tests.waiting import however_slow, wait_until

SCHEMA = Schema.of({"type": "object"})


def asked(
    cmd: list[str],
    ask: Ask | str = "hello",
    *,
    folder: Path = Path(),
    timeout: float = 30,
    hidden: frozenset[str] = frozenset(),
) -> Reply:
    async def once() -> Reply:
        traits = Traits(id="cmd", kind="command", answerer="command:0@run", timeout=timeout)
        member = CommandMember(traits, cmd, folder, hidden=hidden)
        await member.open()
        whole = Ask(messages=(Message("user", ask),)) if isinstance(ask, str) else ask
        return await member.ask(member.prepare(whole), tell_nobody)

    return asyncio.run(once())


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def shell(code: str) -> list[str]:
    return ["sh", "-c", code]


def test_the_prompt_goes_in_and_the_output_comes_back() -> None:
    assert asked(["cat"], "é\n  two lines ") == Reply(text="é\n  two lines ")
    assert asked(["cat"], "one\n\n") == Reply(text="one\n")
    assert asked(["true"]) == Reply()


def test_nothing_is_put_on_a_shell_line() -> None:
    assert asked(["printf", "%s", "$(id); `id` ; *"]) == Reply(text="$(id); `id` ; *")


def test_kick_backs_are_spoken_as_a_conversation() -> None:
    ask = Ask(
        messages=(Message("user", "flag"),),
        turns=(Message("assistant", "no"), Message("user", "again")),
    )
    assert asked(["cat"], ask).text == "USER:\nflag\n\nASSISTANT:\nno\n\nUSER:\nagain"


def test_with_a_schema_json_becomes_data_and_anything_else_stays_text_for_the_gate() -> None:
    with_schema = Ask(messages=(Message("user", '{"a": [1]}'),), schema=SCHEMA)
    assert asked(["cat"], with_schema) == Reply(text='{"a": [1]}', data={"a": [1]})
    not_json = Ask(messages=(Message("user", "sorry"),), schema=SCHEMA)
    assert asked(["cat"], not_json) == Reply(text="sorry")


@pytest.mark.parametrize(
    ("out", "reply"),
    [
        ('hi\n{"fanfold": {"usd": 0.25, "input": 3, "output": 4}}\n',
         Reply(text="hi", usage=Usage(3, 4), cost_usd=0.25)),
        ('{"fanfold": {"usd": 0}}', Reply(cost_usd=0.0)),
        ('hi\n{"fanfold": {"usd": -1}}',
         Reply("hi", unusable="it reports a cost of -1 dollars")),
        ('hi\n{"fanfold": {"input": 1.5}}',
         Reply("hi", unusable="it reports 1.5 tokens of input")),
        ('{"fanfold": 3}', Reply(text='{"fanfold": 3}')),
        ('{"fanfold": {"usd": 1}}\nhi', Reply(text='{"fanfold": {"usd": 1}}\nhi')),
    ],
)  # fmt: skip
def test_a_command_may_report_its_cost_in_its_last_line(out: str, reply: Reply) -> None:
    assert asked(["cat"], out) == reply


def test_large_input_and_output_pass_through_both_pipes_at_once() -> None:
    large = "0123456789abcdef" * 100_000
    assert asked(["cat"], large) == Reply(text=large)


def test_a_command_may_ignore_a_large_prompt() -> None:
    assert asked(["echo", "done"], "x" * 3_000_000) == Reply(text="done")


def test_it_runs_in_the_folder_and_finds_programs_there(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text("import sys; print(len(sys.stdin.read().split()))")
    assert asked([sys.executable, "count.py"], "a b c", folder=tmp_path) == Reply(text="3")
    script = tmp_path / "own"
    script.write_text("#!/bin/sh\npwd\n")
    script.chmod(0o755)
    assert asked(["./own"], folder=tmp_path) == Reply(text=str(tmp_path))


def test_keys_of_the_roster_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZZ_KEY", "secret")
    monkeypatch.setenv("ZZ_PLAIN", "plain")
    see = shell("echo $ZZ_KEY $ZZ_PLAIN")
    assert asked(see) == Reply(text="secret plain")
    assert asked(see, hidden=frozenset({"ZZ_KEY"})) == Reply(text="plain")


FAILURES: list[tuple[list[str], type[MemberError], str]] = [
    (shell("echo first; echo why not >&2; exit 3"), Transient, "cmd: exit code 3: why not"),
    (shell("exit 1"), Transient, "cmd: exit code 1"),
    (shell("kill -9 $$"), Transient, "cmd: killed by signal 9"),
    (shell("exit 127"), Terminal, "cmd: exit code 127"),
    (shell("exit 126"), Terminal, "cmd: exit code 126"),
    (["zz-not-there"], Terminal, "cmd: cannot start `zz-not-there`: no such file or directory"),
    (["/etc"], Terminal, "cmd: cannot start `/etc`: permission denied"),
    (shell("printf '\\377'"), InvalidReply, "cmd: its output is not UTF-8 text"),
    (python("import sys; sys.stderr.write('a b\\n' * 9000); sys.exit(1)"), Transient,
     "cmd: exit code 1: …" + ("a b " * 60)[-201:-1]),
]  # fmt: skip


@pytest.mark.parametrize(("cmd", "kind", "message"), FAILURES)
def test_failures_are_typed_and_one_line(
    cmd: list[str], kind: type[MemberError], message: str
) -> None:
    with pytest.raises(MemberError) as error:
        asked(cmd)
    assert (type(error.value), str(error.value), error.value.lost) == (kind, message, False)
    if isinstance(error.value, Terminal):
        assert error.value.scope == "member"


PRICE = Price(call=0.05)
BY_TOKEN = Price(input=1.0)
TOLD = [  # exit code, stdout, price; nano-dollars, whether that is only the most, usage
    (1, '{"fanfold": {"usd": 0.24}}', PRICE, 240_000_000, False, None),
    (3, 'hi\n{"fanfold": {"usd": 0.24, "input": 3, "output": 4}}', None, 240_000_000, False, Usage(3, 4)),
    (1, '{"fanfold": {"usd": 0}}', PRICE, 0, False, None),
    (1, '{"fanfold": {"usd": -1}}', PRICE, 50_000_000, True, None),
    (1, "nothing said", PRICE, 50_000_000, True, None),
    (-9, "killed", PRICE, 50_000_000, True, None),
    (1, '{"fanfold": {"input": 2000, "output": 0}}', BY_TOKEN, 2_000_000, False, Usage(2000, 0)),
    (1, "nothing said", FREE, None, False, None),
    (1, "nothing said", None, None, False, None),
    (127, "not there", PRICE, None, False, None),
    (127, '{"fanfold": {"usd": 0.24}}', PRICE, 240_000_000, False, None),
]  # fmt: skip


@pytest.mark.parametrize(("code", "out", "price", "nanos", "bound", "usage"), TOLD)
def test_a_command_that_failed_counts_with_what_it_said_else_with_its_price(
    code: int, out: str, price: Price | None, nanos: int | None, bound: bool, usage: Usage | None
) -> None:
    """One that could not be started took nothing."""
    end = "kill -9 $$" if code < 0 else f"exit {code}"
    traits = Traits(id="cmd", kind="command", answerer="command:0@run", price=price)
    member = CommandMember(traits, shell(f"cat; {end}"), Path())
    with pytest.raises(MemberError) as caught:
        asyncio.run(member.ask(member.prepare(Ask(messages=(Message("user", out),))), tell_nobody))
    error = caught.value
    assert (error.cost, error.bound, error.usage, error.lost) == (nanos, bound, usage, False)


def test_an_output_that_is_no_text_counts_with_what_it_said() -> None:
    with pytest.raises(InvalidReply) as caught:
        asked(shell("""printf '\\377\\n{"fanfold": {"usd": 0.25}}'"""))
    assert (caught.value.cost, caught.value.bound) == (250_000_000, False)


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(Terminal) as error:
        asked(["true"], folder=tmp_path / "gone")
    assert str(error.value) == f"cmd: cannot run in {tmp_path / 'gone'}: no such folder"


def gone(pid: int) -> bool:
    """No such process, or one that waits to be reaped by whoever is its parent now."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_when_time_is_over_the_command_and_its_children_are_killed(tmp_path: Path) -> None:
    def check(seconds: float) -> None:
        child, parent = tmp_path / f"child-{seconds}", tmp_path / f"parent-{seconds}"
        with pytest.raises(TimedOut) as error:
            asked(
                shell(f"sleep 600 & echo $! > {child}; echo $$ > {parent}; wait"), timeout=seconds
            )
        said = f"cmd: no reply in {seconds:g} s; killed"
        assert (str(error.value), error.value.lost) == (said, True)
        pids = [int(file.read_text() or 0) for file in (child, parent)]
        assert all(pids), "it was killed before it had written them"
        wait_until(lambda: all(gone(pid) for pid in pids))

    however_slow(check)


def test_cancelling_kills_the_command_and_its_children(tmp_path: Path) -> None:
    code = f"sleep 600 & echo $! > {tmp_path}/c; mv {tmp_path}/c {tmp_path}/child; wait"

    async def cancel() -> None:
        traits = Traits(id="cmd", kind="command", answerer="command:0@run")
        member = CommandMember(traits, shell(code), tmp_path)
        work = asyncio.create_task(member.ask(member.prepare(Ask()), tell_nobody))
        await asyncio.to_thread(wait_until, (tmp_path / "child").exists)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(cancel())
    wait_until(lambda: gone(int((tmp_path / "child").read_text())))


def test_a_child_left_behind_with_the_pipe_does_not_hold_the_reply_up(tmp_path: Path) -> None:
    """The child is still there when the reply is."""
    reply = asked(shell(f"sleep 600 & echo $! > {tmp_path}/child; echo done"))
    child = int((tmp_path / "child").read_text())
    assert (reply, gone(child)) == (Reply(text="done"), False)
    os.kill(child, 9)


def test_endless_output_is_cut_and_the_command_killed() -> None:
    async def cut() -> None:
        ended = await run_program(
            ["yes"], b"", folder=Path(), env=dict(os.environ), seconds=30, most=100_000
        )
        assert (ended.full, ended.code) == (True, -9)
        assert 100_000 < len(ended.out) <= 100_000 + 65_536

    asyncio.run(cut())


def test_output_larger_than_max_bytes_was_paid_for() -> None:
    traits = Traits(id="cmd", kind="command", answerer="command:0@run", max_bytes=100_000)
    member = CommandMember(traits, ["yes"], Path())
    with pytest.raises(InvalidReply) as caught:
        asyncio.run(member.ask(member.prepare(Ask()), tell_nobody))
    assert str(caught.value) == "cmd: its output is larger than max_bytes (100,000); killed"


@pytest.mark.parametrize("watch", [by_pidfd, by_thread])
def test_both_ways_of_waiting_tell_the_exit_code(watch: Callable[..., asyncio.Future[int]]) -> None:
    async def wait(process: subprocess.Popen[bytes]) -> int:
        return await watch(asyncio.get_running_loop(), process)

    with subprocess.Popen(["sh", "-c", "exit 7"]) as process:
        assert asyncio.run(wait(process)) == 7


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("launches", [25, pytest.param(100, marks=pytest.mark.sweep)])
def test_many_launches_leave_no_handle_and_no_zombie(
    runner: Callable[..., list[Reply]], launches: int
) -> None:
    """One that stayed of each would show at once, of every tenth as well."""

    def handles() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    async def many() -> list[Reply]:
        traits = Traits(id="cmd", kind="command", answerer="command:0@run")
        member = CommandMember(traits, ["cat"], Path())
        await member.open()
        request = member.prepare(Ask(messages=(Message("user", "x"),)))
        gate = asyncio.Semaphore(8)

        async def one() -> Reply:
            async with gate:
                return await member.ask(request, tell_nobody)

        return await asyncio.gather(*(one() for _ in range(launches)))

    others = children()
    runner(many())  # a first loop may open handles of its own, for good
    before = handles()
    assert runner(many()) == [Reply(text="x")] * launches
    assert (handles(), children()) == (before, others)


def children() -> set[str]:
    """Also those that have ended and were not waited for."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # others come and go meanwhile
            if file.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(file.parent.name)
    return found


@pytest.mark.parametrize(
    ("request_of", "told"),
    [
        ({}, "none none"),
        ({"span": "01RUN:7", "store": "/a/.fanfold"}, "01RUN:7 /a/.fanfold"),
    ],
)
def test_a_program_is_told_which_attempt_it_works_for(
    request_of: dict[str, str], told: str
) -> None:
    see = shell('echo "${FANFOLD_PARENT-none} ${FANFOLD_STORE-none}"')

    async def once() -> Reply:
        member = CommandMember(Traits(id="cmd", kind="command", answerer="c"), see, Path())
        request = msgspec.structs.replace(member.prepare(Ask()), **request_of)
        return await member.ask(request, tell_nobody)

    assert asyncio.run(once()) == Reply(text=told)
