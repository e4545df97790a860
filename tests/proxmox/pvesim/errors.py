"""What an API method raises to be answered with an error."""

from __future__ import annotations


class ApiError(Exception):
    """One error answer: status, message, and the fields that were wrong."""

    def __init__(
        self, status: int, message: str = "", errors: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors
        # An answer without a body, and an answer that comes late.
        self.empty = False
        self.delay = 0.0


def fail(message: str) -> ApiError:
    """The genuine server's `die`: nearly everything that goes wrong is a 500."""
    return ApiError(500, message)


def bad_parameter(**errors: str) -> ApiError:
    """Refused by the parameter check; a dash in a name is written as an underscore here."""
    return bad_parameters({name.replace("_", "-"): text for name, text in errors.items()})


def bad_parameters(errors: dict[str, str]) -> ApiError:
    return ApiError(400, "Parameter verification failed.", errors)


def unauthorized(message: str, delay: float, empty: bool = True) -> ApiError:
    error = ApiError(401, message)
    error.empty = empty
    error.delay = delay
    return error


def broken_pipe(delay: float) -> ApiError:
    """What the front end says when the back end's worker died."""
    error = ApiError(596, "Broken pipe")
    error.empty = True
    error.delay = delay
    return error


class TaskFailed(Exception):
    """A task's end that is not OK; the text becomes its exit status."""


class Abandoned(TaskFailed):
    """The task's process was killed: it has not put in order what it had begun."""
