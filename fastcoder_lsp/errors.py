"""The exception tree: every error that a user can cause or cure, each with what to do about it.

Owns no handling: the command line prints `message` and `hint` and exits with `exit_code`; the language server turns
them into one notice and a status. Our own bugs are `AssertionError`s and are never caught as one of these.
"""


class FastcoderError(Exception):
    """Something went wrong that a person can act on.

    Args:
        message: what is wrong, one line.
        hint: what to do about it, one line; empty if nothing helps.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(FastcoderError):
    """A command, option, setting or position that does not exist."""

    exit_code = 2


class ModelMissingError(FastcoderError):
    """The model is not on this machine; fetching it needs the user's word."""

    exit_code = 3


class ModelInvalidError(FastcoderError):
    """A model's file is damaged, of an unsafe format, or of a kind that cannot be run."""

    exit_code = 4


class NetworkError(FastcoderError):
    """A download could not be made or finished."""

    exit_code = 5


class ResourceError(FastcoderError):
    """Not enough memory or disk."""

    exit_code = 6
