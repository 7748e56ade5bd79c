"""How large the conversation of an agent with its model is, and so what one more call can take."""

from __future__ import annotations

from fanfold.members.agents.worker import CallSize

SPEED = 1_000  # tokens a second: several times what services write with the agents' models
SLACK = 1_024  # tokens that a service may have written and that were not read yet


class ConversationSize:
    """The context as it stands: exact after each reply, then with every byte that was added counted
    as a token, since a token is never less. Never more than the window.

    `first`: tokens of the program's own instructions and tools, which the first call takes. A session
    that is resumed has a past that nobody here knows: then it is the whole window.
    """

    def __init__(self, call: CallSize, first: int, *, resumed: bool) -> None:
        self._call = call
        self._tokens = call.context if resumed else first + call.prompt
        self._asked: float | None = None

    @property
    def tokens(self) -> int:
        return min(self._call.context, self._tokens)

    @property
    def output(self) -> int:
        """The most that one reply can be."""
        return self._call.output

    def replied(self, tokens: int) -> None:
        """A reply has come: so many tokens went in and came out."""
        self._tokens, self._asked = tokens, None

    def grew(self, size: int) -> None:
        """So many bytes will be sent with the next call."""
        self._tokens += size

    def asked(self, at: float | None) -> None:
        """From this time on the model may be writing."""
        self._asked = at

    def written(self, until: float | None) -> int:
        """The most tokens that a call under way can have written by then."""
        if until is None or self._asked is None or until < self._asked:  # a clock was set back
            return self.output
        return min(self.output, SLACK + round(SPEED * (until - self._asked)))
