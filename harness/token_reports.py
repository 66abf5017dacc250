"""What a host says about single tokens -> Reported, each part whole or None.

Knows nothing of vocabularies: whether the ids make the text is for others to see.
"""

import re
from collections.abc import Iterable, Sequence

from harness import records
from harness.types import Reported

TOKEN_ID = re.compile(r"token_id:([0-9]{1,9})")


class Reports:
    """Ids and bytes from every place where hosts put them; places that contradict each other count as silent."""

    __slots__ = ("_entries", "_ids", "_no_entries", "_no_ids", "_outputs", "_prompts")

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._entries: list[records.Logprob] = []
        self._no_ids = self._no_entries = False  # a choice that had to have them came without
        self._outputs: list[list[int]] = []  # each one whole
        self._prompts: list[list[int]] = []

    def add(self, answer: records.Answer, choice: records.Choice | None, *, carries: bool) -> None:
        """Take a body or an event; `carries` where it holds text or an end, so that there must be tokens behind it."""
        if answer.prompt_token_ids:
            self._prompts.append(answer.prompt_token_ids)
        if answer.sglext is not None:
            self._prompts += [answer.sglext.input_ids] if answer.sglext.input_ids else []
            self._outputs += answer.sglext.output_ids or []
        if choice is None:
            return
        if choice.prompt_token_ids:
            self._prompts.append(choice.prompt_token_ids)
        ids = choice.response_token_ids if choice.token_ids is None else choice.token_ids
        if choice.response_token_ids not in (None, ids):
            self._no_ids = True
        elif ids is not None:
            self._ids += ids
        elif carries:
            self._no_ids = True
        entries = None if choice.logprobs is None else choice.logprobs.content
        if entries is not None:
            self._entries += entries
        elif carries:
            self._no_entries = True

    def total(self) -> Reported | None:
        """None where nothing came."""
        if not (self._ids or self._entries or self._outputs or self._prompts):
            return None
        entries = [] if self._no_entries else self._entries
        ids = [] if self._no_ids else self._ids
        reported = Reported(
            ids=_agreed([ids, _entry_ids(entries), *self._outputs]),
            token_bytes=_entry_bytes(entries),
            prompt_ids=_agreed(self._prompts),
        )
        return None if reported == Reported() else reported


def _agreed(rows: Iterable[Sequence[int]]) -> tuple[int, ...] | None:
    """The one row that all non-empty rows are equal to: a prompt or an answer of no ids does not exist."""
    distinct = {tuple(row) for row in rows if row}
    return distinct.pop() if len(distinct) == 1 else None


def _entry_ids(entries: list[records.Logprob]) -> list[int]:
    """Ids of entries whose tokens are named `token_id:N`, [] unless all are."""
    found = [TOKEN_ID.fullmatch(entry.token or "") for entry in entries]
    ids = [int(match[1]) for match in found if match]
    return ids if len(ids) == len(entries) else []


def _entry_bytes(entries: list[records.Logprob]) -> tuple[bytes, ...] | None:
    """Bytes of every entry; None where one lacks them, or where they only spell its name `token_id:N`."""
    rows = [bytes(entry.bytes) for entry in entries if entry.bytes is not None]
    if not rows or len(rows) < len(entries):
        return None
    named = any(
        TOKEN_ID.fullmatch(e.token or "") and row == (e.token or "").encode()
        for e, row in zip(entries, rows, strict=True)
    )
    return None if named else tuple(rows)
