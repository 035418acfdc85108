"""What is told: the same alert in the words and the shape that each kind of receiver takes."""

from collections.abc import Callable, Iterator
from typing import Any

from vitrina.domain.alerting import RECOVERED, TEST, Format
from vitrina.meta.repos.alerts import Alert

Json = dict[str, Any]
TOLD = (
    "run",
    "error",
    "remedy",
    "fresh_at",
    "limit",
    "after",
    "since",
    "behind",
    "neighbour",
    "rows",
    "keys",
    "checks",
    "labels",
)
SEVERITY = {
    "failed": "error",
    "wrong": "critical",
    "stuck": "error",
    "stale": "warning",
    "outage": "warning",
    "check": "warning",
}
LONGEST = 2_500  # characters of a part of a chat's message: what is longer is cut there, or refused


def page_of(alert: Alert, public_url: str | None) -> str | None:
    """The console's page of its pipeline; None if nobody has said where the console is."""
    if not public_url:
        return None
    return f"{public_url.rstrip('/')}/console/" + (f"pipelines/{alert.pipeline_id}" if alert.pipeline_id else "alerts")


def sentence(alert: Alert) -> str:
    """All of it in one line, for people."""
    told, name = alert.details, alert.details.get("name")
    match alert.event:
        case "failed":
            remedy = f" — {told['remedy']}" if told.get("remedy") else ""
            return f"{name} has failed: {told.get('error') or 'it does not say why'}{remedy}"
        case "stale":
            return f"{name} is stale: as of {told.get('fresh_at') or 'never'}, the limit is {told.get('limit')}"
        case "stuck":
            return f"{name} stands still: {told.get('behind')} changes behind since {told.get('since')}"
        case "wrong":
            return f"{name} was wrong: {told.get('rows')} rows that no change explains, put right"
        case "check":
            return f"{name} has rows that break a check: {', '.join(map(repr, checks_of(alert)))}"
        case "outage":
            return f"{name} waits for {told.get('neighbour')} since {told.get('since')}: {told.get('error')}"
        case "test":
            return f"This is a test of the alerts to {told.get('destination')}, asked for by {told.get('asked_by')}."
    return f"{name} has recovered; it was {told.get('after')} since {told.get('since')}"


def checks_of(alert: Alert) -> list[str]:
    """The names of those that are broken."""
    return [check["check"] for check in alert.details.get("checks") or ()]


def headline(alert: Alert) -> str:
    """The beginning of it: who, and what."""
    if alert.event == TEST:
        return "A test of alerts"
    said = {
        "failed": "has failed",
        "stale": "is stale",
        "stuck": "stands still",
        "wrong": "was wrong",
        "check": "breaks a check",
    }
    return f"{alert.details.get('name')} {said.get(alert.event) or _rest(alert)}"


def _rest(alert: Alert) -> str:
    return "has recovered" if alert.event == RECOVERED else f"waits for {alert.details.get('neighbour')}"


def facts(alert: Alert) -> Iterator[tuple[str, str]]:
    """What else there is to know, by name."""
    told = alert.details
    wanted = (
        "target",
        "labels",
        "run",
        "error",
        "remedy",
        "after",
        "since",
        "fresh_at",
        "limit",
        "behind",
        "neighbour",
    )
    for name in (*wanted, "rows"):
        value = told.get(name)
        if value not in (None, [], ""):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield name.replace("_", " "), _cut(shown)
    if broken := checks_of(alert):
        yield "checks", _cut(", ".join(broken))


def signed(alert: Alert, public_url: str | None) -> Json:
    """Vitrina's own; the same for the same alert, however often it is sent."""
    told, link = alert.details, page_of(alert, public_url)
    return {
        "id": str(alert.id),
        "event": alert.event,
        "at": alert.created_at.isoformat(),
        "text": sentence(alert) + (f" {link}" if link else ""),
        "pipeline": {
            "id": str(alert.pipeline_id) if alert.pipeline_id else None,
            "name": told.get("name"),
            "target": told.get("target"),
        },
        "url": link,
        **{name: told.get(name) for name in TOLD},
    }


def slack(alert: Alert, public_url: str | None) -> Json:
    """An incoming webhook of Slack; Mattermost and Rocket.Chat show its `text`."""
    mark = ":white_check_mark:" if alert.event in (RECOVERED, TEST) else ":red_circle:"
    link = page_of(alert, public_url)
    title = f"<{link}|{_escaped(headline(alert))}>" if link else _escaped(headline(alert))
    lines = [f"*{_escaped(name)}*: {_escaped(value)}" for name, value in facts(alert)]
    body = _cut("\n".join([f"{mark} *{title}*", *lines]) if lines else f"{mark} *{title}*\n{_escaped(sentence(alert))}")
    block = {"type": "section", "text": {"type": "mrkdwn", "text": body}}
    return {"text": _cut(_escaped(sentence(alert))), "blocks": [block]}


def teams(alert: Alert, public_url: str | None) -> Json:
    """A workflow of Microsoft Teams that posts what a webhook brings: one adaptive card."""
    colour = "Good" if alert.event in (RECOVERED, TEST) else "Attention"
    body = [_rich(_run(headline(alert), size="Medium", weight="Bolder", color=colour))]
    body.append(_rich(_run(_cut(sentence(alert)))))
    body += [_rich(_run(f"{name}: ", weight="Bolder"), _run(value)) for name, value in facts(alert)]
    link = page_of(alert, public_url)
    actions = [{"type": "Action.OpenUrl", "title": "Open in Vitrina", "url": link}] if link else []
    card = {"type": "AdaptiveCard", "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "version": "1.4"}
    content = card | {"body": body, "actions": actions}
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": content}
    return {"type": "message", "attachments": [attachment]}


def pagerduty(alert: Alert, public_url: str | None) -> Json:
    """An event of PagerDuty's Events API v2, without its routing key: a recovery resolves what its incident opened."""
    kind = alert.details.get("after") if alert.event == RECOVERED else alert.event
    link = page_of(alert, public_url)
    return {
        "event_action": "resolve" if alert.event == RECOVERED else "trigger",
        "dedup_key": f"vitrina/{alert.pipeline_id or alert.details.get('destination')}/{kind}",
        "client": "Vitrina",
        "client_url": link,
        "links": [{"href": link, "text": "Open in Vitrina"}] if link else [],
        "payload": {
            "summary": sentence(alert)[:1024],
            "source": alert.details.get("target") or alert.details.get("name") or "vitrina",
            "severity": SEVERITY.get(str(kind), "info"),
            "timestamp": alert.created_at.isoformat(),
            "component": alert.details.get("name"),
            "class": kind,
            "custom_details": dict(facts(alert)),
        },
    }


BODIES: dict[Format, Callable[[Alert, str | None], Json]] = {
    Format.SIGNED: signed,
    Format.SLACK: slack,
    Format.TEAMS: teams,
    Format.PAGERDUTY: pagerduty,
}


def _rich(*runs: Json) -> Json:
    return {"type": "RichTextBlock", "inlines": list(runs)}


def _run(text: str, **style: str) -> Json:
    """As it is: a TextBlock and a FactSet would take what stands in an error, and so in a source's rows, for links."""
    return {"type": "TextRun", "text": text, **style}


def _escaped(text: str) -> str:
    """What Slack would take for a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
