"""Every error in one shape: RFC 9457, application/problem+json."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from vitrina.control.api.findings import FindingModel
from vitrina.control.api.models import ProblemModel
from vitrina.control.problems import Problem
from vitrina.domain.errors import ConfigError, DatabaseLost, RetryableError, VitrinaError
from vitrina.domain.fields import wrong
from vitrina.domain.findings import Code, Finding

MEDIA_TYPE = "application/problem+json"
CHALLENGE = {"WWW-Authenticate": "Bearer"}
log = structlog.get_logger()


def problem(
    request: Request,
    status: int,
    detail: str,
    remedy: str = "",
    findings: Sequence[Finding] = (),
    headers: Mapping[str, str] | None = None,
    by_code: VitrinaError | None = None,
) -> JSONResponse:
    """The one shape."""
    body = ProblemModel(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=_sendable(detail),
        instance=_sendable(request.url.path),
        remedy=_sendable(remedy),
        findings=[FindingModel.of(_sendable_finding(finding)) for finding in findings],
        **_coded(by_code),
    )
    return JSONResponse(body.model_dump(mode="json"), status, dict(headers or {}), media_type=MEDIA_TYPE)


def add_error_handlers(app: FastAPI) -> None:
    """Ours, FastAPI's and Starlette's, and whatever nobody foresaw."""
    app.add_exception_handler(VitrinaError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)


def _ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, VitrinaError)
    status = status_of(error)
    if status == 500:
        log.error("request failed", path=request.url.path, error=str(error))
    findings = error.findings if isinstance(error, Problem) else ()
    headers = CHALLENGE if status == 401 else None
    return problem(request, status, error.message, error.remedy, findings, headers, error)


def status_of(error: VitrinaError) -> int:
    """The HTTP status of an error of ours."""
    if isinstance(error, Problem):
        return error.status
    if isinstance(error, DatabaseLost | RetryableError):
        return 503
    return 422 if isinstance(error, ConfigError) else 500


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = [
        Finding(
            "error",
            ".".join(str(part) for part in item["loc"]),
            Code.INVALID_VALUE,
            {"error": wrong(item, quote=False)},
        )
        for item in error.errors()
    ]
    return problem(request, 422, f"{found[0].where}: {found[0].message}", findings=found)


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return problem(request, error.status_code, str(error.detail), headers=error.headers)


def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    log.error("unforeseen error", path=request.url.path, error=type(error).__name__)
    return problem(request, 500, "an error that nobody foresaw; the log has it")


def _coded(error: VitrinaError | None) -> dict[str, Any]:
    """The code and data of an error that has them."""
    if error is None or error.code is None:
        return {}
    found = _sendable_finding(Finding("error", "", error.code, error.data)).as_json()
    return {"code": found["code"], "data": found["data"]}


def _sendable_finding(finding: Finding) -> Finding:
    data = {name: _sendable(value) if type(value) is str else value for name, value in finding.data.items()}
    return replace(finding, where=_sendable(finding.where), data=data)


def _sendable(text: str) -> str:
    """What came in as half a character cannot go out as UTF-8."""
    return text.encode(errors="backslashreplace").decode()
