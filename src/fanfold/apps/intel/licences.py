"""Licences by their own words: as a licence file begins, and as a README names them."""

from __future__ import annotations

import re
from typing import NamedTuple

from denial import denied


class Named(NamedTuple):
    """A licence by its SPDX name, and the words that gave it away."""

    name: str
    quote: str


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE)


FILES = [
    ("AGPL-3.0", _words(r"GNU AFFERO GENERAL PUBLIC LICENSE Version 3")),
    ("LGPL-3.0", _words(r"GNU LESSER GENERAL PUBLIC LICENSE Version 3")),
    ("LGPL-2.1", _words(r"GNU LESSER GENERAL PUBLIC LICENSE Version 2\.1")),
    ("GPL-3.0", _words(r"GNU GENERAL PUBLIC LICENSE Version 3")),
    ("GPL-2.0", _words(r"GNU GENERAL PUBLIC LICENSE Version 2")),
    ("MPL-2.0", _words(r"Mozilla Public License,? (?:Version|v\.) ?2\.0")),
    ("BUSL-1.1", _words(r"Business Source License 1\.1")),
    ("SSPL-1.0", _words(r"Server Side Public License")),
    ("Elastic-2.0", _words(r"Elastic License 2\.0")),
    ("EPL-2.0", _words(r"Eclipse Public License - v 2\.0")),
    ("BSL-1.0", _words(r"Boost Software License - Version 1\.0")),
    ("Apache-2.0", _words(r"Apache License,? Version 2\.0")),
    ("Unlicense", _words(r"This is free and unencumbered software released into the public domain")),
    ("PostgreSQL", _words(
        r"Permission to use, copy, modify, and distribute this software and its documentation for any "
        r"purpose, without fee, and without a written agreement")),
    ("ISC", _words(
        r"Permission to use, copy, modify, and/or distribute this software for any purpose with or "
        r"without fee")),
    ("MIT", _words(r"Permission is hereby granted, free of charge, to any person obtaining a copy")),
    ("Zlib", _words(r"This software is provided 'as-is', without any express or implied warranty")),
    ("BSD-3-Clause", _words(
        r"(?:Neither the names? of|The names? of) .{1,80}? (?:may|nor the names?)")),
    ("BSD-2-Clause", _words(r"Redistributions in binary form must reproduce")),
]  # fmt: skip

READMES = [
    ("AGPL-3.0", _words(r"(?:\bAGPL[ -]?v?3|GNU Affero General Public License)")),
    ("LGPL-3.0", _words(r"(?:\bLGPL[ -]?v?3|GNU Lesser General Public License)")),
    ("GPL-3.0", _words(r"(?:(?<![AL])GPL[ -]?v?3|GNU General Public License v?3)")),
    ("MPL-2.0", _words(r"(?:\bMPL[ -]?2|Mozilla Public License)")),
    ("BUSL-1.1", _words(r"Business Source License")),
    ("SSPL-1.0", _words(r"(?:\bSSPL\b|Server Side Public License)")),
    ("Elastic-2.0", _words(r"Elastic License")),
    ("Apache-2.0", _words(r"Apache(?:[ _-]|%20)(?:License,? )?(?:Version )?2(?:\.0)?")),
    ("BSD-3-Clause", _words(r"BSD[ -]3[ -]Clause")),
    ("BSD-2-Clause", _words(r"BSD[ -]2[ -]Clause")),
    ("PostgreSQL", _words(r"PostgreSQL License")),
    ("ISC", _words(r"\bISC License")),
    ("MIT", _words(r"\bMIT[ -]licen[sc]ed?")),
]


def of_file(text: str) -> Named | None:
    return _first(FILES, text)


def of_readme(text: str) -> Named | None:
    """The one that is named last, and not denied: licences stand at the end, those of other things
    before."""
    found = [
        (match.start(), name, match[0])
        for name, words in READMES
        for match in words.finditer(text)
        if not denied(text, match.start())
    ]
    return Named(*max(found)[1:]) if found else None


def _first(table: list[tuple[str, re.Pattern[str]]], text: str) -> Named | None:
    for name, words in table:
        if match := words.search(text):
            return Named(name, match[0])
    return None
