"""One product, read by rules: facts, each with the words of the material that it rests on."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import licences
from denial import denied
from languages import endings_of, main_language

FIELDS = (
    "licence", "language", "since", "data_end", "commits", "tags", "latest_tag",
    "docker", "kubernetes", "hosted", "install",
)  # fmt: skip
SPEAKS_OF = {
    "docker": re.compile(r"docker", re.IGNORECASE),
    "kubernetes": re.compile(r"kubernetes|\bk8s\b", re.IGNORECASE),
    "hosted": re.compile(
        r"(?:fully[- ]|our )?(?:managed|hosted)[\w ,*\[(-]{0,30}(?:cloud|service|cluster|offering)"
        r"|\b[A-Z]\w+ Cloud\b|cloud service"
    ),
}
INSTALLS = re.compile(
    r"\b(pip3? install|npm (?:i|install)|yarn add|cargo (?:add|install)|go get|gem install"
    r"|brew install|conda install|apt(?:-get)? install|docker (?:run|pull|compose up)|helm install)\b"
)
_COMMAND = re.compile(r"(?:\\\n|[^\n`])*")  # to the end of its line, and of those that continue it
_HEADLINE = re.compile(r"^===== (.+) =====$", re.MULTILINE)
_COMMITS = re.compile(r"(\d+) commits in all")
_TAGS = re.compile(r"(\d+) version tags in all")
_YEAR = re.compile(r'"(\d{4})": \d+')
_TAG = re.compile(r"^\S+ (.+)$", re.MULTILINE)
_SIZE = re.compile(r'^"(\S+)": (\d+),?$', re.MULTILINE)
_LAST = ("readme", "licence file", "commits by year", "bytes by file ending",
         "version tags, the last of them", "counted from these files")  # fmt: skip


class Fact(NamedTuple):
    field: str
    value: str
    evidence: str


def product(item: dict[str, Any]) -> dict[str, Any]:
    """The member's function. Without any material there is nothing to say, and it says so."""
    if broken := item.get("broken"):
        raise ValueError(broken)
    parts = sections(item["text"])
    if not parts:
        raise ValueError(f"there is no README and no evidence of {item['product']}")
    facts = [
        *_licence(parts),
        *_language(parts),
        *_activity(parts),
        *_readme(parts.get("readme", ""), item["product"]),
    ]
    told = {fact.field for fact in facts}
    return {
        "product": item["product"],
        "facts": [fact._asdict() for fact in facts],
        "absent": [field for field in FIELDS if field not in told],
    }


def sections(text: str) -> dict[str, str]:
    """By headline. Of two with one name the later counts: a README may hold anything."""
    found = [match for match in _HEADLINE.finditer(text) if match[1] in _LAST]
    named = {match[1]: match for match in found}
    ends = {match.start() for match in named.values()} | {len(text)}
    return {
        name: text[match.end() : min(end for end in ends if end > match.start())].strip()
        for name, match in named.items()
    }


def _licence(parts: dict[str, str]) -> list[Fact]:
    """The file goes before what the README says of it."""
    found = licences.of_file(parts.get("licence file", "")) or licences.of_readme(
        parts.get("readme", "")
    )
    return [] if found is None else [Fact("licence", found.name, found.quote)]


def _language(parts: dict[str, str]) -> list[Fact]:
    listed = parts.get("bytes by file ending", "")
    sizes = {match[1]: int(match[2]) for match in _SIZE.finditer(listed)}
    found = main_language(sizes)
    if found is None:
        return []
    end = next(iter(endings_of(found, sizes)), ".h")
    return [Fact("language", found, f'"{end}": {sizes[end]}')]


def _activity(parts: dict[str, str]) -> list[Fact]:
    """Numbers as they were counted, quoted from what they were counted from."""
    facts, counted = [], parts.get("counted from these files", "")
    listed = parts.get("commits by year", "")
    years = list(_YEAR.finditer(listed))
    if years and (match := _COMMITS.search(counted)):
        facts += [Fact("commits", match[1], listed), Fact("since", years[0][1], years[0][0]),
                  Fact("data_end", years[-1][1], years[-1][0])]  # fmt: skip
    shown = parts.get("version tags, the last of them", "")
    tags = list(_TAG.finditer(shown))
    if tags and (match := _TAGS.search(counted)):
        facts += [
            Fact("tags", match[1], shown),
            Fact("latest_tag", tags[-1][1], tags[-1][0]),
        ]
    return facts


def _readme(readme: str, product: str) -> list[Fact]:
    facts = []
    for field, words in SPEAKS_OF.items():
        found = list(words.finditer(readme))
        said = [match for match in found if not denied(readme, match.start())]
        if found:
            facts.append(Fact(field, "yes" if said else "no", _line_of(readme, (said or found)[0])))
    own = [one for one in INSTALLS.finditer(readme) if _installs(readme, one, product)]
    ways = {match[1]: _line_of(readme, match) for match in reversed(own)}
    if ways:
        first = list(reversed(ways.items()))
        facts.append(Fact("install", ", ".join(way for way, _ in first), first[0][1]))
    return facts


def _installs(readme: str, match: re.Match[str], product: str) -> bool:
    """Whether it is the product that is installed, not a tool to build it with: the command names it,
    or starts all that stands in its own file."""
    command = _COMMAND.match(readme, match.start())
    named = command is not None and product.lower() in command[0].lower()
    return named or match[1] == "docker compose up"


def _line_of(text: str, match: re.Match[str], most: int = 120) -> str:
    """The words around it, of its own line; cut between words."""
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    line_end = len(text) if end < 0 else end
    if start < match.start() - most // 2:
        start = match.start() - most // 2
        start += (re.search(r"\s|$", text[start : match.start()]) or match).start()
    return text[start : min(line_end, start + most)].strip()
