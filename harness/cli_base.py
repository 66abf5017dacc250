"""What every command shares: its options, the kit that judging needs, and clean ends.

Part of the command: it may print (stderr alone). Knows nothing of single commands.
"""

import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from harness import report
from harness.encoder import encode_ordinary, encode_prompt_text, load_vocab
from harness.errors import HarnessError, SetupError
from harness.flow import Kit, judge
from harness.formats import Format, find_format, formats
from harness.habits import Habits, load_habits
from harness.inputs import Entry
from harness.settings import settings
from harness.store import path_trouble
from harness.types import Verdict

MAX_HABITS_BYTES = 16 << 20
NOBODY = "unknown"
INTERRUPTED, NO_READER = 130, 141  # what shells report for SIGINT and SIGPIPE

Paths = Annotated[
    list[str], typer.Argument(metavar="PATH...", help="Files or folders: JSON, SSE text, JSONL (.gz), VCR cassettes.")
]
ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="M", help="Take this model's format whatever the file says.")
]
ProviderOption = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="PROVIDER",
        help="Take this provider's habits (a wrong one makes wrong verdicts); `unknown`: none.",
    ),
]
BlindOption = Annotated[bool, typer.Option("--blind", help="Forget ids, logprobs and engine extras before judging.")]
RayOption = Annotated[
    str | None, typer.Option("--ray", metavar="ADDRESS", help="Work on this Ray cluster: host:port, auto or local.")
]
HabitsOption = Annotated[
    str | None, typer.Option("--habits", metavar="FILE", help="Another habits file than the shipped one.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object, and nothing else.")]
RunUrlOption = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Where the run will call (TOKENPROOF_BASE_URL).")
]
MeantHostOption = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="HOST", help="Another host that may be meant; again for more."),
]
KeyHostOption = Annotated[
    list[str] | None, typer.Option("--allow-host", metavar="HOST", help="The key may be sent to this host too.")
]


def finite(value: float | None) -> float | None:
    """The callback of options that take a number: no bound keeps NaN out, and infinity passes where one is missing.

    Raises:
        BadParameter: It is not finite.
    """
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is no finite number.")
    return value


@dataclass(frozen=True, slots=True)
class Judging:
    """What every command that judges needs: the kit, and what its flags say."""

    kit: Kit
    model: str | None
    provider: str | None
    blind: bool

    def judged(self, entry: Entry) -> tuple[str, Verdict | Entry]:
        """(name, verdict), or the entry with its trouble: one answer's trouble never ends the rest.

        Nothing that it gives refers to the answer, so a long run holds one answer at a time.
        """
        return entry.name, self._found(entry)

    def _found(self, entry: Entry) -> Verdict | Entry:
        if entry.exchange is None:
            return entry
        try:
            return judge(entry.exchange, self.kit, model=self.model, provider=self.provider, blind=self.blind)
        except SetupError:
            raise  # our own inputs are wrong: every further answer would fail the same way
        except HarnessError as error:
            return Entry(entry.path, entry.line, trouble=str(error))
        except Exception as error:
            return Entry(entry.path, entry.line, trouble=bug(error))


def bug(error: Exception) -> str:
    """What to say of an exception that nobody foresaw."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    said = f"{type(error).__name__}: {error!s:.200} ({Path(where.filename).name}:{where.lineno})"
    return f"a bug of tokenproof, please report it with this input: {said}"


def judging(model: str | None, provider: str | None, blind: bool, habits: str | None) -> Judging:
    """Load and check everything once; SetupError where something is not as it must be."""
    model_format(model)
    known = habits_of(habits or settings().habits)
    _heed_unknown(provider, known)
    vocab = load_vocab(settings().vocab)
    return Judging(Kit(vocab, encode_ordinary, formats(), known, encode_prompt_text), model, provider, blind)


def model_format(model: str | None) -> Format | None:
    """The format of the model that was typed; None where none was.

    Raises:
        SetupError: No format covers it; lists what each of them does.
    """
    found = find_format(model, formats())
    if model is None or found is not None:
        return found
    patterns = (f"  {fmt.name}: {', '.join(fmt.models)}" for fmt in formats())
    said = (
        f"--model {model!r}, which no format covers; expected a name that one of these patterns matches, of any host:"
    )
    raise SetupError("\n".join((said, *patterns)))


def _heed_unknown(provider: str | None, habits: Habits) -> None:
    """A line on stderr where no habit names the provider that was typed: a misspelt one would prove less, silently."""
    if provider is None or provider == NOBODY:
        return
    name = habits.provider_name(provider)
    if name is None:
        raise SetupError(f"--as {provider!r} names nobody; expected a provider's name, or `unknown`")
    known = {h.provider for h in habits.lines} | set(habits.implies_format)
    if name in known:
        return
    names = {name.lower(): name for name in known} | dict(habits.aliases)
    near = list(dict.fromkeys(names[n] for n in get_close_matches(provider.lower(), names, n=5, cutoff=0.5)))[:3]
    said = f"the nearest names are {', '.join(near)}" if near else f"names are {', '.join(sorted(known))}"
    complain(f"--as {provider!r}: no habit names this provider, so that none is taken; {said}")


def habits_of(path: str | None) -> Habits:
    """The habits of a file, the shipped ones for None."""
    text = habits_text(path)
    try:
        return load_habits(text)
    except SetupError as error:
        raise SetupError(f"{path}: {error}" if path is not None else str(error)) from error


def habits_text(path: str | None) -> str:
    """The text of a habits file, of the shipped one for None."""
    if path is None:
        return (pkgutil.get_data("harness", "habits.toml") or b"").decode()
    if (trouble := path_trouble(path)) is not None:
        raise SetupError(f"{path!s:.200}: cannot be read: {trouble}; expected a habits file")
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_HABITS_BYTES + 1)
        if len(data) > MAX_HABITS_BYTES:
            said = f"more than {MAX_HABITS_BYTES >> 20} MiB; expected a file of `tokenproof calibrate`"
            raise SetupError(f"{path}: {said}")
        return data.decode()
    except OSError as error:
        raise SetupError(f"{path}: cannot be read: {error.strerror or error}; expected a habits file") from error
    except UnicodeDecodeError as error:
        raise SetupError(f"{path}: not UTF-8 text; expected a file of `tokenproof calibrate`") from error


@contextmanager
def clean_ends() -> Iterator[None]:
    """A reader that goes away, Ctrl-C and wrong inputs of ours end the command with a code and no traceback."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - closed by the caller: nothing to print to
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit must not fail again
        raise typer.Exit(NO_READER) from None
    except OSError as error:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        complain(f"cannot write: {error.strerror or error}; what came before is whole lines only")
        raise typer.Exit(report.EXIT_UNUSABLE) from None
    except KeyboardInterrupt:
        complain("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except SetupError as error:
        for line in str(error).split("\n"):  # a run file's faults come a line each
            complain(line)
        raise typer.Exit(report.EXIT_UNUSABLE) from None


def may_replace(path: str | None, option: str, what: str, is_one: Callable[[bytes], bool]) -> None:
    """Before any work: the file that an option names can be written, and nothing but such a file is overwritten.

    Args:
        path: None where the option was not typed.
        is_one: Whether a file that begins so (4 KiB) is such a file; an empty one is nobody's.

    Raises:
        SetupError: There is no folder for it, or something else stands there.
    """
    if path is None:
        return
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise SetupError(f"{path}: there is no folder {target.parent}; make it, or choose another {option}")
    if target.exists():
        if not target.is_file():
            raise SetupError(f"{path} is no regular file; choose another {option}")
        with target.open("rb") as file:
            head = file.read(4096)
        if head and not is_one(head):
            raise SetupError(f"{path} exists and is no {what}; choose another {option}")


def holds(mark: bytes) -> Callable[[bytes], bool]:
    """For `may_replace`: whether this stands in the beginning of a file."""
    return lambda head: mark in head


def say(*lines: str) -> None:
    """Lines on stdout, each in one piece: `print` hands text and newline over apart, and Ctrl-C can come in between."""
    for line in lines:
        sys.stdout.write(f"{line}\n")


def complain(text: str) -> None:
    """A message to the person at the keyboard."""
    print(f"tokenproof: {report.printable(text)}", file=sys.stderr)


def coloured() -> bool:
    """Whether stdout takes colour: as the environment says, else as the terminal can."""
    wish = settings().colour
    return sys.stdout.isatty() if wish is None else wish
