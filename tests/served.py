"""An emulator, or any other ASGI app, behind a real socket on loopback."""

import threading
import time
from typing import Any

import uvicorn


class Served:
    """An app behind uvicorn on a loopback port, in a thread of its own; entering gives its base URL."""

    def __init__(self, app: Any) -> None:
        self.app = app
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="on", ws="none")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        deadline = time.monotonic() + 20
        while not self.server.started:
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.01)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/api/v1"

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(20)
