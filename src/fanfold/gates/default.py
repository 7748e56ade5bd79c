"""The gate that holds when none is stated, and that every stated one stands on."""

from __future__ import annotations

import re
from collections.abc import Awaitable

from fanfold.gates import checks
from fanfold.work.ask import Reply, Schema
from fanfold.work.outcome import PASS, Verdict, fail
from fanfold.work.task import AskPower, Gate, Task, asking, known_as, nature_of, reading

_EMPTY = fail("the reply is empty")
_REFUSED = fail("the member refused to answer")
_CUT_OFF = fail("the reply was cut off before its end; keep it shorter")

# A refusal in words is told only by the plainest of them, at the beginning of a short reply:
# "I cannot find any such clause" is an answer.
_LONGEST_REFUSAL = 400
_refuses = re.compile(
    r"""(?: \W* (?:i['’]?m\s|i\sam\s)? (?:very\s|so\s)? (?:sorry|i\sapologi[sz]e) [,.!;:]? \s+
            (?:but\s+)? )?
        (?: as\san\sai\b [^,.]{0,40} ,\s* )?
        i \s* (?: can['’]?t | cannot | can\snot | won['’]?t | will\snot
               | (?:['’]|\sa|a)?m\s(?:unable|not\sable)\sto ) \s+
        (?: (?:help|assist) (?:\syou)? (?:\swith)?
            (?: \s(?:this|that|these|those|such|your)\b | \s*[.,!] | \s*$ )
          | comply\b
          | (?:fulfil+|complete|process|answer) \s(?:this|that|your)\s (?:request|question|task)\b
        )""",
    re.IGNORECASE | re.VERBOSE,
).match


def default(schema: Schema | None = None) -> Gate:
    """Not empty, not cut off, not a refusal, and valid against the schema when there is one.

    No findings (an empty list or object) is an answer and passes; `require` what must be there.
    """
    fits = None if schema is None else checks.schema(schema.definition)

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict | Awaitable[Verdict]:
        if reply.finish != "stop":
            return _broken_off(reply)
        value = reply.value
        if isinstance(value, str):
            if not value or value.isspace():
                return _EMPTY
            if len(value) <= _LONGEST_REFUSAL and _refuses(value):
                return _REFUSED
        return PASS if fits is None else fits(task, reply, ask)

    return known_as("pure", check)


def _broken_off(reply: Reply) -> Verdict:
    match reply.finish:
        case "length":
            return _CUT_OFF
        case "refusal":
            return _REFUSED
    why = f"`{reply.reason}`" if reply.reason else "no reason given"
    return fail(f"the reply may have been cut off: it has no known end ({why})")


def standard(stated: Gate | None, schema: Schema | None = None) -> Gate:
    """The default gate, and then the stated one.

    The stated gate is called only for replies that pass the default one, so it may rely on the
    schema.
    """
    first = default(schema)
    if stated is None:
        return first

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict | Awaitable[Verdict]:
        said = first(task, reply, ask)
        return stated(task, reply, ask) if said is PASS else said

    return known_as(nature_of(stated), reading(asking(check, parts=[stated]), parts=[stated]))
