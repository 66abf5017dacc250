"""runners.jobs: the bytes of a request."""

import json

from runners.jobs import request_bytes


def test_the_block_is_the_last_member() -> None:
    """With a block the body gains one member; without one it stays as it is."""
    body = b'{"model":"m","messages":[]}'
    assert request_bytes(body, b"") == body
    made = json.loads(request_bytes(body, b'{"only":["a"]}'))
    assert list(made.items()) == [("model", "m"), ("messages", []), ("provider", {"only": ["a"]})]
