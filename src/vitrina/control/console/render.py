"""From a template and what it shows to HTML: one Jinja environment a language, compiled once."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from vitrina import __version__
from vitrina.control.api.auth import Actor, Role
from vitrina.control.console import views
from vitrina.control.console.access import BASE
from vitrina.control.console.fields import tidy
from vitrina.control.console.i18n import LANGUAGES, Words, choose
from vitrina.domain.events import shown
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.domain.policy import BUCKET_TARGET_PREFIX, LAKE_TARGET_PREFIX, SINK_NAMES
from vitrina.files import dump_yaml

HERE = Path(__file__).parent
STATIC = HERE / "static"
TIMES = ("relative", "local", "utc")
THEMES = ("auto", "light", "dark")
PLAIN = re.compile(r"\w[\w.-]*")
NOT_SEEN = 'data-live=""'  # where a fragment carries its own digest
PRODUCTS = {name.lower(): name for name in SINK_NAMES.values()} | {"lake": "pyiceberg"}  # whose version is shown


@dataclass(frozen=True)
class Screen:
    """One request's way to HTML: its language and preferences, and who is looking."""

    request: Request
    language: str

    @property
    def words(self) -> Words:
        """Of the visitor's language."""
        return Words(self.language)

    @property
    def actor(self) -> Actor | None:
        """Who is looking, once `enter` has let them in."""
        return getattr(self.request.state, "actor", None)

    def html(self, template: str, **context: Any) -> Markup:
        """A template filled in."""
        actor = self.actor
        may = {role.name.lower(): actor is not None and actor.role >= role for role in Role}
        return Markup(_environment(self.language).get_template(template).render(may=may, **context))

    def fragment(self, template: str, **context: Any) -> str:
        """A part of a page that is kept up to date: its outermost element carries the digest of the rest."""
        html = str(self.html(template, **context))
        return html.replace(NOT_SEEN, f'data-live="{digest(html)}"', 1)

    def page(self, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        """A whole page."""
        cookies = self.request.cookies
        html = self.html(
            template,
            actor=self.actor,
            language=self.language,
            languages=LANGUAGES,
            times=_one_of(TIMES, cookies.get("vitrina_times")),
            theme=_one_of(THEMES, cookies.get("vitrina_theme")),
            now=datetime.now(UTC),
            here=self.request.url.path,
            **context,
        )
        return HTMLResponse(html, status)

    def part(self, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        """A part of a page, for htmx to put in its place."""
        return HTMLResponse(self.html(template, **context), status)

    def done(self, text: str, status: int = 204, *, level: str = "info", remedy: str = "") -> Response:
        """Say what was done, in passing, and let the page look again at what it shows."""
        said = {"toast": {"text": text, "remedy": remedy, "level": level}, "look": {}}
        return Response(status_code=status, headers={"HX-Trigger": json.dumps(said), "HX-Reswap": "none"})


def digest(html: str) -> str:
    """Tells one state of a fragment from another."""
    return hashlib.blake2b(html.encode(), digest_size=6).hexdigest()


def screen_of(request: Request) -> Screen:
    """The request's screen."""
    chosen = request.cookies.get("vitrina_language")
    return Screen(request, choose(chosen, request.headers.get("accept-language", "")))


Show = Annotated[Screen, Depends(screen_of)]


def asset(name: str) -> str:
    """The address of a static file; it changes with its content, so that it may be cached for ever."""
    return f"{BASE}/static/{name}?v={_asset_digests()[name]}"


def link_to(name: str, id_: Any, *more: str) -> str:
    """The address of a pipeline's page, or of a part of it: by name where a path can hold it, else by uuid."""
    which = name if PLAIN.fullmatch(name) else str(id_)
    return "/".join([f"{BASE}/pipelines/{quote(which, safe='')}", *more])


@cache
def _asset_digests() -> Mapping[str, str]:
    files = (file for file in STATIC.rglob("*") if file.is_file())
    return {str(f.relative_to(STATIC)): hashlib.blake2b(f.read_bytes(), digest_size=6).hexdigest() for f in files}


@cache
def _environment(language: str) -> Environment:
    words = Words(language)
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    environment.globals |= {
        "_": words,
        "base": BASE,
        "asset": asset,
        "link_to": link_to,
        "version": __version__,
        "js_words": views.js_words(words),
    }
    filters: dict[str, Callable[..., Any]] = {
        "num": words.number,
        "took": words.duration,
        "bytes": words.size,
        "name": views.breaking,
        "cut": views.cut,
        "moment": views.moment,
        "instant": datetime.fromisoformat,
        "yaml": lambda value: dump_yaml(tidy(value)),
        "value": views.shown_value,
        "fields": lambda fields: views.shown_fields(fields, words),
        "read": lambda report: views.how_read(report, words),
        "verb": lambda action: words(views.verb(action)),
        **{name: getattr(views, name) for name in ("seconds_of", "rate_of", "shape", "lag_of")},
        "said": lambda finding: finding.said_in(words),
        "reason": lambda why: views.reason(why, words),
        "checkpoint": lambda stored: views.checkpoint(stored, words),
        "told": lambda event: shown(event["event"], event["fields"], words),
        "phase": lambda event: shown(event, {}, words)[0],
        "sparkline": lambda late: views.sparkline(late, words),
        "bars": lambda runs: views.bars(runs, words),
        "neighbour": lambda name: _neighbour(name, words),
        "product": _product,
        "word": lambda status: words(views.word(status)),
    }
    environment.filters |= filters
    return environment


def _product(name: str) -> str:
    """Whose version is shown: of a folder or a bucket, that of what writes there."""
    return "pyarrow" if "://" in name else PRODUCTS.get(name, "Postgres")


def _neighbour(name: str, words: Words) -> str:
    """By a source's name, or a sink's prefix."""
    if name == WAREHOUSE:
        return words("the warehouse")
    said = {LAKE_TARGET_PREFIX: "the lake", BUCKET_TARGET_PREFIX: "the bucket"}.get(name)  # words, and no names
    return words(said) if said else SINK_NAMES.get(name, name)


def _one_of(known: tuple[str, ...], value: str | None) -> str:
    return value if value in known else known[0]
