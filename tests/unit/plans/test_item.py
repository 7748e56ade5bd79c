"""What is known about one item of a script's run."""

from __future__ import annotations

from pathlib import Path

import fanfold as ff
from fanfold.journal import opening
from fanfold.plans.item import find_item
from fanfold.run.item_view import ItemView
from fanfold.testing.member import Scripted
from fanfold.work.ask import Reply


def looked_at(store: Path, *, keep_prompts: bool) -> ItemView:
    async def main() -> None:
        member = Scripted(lambda ask, n: Reply("fine"))
        async with ff.open_run(
            "script", members=[member], store=store, keep_prompts=keep_prompts
        ) as run:
            await ff.map_reduce(run, [{"id": "a", "text": "one"}], prompt="Say {{ item.text }}")

    ff.run_sync(main())
    archive = opening.look(store)
    try:
        record = archive.read.find("script")
        assert record is not None
        (found,) = find_item(archive, record, "a")
    finally:
        archive.close()
    return found


def test_a_script_that_keeps_its_prompts_can_show_them(tmp_path: Path) -> None:
    (step,) = looked_at(tmp_path / "s", keep_prompts=True).steps
    (prompt,) = step.prompts
    assert (step.state, step.reply) == ("passed", Reply("fine"))
    assert (prompt.state, [one.content for one in prompt.messages]) == ("stored", ["Say one"])


def test_without_that_it_says_what_would_help(tmp_path: Path) -> None:
    view = looked_at(tmp_path / "s", keep_prompts=False)
    (prompt,) = view.steps[0].prompts
    assert (view.input.known, prompt.state) == (False, "unknown")
    assert "keep" in prompt.note
