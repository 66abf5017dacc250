"""What a bulk run sends: prompts made ready, and the bytes of a request.

Values only. Knows nothing of files, sockets or money.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt, checked and rendered, ready to be sent.

    Attributes:
        dataset: Name of its data set in the run file.
        id: Its id there; (dataset, id) is unique in a run.
        index: Its place in the data set's input, from 0; output comes in this order.
        body: The request as a JSON object that has members, ends in `}` and has no `provider`: which providers may
            answer can change during a run, so `request_bytes` puts the block in.
        n_prompt: Ids of the rendered prompt.
        max_tokens: As the body says; the worst case is paid for.
    """

    dataset: str
    id: str
    index: int
    body: bytes
    n_prompt: int
    max_tokens: int


def request_bytes(body: bytes, block: bytes) -> bytes:
    """The bytes that are sent: `body` with `block`, a JSON object, as its last member `provider`; no block, no member.

    >>> request_bytes(b'{"n":1}', b'{"only":["chutes"]}')
    b'{"n":1,"provider":{"only":["chutes"]}}'
    """
    return body[:-1] + b',"provider":' + block + b"}" if block else body
