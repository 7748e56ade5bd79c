"""Arguments of the public functions and records: an unknown one is refused by its name, at once.

Python would take any name into `**options`, and a misspelt gate would be no gate at all. Where it
does refuse one, it does not say which name was meant.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import lru_cache, wraps
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, TypeVar, Unpack, cast, get_args, get_origin, get_type_hints

import msgspec

from fanfold.errors import BadArgument, BadInput
from fanfold.work.nearest import remedy

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_OURS = (f"{Path(__file__).parents[1]}{os.sep}", f"{Path(os.__file__).parent}{os.sep}",
         "uvloop/")  # fmt: skip
"""Where our own code is, and what calls it."""


def public(fn: F, within: Callable[[Mapping[str, Any], Any], Awaitable[Any]] | None = None) -> F:
    """A function for users. Its keywords are those it writes out and those of its `Unpack[...]`. A
    traceback of bad input ends here, below the line of the user's that called it. `within`: how the async
    `fn` is carried out, by its arguments."""

    def check(args: tuple[Any, ...], named: Mapping[str, Any]) -> Mapping[str, Any]:
        _check_unnamed(fn, named)
        check_names(f"{fn.__name__}()", named, names_of(fn))
        try:
            given = _signature(fn).bind(*args, **named).arguments
        except TypeError as error:
            raise BadArgument(f"{fn.__name__}(): {error}") from None
        check_texts(fn.__name__, args, named)
        return given

    @wraps(fn)
    async def later(*args: Any, **named: Any) -> Any:
        try:
            given = check(args, named)
            work = fn(*args, **named)
            return await (work if within is None else within(given, work))
        except BadInput as error:
            raise _shortened(error) from error.__cause__

    @wraps(fn)
    def at_once(*args: Any, **named: Any) -> Any:
        try:
            check(args, named)
            return fn(*args, **named)
        except BadInput as error:
            raise _shortened(error) from error.__cause__

    made = later if inspect.iscoroutinefunction(fn) else at_once
    vars(made)["public"] = True
    return cast(F, made)


@lru_cache(maxsize=256)
def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    """Of a function of ours, which there are not many of."""
    return inspect.signature(fn)


def _shortened(error: BadInput) -> BadInput:
    """Its traceback with the frames of the user's only: those in this package, in Python's own library
    and in the event loop say nothing about a wrong input."""
    found, kept, frames = error.__traceback__, None, []
    while found is not None:
        frames.append(found)
        found = found.tb_next
    for one in reversed(frames):
        if not one.tb_frame.f_code.co_filename.startswith(_OURS):
            kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return error.with_traceback(kept)


class Checked(msgspec.StructMeta):
    """The kind of records that users make by hand: an unknown field is refused like an argument,
    and `check`, if there is one, looks at the values."""

    def __call__(cls, *args: Any, **named: Any) -> Any:
        check_names(f"{cls.__name__}()", named, cls.__struct_fields__)
        check_texts(cls.__name__, args, named)
        try:
            made = super().__call__(*args, **named)
        except TypeError as error:
            raise BadArgument(f"{cls.__name__}(): {error}") from None
        if check := getattr(made, "check", None):
            check()
        return made


def check_names(what: str, given: Collection[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            hint = remedy(name, known) if known else "it takes none by name"
            raise BadArgument(f"{what} has no argument `{name}`: {hint}")


def _check_unnamed(fn: Callable[..., Any], named: Collection[str]) -> None:
    """What is taken one after the other, as `*stages`, has no name."""
    parameters = _signature(fn).parameters.values()
    starred = next((one.name for one in parameters if one.kind is one.VAR_POSITIONAL), None)
    if starred in named:
        first = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        how = f"{fn.__name__}({', '.join([*first, f'*{starred}'])})"
        raise BadArgument(
            f"{fn.__name__}(): `{starred}` are given one by one, without a name: {how}"
        )


def check_texts(what: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Half a surrogate pair is in no file, and can neither be sent nor recorded."""
    for name, given in (*((None, one) for one in args), *named.items()):
        for one in given if isinstance(given, list | tuple) else (given,):
            if isinstance(one, str) and not one.isascii() and not _is_unicode(one):
                where = f"`{name}`" if name else "a text"
                raise BadInput(f"{what}(): {where} holds half a surrogate pair, which is no text")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@lru_cache(None)
def names_of(fn: Callable[..., Any]) -> frozenset[str]:
    """The names by which a function takes arguments; those of a TypedDict one by one."""
    inner = inspect.unwrap(fn)
    found: set[str] = set()
    for name, parameter in inspect.signature(inner).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= _unpacked(get_type_hints(inner)[name])
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            found.add(name)
    return frozenset(found)


def _unpacked(hint: Any) -> frozenset[str]:
    """The names in `Unpack[...]`; it is a mistake of ours if the keywords are not written out."""
    assert get_origin(hint) is Unpack, f"keywords of {hint}: write them out in a TypedDict"
    (stated,) = get_args(hint)
    return frozenset(stated.__required_keys__ | stated.__optional_keys__)


def takes(fn: Any, many: int) -> bool:
    """Whether it can be called with so many arguments, as far as its signature says."""
    if not callable(fn):
        return False
    if type(fn) is FunctionType and not hasattr(fn, "__wrapped__"):  # most are; this is quick
        code, lacking = fn.__code__, fn.__kwdefaults__ or ()
        least = code.co_argcount - len(fn.__defaults__ or ())
        named = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
        most = code.co_argcount if not code.co_flags & inspect.CO_VARARGS else many
        return least <= many <= most and all(name in lacking for name in named)
    try:
        inspect.signature(fn).bind(*[None] * many)
    except TypeError:
        return False
    except ValueError:  # some built-in functions have no signature
        return True
    return True


def is_async(fn: Any) -> bool:
    """Whether what it gives has to be awaited, as far as it says so itself."""
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    return any(kind(one) for one in (fn, type(fn).__call__) for kind in kinds)


def refuse_async(what: str, fn: Any) -> None:
    """For a function of the user's that is called where nothing can be awaited."""
    if is_async(fn):
        raise BadInput(f"{what} is `async def`, but nothing awaits it there: give a plain function")


def at_once(said: T) -> T:
    """What such a function gave; a plain one may still call an async one, and give what that makes."""
    if inspect.isawaitable(said):
        if inspect.iscoroutine(said):
            said.close()
        raise TypeError("it gave an awaitable, but nothing awaits it there")
    return said


def is_uncalled(fn: Any) -> bool:
    """Whether a public function was given where its result was meant: `require` for `require("a")`."""
    return bool(getattr(fn, "public", False))
