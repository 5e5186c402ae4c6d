"""Which status an error has, by the names of gRPC's codes, and how much of it a caller is told."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from uuid import uuid4

from mainspring import errors

log = logging.getLogger("mainspring")
RETRY_SECONDS = 1.0

# The first that fits counts. What is not here is our own fault.
_STATUSES: tuple[tuple[type[errors.MainspringError], str], ...] = (
    (errors.DatabaseUnavailable, "UNAVAILABLE"),
    (errors.Unauthenticated, "UNAUTHENTICATED"),
    (errors.Forbidden, "PERMISSION_DENIED"),
    (errors.Overloaded, "RESOURCE_EXHAUSTED"),
    (errors.QueueFull, "RESOURCE_EXHAUSTED"),
    (errors.NotFound, "NOT_FOUND"),
    (errors.UnknownName, "NOT_FOUND"),
    (errors.UnknownKind, "NOT_FOUND"),
    (errors.UnknownStage, "NOT_FOUND"),
    (errors.IdInUse, "ALREADY_EXISTS"),
    (errors.AlreadyEnqueued, "ALREADY_EXISTS"),
    (errors.WentBack, "FAILED_PRECONDITION"),
    (errors.MovedOn, "FAILED_PRECONDITION"),
    (errors.Refused, "FAILED_PRECONDITION"),
    (errors.NewerState, "FAILED_PRECONDITION"),
    (errors.MissingRights, "FAILED_PRECONDITION"),
    (errors.SchemaError, "FAILED_PRECONDITION"),
    (errors.InvalidRequest, "INVALID_ARGUMENT"),
    (errors.InvalidArguments, "INVALID_ARGUMENT"),
    (errors.InvalidOutcome, "INVALID_ARGUMENT"),
    (errors.InvalidKey, "INVALID_ARGUMENT"),
    (errors.InvalidTime, "INVALID_ARGUMENT"),
    (errors.InvalidValue, "INVALID_ARGUMENT"),
    (errors.InvalidSetting, "INVALID_ARGUMENT"),
    (errors.UnreadableState, "INVALID_ARGUMENT"),
)
# Their texts name hosts, roles and tables of ours.
_KEPT_BACK = {
    errors.DatabaseUnavailable: "the database is not available just now; send it again",
    errors.MissingRights: "the server lacks a right in its database; its log says which",
    errors.SchemaError: "the server's schema does not fit its release; its log says more",
}


@dataclass(frozen=True, slots=True)
class Answered:
    """An error as a caller gets it."""

    status: str
    code: str
    message: str
    field: str | None = None  # of the request, that is at fault
    retry_seconds: float | None = None
    scope: str | None = None  # that the caller lacks


def answered(error: Exception, method: str) -> Answered:
    """What the caller is told; what is our own fault goes to the log, under an id that both have."""
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            assert isinstance(error, errors.MainspringError)
            if status in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
                log.info("serve.denied", extra={"method": method, "reason": str(error)})
            return Answered(
                status,
                error.code,
                _told(error, method),
                getattr(error, "field", None),
                RETRY_SECONDS if status in ("UNAVAILABLE", "RESOURCE_EXHAUSTED") else None,
                getattr(error, "scope", None),
            )
    if isinstance(error, TimeoutError):
        return Answered("DEADLINE_EXCEEDED", "deadline", "the call's time is over")
    id = str(uuid4())
    log.error("serve.failed", exc_info=error, extra={"method": method, "error_id": id})
    return Answered("INTERNAL", "internal", f"the server failed; its log has it under {id}")


def _told(error: errors.MainspringError, method: str) -> str:
    for kind, text in _KEPT_BACK.items():
        if isinstance(error, kind):
            log.warning("serve.refused", extra={"method": method, "reason": str(error)})
            return text
    # Without the nearest name that there is: the caller's scopes may not be for it.
    if isinstance(error, errors.UnknownName):
        return str(type(error)(error.name, ()))
    if isinstance(error, errors.UnknownStage):
        return str(errors.UnknownStage(error.kind, error.name, ()))
    return str(error)
