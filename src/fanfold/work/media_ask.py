"""Asks with files, for members that take them and for those that do not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

import msgspec

from fanfold.errors import Terminal
from fanfold.work.ask import Ask, Message
from fanfold.work.carried import FileTrouble, check_sizes
from fanfold.work.media import Attachment, MediaKind, read_content
from fanfold.work.media_files import page_texts
from fanfold.work.member import Traits

_PLURAL: dict[MediaKind, str] = {"image": "images", "document": "PDFs", "audio": "audio"}


def untaken(traits: Traits, kinds: tuple[MediaKind, ...]) -> str | None:
    """Why a member cannot be sent such files; None where it can. A PDF goes to all: as text to those
    that do not take it. Whoever receives items opens their files itself."""
    if traits.takes == "items" or traits.kind == "replay":
        return None
    lacking = [kind for kind in kinds if kind not in traits.media and kind != "document"]
    if not lacking:
        return None
    return (
        f"member `{traits.id}` (kind {traits.kind}) takes no {_PLURAL[lacking[0]]}: name one that does,"
        f" or state `media: [{lacking[0]}]` for it in the roster if it does"
    )


def refused_media(
    askable: Sequence[Traits], kinds: tuple[MediaKind, ...], named: Collection[str]
) -> str | None:
    """Why these cannot be asked about such files: one that is named takes none, or nobody does."""
    why = {one.id: untaken(one, kinds) for one in askable} if kinds else {}
    lacking = [id for id, reason in why.items() if reason]
    by_name = [id for id in lacking if id in named]
    if by_name:
        return why[by_name[0]]
    return why[lacking[0]] if lacking and len(lacking) == len(why) else None


def kinds_in(ask: Ask) -> tuple[MediaKind, ...]:
    return tuple(dict.fromkeys(one.kind for one in ask.attachments()))


def for_member(ask: Ask, traits: Traits) -> Ask:
    """The ask as this member is sent it: PDFs that it does not take are texts, and the files that it needs
    itself go along. Terminal: it cannot be sent the others."""
    if ask.files is not None or traits.files is not None:
        ask = _with_files(ask, traits)
    if traits.takes == "items" or not ask.shows_files:
        return ask
    kinds = kinds_in(ask)
    if set(kinds) <= set(traits.media):
        return ask
    if why := untaken(traits, kinds):
        raise Terminal(why, scope="ask")
    if traits.kind == "replay":
        return ask
    return msgspec.structs.replace(ask, messages=tuple(map(_in_words, ask.messages)))


def _with_files(ask: Ask, traits: Traits) -> Ask:
    if not traits.takes_files:
        why = f"`inputs` and `outputs` are for commands and agents, not for {traits.id}"
        raise Terminal(why, scope="ask")
    own = traits.files
    if ask.files is None and own is not None and not (own.inputs or own.outputs):
        return ask
    try:
        files = own if ask.files is None else ask.files.joined(own)
        if traits.at and files is not None and not files.shared:
            check_sizes(files.inputs, "inputs")
    except FileTrouble as error:
        raise Terminal(f"{traits.id}: {error}", scope="ask") from None
    return msgspec.structs.replace(ask, files=files)


def _in_words(message: Message) -> Message:
    """The message with the text of each PDF in its place."""
    text, parts, grown = message.content, list[Attachment](), 0
    for one in message.parts:
        if one.kind != "document":
            parts.append(one.moved(grown))
            continue
        said = document_text(one)
        at = one.at + grown
        text, grown = text[:at] + said + text[at:], grown + len(said)
    return Message(message.role, text, tuple(parts))


def document_text(one: Attachment) -> str:
    return _text(msgspec.structs.replace(one, at=0))


@lru_cache(64)
def _text(one: Attachment) -> str:
    """Its name is not in it: replies serve whoever asks the same, whatever the file is called there."""
    pages = "\n\n".join(text.strip() for text in page_texts(read_content(one)))
    return f"<document>\n{pages.strip() or '(there is no text in it)'}\n</document>\n"
