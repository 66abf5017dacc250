"""Ids <-> bytes: the 163,584 ranks, whose sha256 is pinned, and the frozen table of the 256 control ids.

A `Vocab` cannot be built from anything else. Knows nothing of files, of splitting text into tokens, or of what a
control id means in an answer.
"""

import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType

from harness.errors import ProviderError, SetupError

VOCAB_SHA256 = "b6c497a7469b33ced9c38afb1ad6e47f03f5e5dc05f15930799210ec050c5103"
"""sha256 of `tiktoken.model`, 2,795,286 bytes, the same file for the whole family."""
CONTROL_SHA256 = "c7e10691989b0a2894e8f24434917b4ad647dbed4a58dbda72a4e79dd64a566c"
"""sha256 of the frozen control table, a line "NAME ID" an id, in the order of the ids."""
N_RANKS = 163_584
N_CONTROL = 256
N_IDS = N_RANKS + N_CONTROL
MAX_MODEL_BYTES = 8 << 20
"""Longest `tiktoken.model` text that is parsed; the real one has 2.8 MB."""

_NAMED = {
    163584: "[BOS]",
    163585: "[EOS]",
    163586: "<|im_end|>",
    163587: "<|im_user|>",
    163588: "<|im_assistant|>",
    163590: "<|start_header_id|>",
    163591: "<|end_header_id|>",
    163593: "[EOT]",
    163594: "<|im_system|>",
    163595: "<|tool_calls_section_begin|>",
    163596: "<|tool_calls_section_end|>",
    163597: "<|tool_call_begin|>",
    163598: "<|tool_call_argument_begin|>",
    163599: "<|tool_call_end|>",
    163601: "<|im_middle|>",
    163602: "<|media_begin|>",
    163603: "<|media_content|>",
    163604: "<|media_end|>",
    163605: "<|media_pad|>",
    163606: "<think>",
    163607: "</think>",
    163838: "[UNK]",
    163839: "[PAD]",
}
CONTROL_NAMES: tuple[str, ...] = tuple(_NAMED.get(i, f"<|reserved_token_{i}|>") for i in range(N_RANKS, N_IDS))
"""Names of the control ids, shape [256], first to last."""
CONTROL_IDS: Mapping[str, int] = MappingProxyType({name: N_RANKS + k for k, name in enumerate(CONTROL_NAMES)})
NAMED_CONTROL_IDS: Mapping[str, int] = MappingProxyType({name: i for i, name in _NAMED.items()})
"""The 23 control ids that have a name of their own."""

REMEDY_RANKS = (
    "Use splintr-rs 0.22, which embeds the right ranks, or the tiktoken.model of moonshotai/Kimi-K2.5 at a pinned "
    "revision, byte for byte."
)
_REMEDY_CONTROL = (
    "Use the original tiktoken.model and tokenizer_config.json of moonshotai/Kimi-K2.5 at a pinned revision, and never "
    "the fast class that AutoTokenizer makes of them."
)
_SHIFTED = (
    "This is the table that transformers 5 makes when it converts the slow tokenizer: it closes the gaps between the "
    "reserved ids and so moves every id above the first gap. "
)


@cache
def control_pattern() -> re.Pattern[str]:
    """Finds names of control ids in a text; compiled at first use, since most answers hold none."""
    return re.compile("|".join(re.escape(name) for name in sorted(CONTROL_IDS, key=len, reverse=True)))


def tiktoken_model_text(ranks: Sequence[bytes]) -> bytes:
    """The `tiktoken.model` file of these ranks: a line `base64(bytes) id` each."""
    encode = binascii.b2a_base64
    return b"".join([b"%b %d\n" % (encode(token, newline=False), i) for i, token in enumerate(ranks)])


def parse_tiktoken_model(data: bytes) -> list[bytes]:
    """The ranks of a `tiktoken.model` text; strict, so that one text is one list. Does not compare the hash.

    Raises:
        SetupError: The text is too long, or a line is not `base64 id` with the ids 0, 1, 2 and so on.
    """
    if len(data) > MAX_MODEL_BYTES:
        raise SetupError(f"tiktoken.model: {len(data)} bytes, at most {MAX_MODEL_BYTES} expected. {REMEDY_RANKS}")
    *lines, rest = data.split(b"\n")
    if rest or not lines:
        raise SetupError(f"tiktoken.model: the last line is cut or there is none: {rest[:60]!r}. {REMEDY_RANKS}")
    return [_token_of_line(line, i) for i, line in enumerate(lines)]


def _token_of_line(line: bytes, i: int) -> bytes:
    text, _, number = line.partition(b" ")
    try:
        token = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error as error:
        raise SetupError(f"tiktoken.model: line {i + 1} is not base64 ({error}): {line[:60]!r}") from None
    if number != b"%d" % i or not token:
        raise SetupError(f"tiktoken.model: line {i + 1} is {line[:60]!r}, expected base64, one space and {i}")
    return token


def check_model_hash(text: bytes) -> None:
    """Refuses a `tiktoken.model` text that is not the pinned one, naming both hashes."""
    got = hashlib.sha256(text).hexdigest()
    if got != VOCAB_SHA256:
        raise SetupError(
            f"not the vocabulary of Kimi K2: tiktoken.model of these ranks has sha256 {got} ({len(text)} bytes), "
            f"expected {VOCAB_SHA256} (2795286 bytes). {REMEDY_RANKS}"
        )


def control_hash(control: Mapping[str, int]) -> str:
    """sha256 of a control table; see CONTROL_SHA256."""
    lines = [f"{name} {i}\n" for i, name in sorted((i, name) for name, i in control.items())]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def check_control(control: Mapping[str, int]) -> None:
    """Refuses a table of control ids that differs from the frozen one, naming the first that moved.

    `<|im_end|>` alone proves nothing: it lies below the first gap and does not move.
    """
    if control == CONTROL_IDS:
        return
    moved = [f"{n} is {control[n]}, must be {i}" for n, i in CONTROL_IDS.items() if control.get(n, i) != i]
    missing = [f"{n} ({i}) is missing" for n, i in CONTROL_IDS.items() if n not in control]
    unknown = [f"{n!r} ({i}) is unknown" for n, i in control.items() if n not in CONTROL_IDS]
    wrong = moved + missing + unknown
    more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
    why = _SHIFTED if _is_compacted(control) else ""
    raise SetupError(
        f"not the control ids of Kimi K2: {'; '.join(wrong[:4])}{more}; sha256 of the table is "
        f"{control_hash(control)}, expected {CONTROL_SHA256}. {why}{_REMEDY_CONTROL}"
    )


def _is_compacted(control: Mapping[str, int]) -> bool:
    """Whether the named ids are numbered without a gap, in the frozen order."""
    return all(control.get(name) == N_RANKS + k for k, name in enumerate(NAMED_CONTROL_IDS))


@dataclass(frozen=True, slots=True, eq=False)
class Vocab:
    """The whole vocabulary; only the pinned one can be built.

    Attributes:
        ranks: Bytes of each ordinary id, shape [163584].
    """

    ranks: tuple[bytes, ...]
    _table: tuple[bytes, ...] = field(init=False, repr=False)
    _index: dict[bytes, int] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        check_model_hash(tiktoken_model_text(self.ranks))
        object.__setattr__(self, "_table", (*self.ranks, *(name.encode() for name in CONTROL_NAMES)))

    @classmethod
    def from_ranks(cls, ranks: Sequence[bytes], control: Mapping[str, int] | None = None) -> "Vocab":
        """The vocabulary of these ranks, the one way to get one.

        Args:
            ranks: Bytes of the ids 0, 1, 2 and so on.
            control: All control ids by name, where the source has a table of its own.

        Raises:
            SetupError: The ranks or the control ids are not the pinned ones; names both hashes and what to do.
        """
        if control is not None:
            check_control(control)
        return cls(tuple(ranks))

    def token_bytes(self, token_id: int) -> bytes:
        """Bytes of one id; of a control id, the bytes of its name."""
        if not 0 <= token_id < N_IDS:
            raise _outside(token_id)
        return self._table[token_id]

    def decode(self, ids: Iterable[int]) -> bytes:
        """The bytes of all ids, joined; control ids as their names.

        Raises:
            ProviderError: An id is outside 0..163839.
        """
        listed = list(ids)
        # A plain look-up would take -1 for the last id.
        if listed and not (min(listed) >= 0 and max(listed) < N_IDS):
            raise _outside(next(i for i in listed if not 0 <= i < N_IDS))
        return b"".join(map(self._table.__getitem__, listed))

    def decode_text(self, ids: Iterable[int]) -> str:
        """The text of all ids, strictly: a character cut in two is an error, never U+FFFD.

        Raises:
            ProviderError: An id is outside the vocabulary, or the bytes are not UTF-8.
        """
        data = self.decode(ids)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ProviderError(f"the bytes of these ids are not UTF-8: {error}") from None

    def find(self, token: bytes) -> int | None:
        """The ordinary id that has these bytes; None where no one has. Control ids are never found."""
        if not self._index:
            self._index.update(zip(self.ranks, range(N_RANKS), strict=True))
        return self._index.get(token)

    @staticmethod
    def is_control(token_id: int) -> bool:
        """Whether the id is one of the 256 control ids."""
        return N_RANKS <= token_id < N_IDS

    @staticmethod
    def control_name(token_id: int) -> str:
        """The name of a control id, for example `</think>`; KeyError for any other id."""
        if not N_RANKS <= token_id < N_IDS:
            raise KeyError(f"{token_id} is no control id ({N_RANKS}..{N_IDS - 1})")
        return CONTROL_NAMES[token_id - N_RANKS]


def is_ids(value: object) -> bool:
    """Whether a value is a list of ids of the vocabulary."""
    return isinstance(value, list) and all(type(i) is int and 0 <= i < N_IDS for i in value)


def _outside(token_id: int) -> ProviderError:
    return ProviderError(f"id {token_id} is outside the vocabulary (0..{N_IDS - 1})")
