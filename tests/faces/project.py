"""Small projects for the command line to work on: a plan, a roster, items, a model server."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fanfold.price import Price

PRICE = Price(input=1000.0, output=1000.0)
"""$0.001 a token, for the roster and for the server's books."""

PLAN = """\
name: talk
budget: {{usd: 100}}
input: {{jsonl: items.jsonl, id: id}}
steps:
  - map:
      prompt: "Say {{{{ item.text }}}}"
      member: m
      concurrency: {concurrency}
  - reduce: {{kind: concat, sep: " / "}}
"""

MEMBER = """\
  - id: m
    kind: openai
    model: test-model
    base_url: {url}/v1
    price: {{input: 1000, output: 1000}}
    max_tokens: 50
    good_at: [talking]
    limits: {{concurrency: 8}}
"""


def write_project(folder: Path, url: str, *, items: int = 6, concurrency: int = 3) -> None:
    """plan.yaml, roster.yaml and items.jsonl: so many calls to a member at that address."""
    folder.mkdir(exist_ok=True)
    (folder / "plan.yaml").write_text(PLAN.format(concurrency=concurrency))
    (folder / "roster.yaml").write_text("members:\n" + MEMBER.format(url=url))
    write_items(folder, [f"word {n}" for n in range(items)])


def write_items(folder: Path, texts: list[str]) -> None:
    rows = ({"id": f"i{n}", "text": text} for n, text in enumerate(texts))
    (folder / "items.jsonl").write_bytes(b"".join(msgspec.json.encode(r) + b"\n" for r in rows))


SHOUT = """\
def shout(item):
    if item["text"] == "boom":
        raise ValueError("cannot")
    return item["text"].upper()
"""


def write_function_project(
    folder: Path, *, gate: str = "", on_failure: str = "skip", code: str = SHOUT
) -> None:
    """Three items for a function: `good` comes back as GOOD, `bad 2` as BAD 2, `boom` raises."""
    (folder / "shouting.py").write_text(code)
    (folder / "roster.yaml").write_text(
        "members:\n  - {id: shout, kind: function, target: 'shouting:shout'}\n"
    )
    (folder / "items.jsonl").write_text(
        '{"id": "one", "text": "good"}\n{"id": "two", "text": "bad 2"}\n{"id": "three", "text": "boom"}\n'
    )
    (folder / "plan.yaml").write_text(
        "name: shout\ninput: {jsonl: items.jsonl}\nsteps:\n"
        f"  - map:\n      member: shout\n      on_failure: {on_failure}\n"
        + (f"      gate:\n        - {gate}\n" if gate else "")
        + "  - reduce: collect\n"
    )
