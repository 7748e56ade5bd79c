"""`inputs` and `outputs` of a step: paths as templates over the item, which become the files of its ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.work.carried import AskFiles, FileTrouble, check_pattern, describe_inputs
from fanfold.work.template import Template


class FileTemplates(msgspec.Struct, frozen=True):
    """`folder`: what the paths are relative to."""

    inputs: tuple[Template, ...]
    outputs: tuple[Template, ...]
    folder: str

    def rendered(self, names: dict[str, Any]) -> AskFiles:
        """FileTrouble: a path leads out of the folder, or an input cannot be carried."""
        inputs = _paths(self.inputs, "inputs", names)
        outputs = _paths(self.outputs, "outputs", names)
        return AskFiles(describe_inputs(Path(self.folder), inputs), outputs, self.folder)


def _paths(templates: Sequence[Template], what: str, names: dict[str, Any]) -> tuple[str, ...]:
    """A path that is empty names nothing."""
    found = (one.render(**names).strip() for one in templates)
    return tuple(dict.fromkeys(check_pattern(path, what) for path in found if path))


def file_templates(
    inputs: Sequence[str], outputs: Sequence[str], known: Iterable[str], folder: str | Path
) -> FileTemplates | None:
    if not (inputs or outputs):
        return None
    return FileTemplates(
        tuple(path_template(one, "inputs", known) for one in inputs),
        tuple(path_template(one, "outputs", known) for one in outputs),
        str(Path(folder).absolute()),
    )


def path_template(text: str, what: str, known: Iterable[str]) -> Template:
    """BadInput: it is no template, or leads out of the folder whatever the item is."""
    made = Template(text, name=what, known=frozenset(known))
    plain = text.partition("{{")[0].partition("{%")[0]
    try:
        check_pattern(plain if plain == text else f"{plain}x", what)
    except FileTrouble as error:
        raise BadInput(str(error).replace(f"`{plain}x`", f"`{text}`")) from None
    if made.media:
        raise BadInput(f"`{made.media[0]}` has no use in `{what}`: it takes paths")
    return made
