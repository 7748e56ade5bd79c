"""The programs whose way is known."""

from __future__ import annotations

from fanfold.members.agents.claude import Claude
from fanfold.members.agents.codex import Codex
from fanfold.members.agents.dialect import Dialect
from fanfold.members.agents.gemini import Gemini
from fanfold.members.agents.opencode import Opencode

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (Claude(), Codex(), Gemini(), Opencode())
}
