"""Errors: whose fault it is, and whether trying again can help.

A failed check is not an error: it is a Finding in the verdict. An exception means that no verdict is possible.
"""


class HarnessError(Exception):
    """No verdict is possible. Never raised itself."""


class ProviderError(HarnessError):
    """The other side sent something that is no answer.

    Attributes:
        code: HTTP-like code of the error, 0 where none was given.
        provider: Display name of the host that failed, None where unknown.
        raw: The host's own words, None where none came.
        retryable: True where the same request may succeed later (408, 429, 5xx, an empty body).
        limit_source: Whose limit was hit, in OpenRouter's words; None where it did not say.
        flagged: True where a moderation names what it found in the prompt.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        provider: str | None = None,
        raw: str | None = None,
        retryable: bool = False,
        limit_source: str | None = None,
        flagged: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.provider = provider
        self.raw = raw
        self.retryable = retryable
        self.limit_source = limit_source
        self.flagged = flagged


class SetupError(HarnessError):
    """Our inputs are wrong: vocabulary, habits, files, settings."""


class OverloadError(HarnessError):
    """Worth trying again later."""
