"""The OpenAPI document: valid in its version, fit for making clients of it, with every problem where it can happen."""

from typing import Any

from fastapi import FastAPI

from vitrina.control.api.errors import MEDIA_TYPE
from vitrina.control.api.models import ProblemModel

EVENTS = "text/event-stream"
DESCRIPTIONS = {
    400: "The body cannot be read",
    401: "No token, or not a good one",
    403: "The token's role does not suffice",
    404: "There is no such thing",
    409: "Not in this status, or somebody has it already",
    412: "Changed meanwhile",
    413: "The body is too large",
    422: "Invalid; the findings say where and what to do",
    503: "A database does not answer",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer besides success."""
    return {status: {"model": ProblemModel, "description": DESCRIPTIONS[status]} for status in statuses}


PROBLEMS = problems(401, 403, 422, 503)  # of every route behind a token
OF_A_BODY = problems(400, 413)


def describe(app: FastAPI) -> None:
    """Let the app's document be ours."""
    generate = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = generate()
            for path in made["paths"].values():
                for operation in path.values():
                    _correct(operation)
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _correct(operation: dict[str, Any]) -> None:
    """Problems are application/problem+json; whoever takes a body may find that it cannot be read."""
    answers = operation["responses"]
    _leave_out_null(operation.get("requestBody", {}).get("content", {}))
    if "requestBody" in operation:
        for status, answer in OF_A_BODY.items():
            answers[str(status)] = {"description": answer["description"], "content": {"application/json": _PROBLEM}}
    for answer in answers.values():
        content = answer.get("content", {})
        if _PROBLEM in content.values():
            answer["content"] = {MEDIA_TYPE: _PROBLEM}
        if EVENTS in content:  # what one event is, is not said in 3.1
            content[EVENTS] = {"schema": {}}
    operation["responses"] = dict(sorted(answers.items()))


def _leave_out_null(content: dict[str, Any]) -> None:
    """A body that may be left out is left out: generated clients would send `null`, or nothing that is JSON."""
    for kind in content.values():
        options = kind["schema"].get("anyOf", [])
        if {"type": "null"} in options and len(options) == 2:
            kind["schema"] = next(option for option in options if option != {"type": "null"})


_PROBLEM = {"schema": {"$ref": "#/components/schemas/ProblemModel"}}
