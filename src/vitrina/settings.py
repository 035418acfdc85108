"""Settings, from the environment or `.env`, prefix `VITRINA_`. Secrets are never shown."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from vitrina.domain.alerting import Format
from vitrina.domain.policy import Whitelist
from vitrina.secret_files import read_secrets

HOME = Path(".vitrina")
DEMO = "demo.env"  # in `home`


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _words(value: Any) -> Any:
    return value.replace(",", " ").split() if isinstance(value, str) else value


def _pairs(value: Any) -> Any:
    """`VALUE=ROLE,VALUE=ROLE`, or JSON where a value has a comma of its own."""
    if not isinstance(value, str) or value.lstrip().startswith("{"):
        return json.loads(value) if isinstance(value, str) else value
    return {key.strip(): role.strip() for key, _, role in (pair.rpartition("=") for pair in _split(value))}


SIZE = r"[0-9]+(kB|MB|GB|TB)"
Size = Annotated[str, Field(pattern=f"^{SIZE}$")]
Names = Annotated[list[str], NoDecode, BeforeValidator(_split)]
Words = Annotated[list[str], NoDecode, BeforeValidator(_words)]
Roles = Annotated[dict[str, Literal["viewer", "operator", "admin"]], NoDecode, BeforeValidator(_pairs)]


BARE = ("elasticsearch_url", "opensearch_url")  # their variables have no prefix


def variable(setting: str, of: str = "") -> str:
    """What a setting is called in the environment; `of`: which one of several."""
    name = setting.upper() if setting in BARE else f"VITRINA_{setting.upper()}"
    return f"{name}__{of.upper()}" if of else name


class Destination(BaseModel):
    """VITRINA_ALERTS__NAME__…: where a runner tells alerts, and which."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: SecretStr  # https://…, or of a mail server: smtp://user:password@host:587, smtps://…
    format: Format | None = None  # None: signed; by smtp it is email
    secret: SecretStr | None = None  # what is signed with; for pagerduty the routing key
    labels: Names = []  # only of pipelines with all of these
    events: Names = []  # only these kinds; none: all
    to: Names = []  # email
    sender: str | None = None  # email
    ca_file: Path | None = None  # instead of the machine's certificates


class DemoSettings(DotEnvSettingsSource):
    """What the demo has left in `home` for the processes that are to run its pipelines: below all that is given."""

    def __call__(self) -> dict[str, Any]:
        """Only now it is known where `home` is."""
        self.env_file = Path(self.current_state.get("home") or HOME) / DEMO
        self.env_vars = self._read_env_files()
        return super().__call__()


def _is_secret(name: str) -> bool:
    """Whether a variable, in lower case, holds a secret: a setting's own, or that of one of several by name."""
    first, _, several = name.partition("__")
    field = Settings.model_fields.get(first.removeprefix("vitrina_"))
    if first == "vitrina_alerts":
        own = Destination.model_fields.get(several.rpartition("__")[2])
        return "__" in several and own is not None and "SecretStr" in str(own.annotation)
    if field is None or "SecretStr" not in str(field.annotation):
        return False
    is_named = first == (field.validation_alias or f"vitrina_{first.removeprefix('vitrina_')}")
    return is_named and bool(several) == str(field.annotation).startswith("dict")


class Settings(BaseSettings):
    """Every knob, with the default that a newcomer wants."""

    model_config = SettingsConfigDict(
        env_prefix="VITRINA_", env_file=".env", env_nested_delimiter="__", extra="ignore", frozen=True
    )

    home: Path = HOME

    # Where things are. Without database_url: an embedded Postgres in `home`.
    database_url: SecretStr | None = None
    direct_url: SecretStr | None = None  # past pgbouncer: migrations and LISTEN
    runner_url: SecretStr | None = None
    reader_url: SecretStr | None = None
    api_role_url: SecretStr | None = None
    sources: dict[str, SecretStr] = {}  # VITRINA_SOURCES__NAME=postgresql://…
    # Who captures changes (directly, past any pooler): of the warehouse, of a source if not whoever reads it.
    capture_url: SecretStr | None = None
    capture_sources: dict[str, SecretStr] = {}  # VITRINA_CAPTURE_SOURCES__NAME=postgresql://…
    # Who makes publications and triggers, if that is somebody else: of the warehouse, its owner.
    capture_owners: dict[str, SecretStr] = {}  # VITRINA_CAPTURE_OWNERS__NAME=postgresql://…

    # Elasticsearch. Without elasticsearch_url: an embedded one in `home`, fetched once into elasticsearch_cache.
    elasticsearch_url: SecretStr | None = Field(default=None, validation_alias="elasticsearch_url")  # no prefix
    elasticsearch_username: str | None = None
    elasticsearch_password: SecretStr | None = None
    elasticsearch_api_key: SecretStr | None = None
    elasticsearch_ca_file: Path | None = None
    elasticsearch_cache: Path | None = None

    # OpenSearch, beside it or instead of it.
    opensearch_url: SecretStr | None = Field(default=None, validation_alias="opensearch_url")  # no prefix
    opensearch_username: str | None = None
    opensearch_password: SecretStr | None = None
    opensearch_ca_file: Path | None = None

    # Marts in a lake (`pip install vitrina[lake]`): file:///folder, which all runners see, or s3://bucket/prefix.
    lake_url: str | None = None
    lake_endpoint: str | None = None  # of the bucket, where it is not AWS's: https://host:port
    lake_region: str | None = None
    lake_access_key: SecretStr | None = None  # with lake_secret_key; without them as AWS's own tools sign in
    lake_secret_key: SecretStr | None = None
    lake_snapshot_days: float = Field(default=5, ge=0)  # how long a table can be read as it was
    lake_commit_seconds: float = Field(
        default=10, ge=0
    )  # changes of a live mart are gathered so long: a commit is a snapshot
    lake_unused_seconds: float = Field(default=3600, ge=0)  # how long a file may lie there that no table knows
    lake_upkeep_seconds: float = Field(default=3600, ge=0)  # between two looks at tables at rest; 0: runs alone tidy up
    lake_least_small: int = Field(default=5, ge=2)  # files of less than 2 MB of a table at rest that become one
    # The source whose engine sees the lake, by its catalogues vitrina and vitrina_work: of its pipelines that keep
    # marts there (mode full, no transforms), no row passes through a runner.
    lake_engine: str | None = None
    engine_sessions: int = Field(default=8, ge=1, le=200)  # with which it reads a source of spark+postgresql://
    spark_settings: dict[str, SecretStr] = {}  # of sessions of Spark, as JSON; those of a cluster are better kept there
    engine_seconds: float = Field(default=3600, gt=0)  # that one piece of an engine's work may take
    engine_part_rows: int = Field(
        default=5_000_000, gt=0
    )  # of a mart that an engine keeps, about so many rows at a time
    engine_most_rows: int | None = Field(default=None, gt=0)  # more rows than these are not written by one run

    # ClickHouse: http://user:password@host:8123, or https://…:8443. Without it there is none.
    clickhouse_url: SecretStr | None = None

    # The API, and how the command line finds it.
    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)
    trusted_proxies: Names = []  # addresses or networks besides this machine; believed about X-Forwarded-Proto and -For
    url: str | None = None
    token: SecretStr | None = None

    # Signing in to the console by a provider of OpenID Connect, beside tokens. Without oidc_issuer: tokens only.
    oidc_issuer: str | None = None
    oidc_client_id: str | None = None
    oidc_client_secret: SecretStr | None = None
    oidc_scopes: Words = ["openid", "profile", "email"]
    oidc_name_claim: str = Field(default="preferred_username", min_length=1)
    oidc_role_claim: str = Field(default="groups", min_length=1)
    oidc_roles: Roles = {}  # VITRINA_OIDC_ROLES=value of the claim=role,…; whoever has none does not get in
    oidc_session_hours: float = Field(default=8, gt=0, le=168)
    oidc_label: str | None = None  # what the button says; None: the host of oidc_issuer

    # What is allowed.
    allowed_source_schemas: Names = ["public"]
    allowed_target_tables: Names = ["analytics.*"]
    allowed_es_indexes: Names = []
    allowed_opensearch_indexes: Names = []
    allowed_lake_tables: Names = []
    allowed_files: Names = []  # targets as they are written: s3://bucket/marts/*
    allowed_clickhouse_tables: Names = []  # database.table
    allowed_other_targets: Names = []  # of writers that plug-ins bring, with their prefix: sqlite:*
    allowed_functions: Names = []  # schema.name: functions that a query may call though the guard would refuse them
    trusted_owners: Names = []  # roles whose triggers and the like may run as a mart is written, as vitrina_writer
    search_path: Names = ["public"]  # where a query finds functions and operators of extensions
    transform_modules: Names = []
    transform_timeout_seconds: float = Field(default=300, gt=0)  # for one batch; then its process is ended
    transform_memory_mb: int = Field(default=2048, ge=0)  # of one process that transforms; 0: no limit

    # How a runner works.
    slots: int = Field(default=4, ge=1, le=64)
    poll_seconds: float = Field(default=2.0, gt=0)
    lease_seconds: float = Field(default=30.0, ge=1)
    dependency_seconds: float = Field(default=60.0, ge=0)  # between two looks at what live marts depend on
    backoff_seconds: tuple[float, ...] = (1, 2, 4)
    max_crashes: int = Field(default=3, ge=1)
    outage_pause_seconds: float = Field(default=60, gt=0)  # at most, between two tries of what waits for a neighbour
    outage_alert_seconds: float = Field(default=300, ge=0)  # then an alert says who is waited for
    failure_pause_seconds: tuple[float, float] = (60, 3600)  # the first and the longest, with on_failure: retry
    horizon_margin_seconds: float = Field(default=1.0, ge=0)
    statement_timeout_seconds: float = Field(default=3600, gt=0)
    lock_timeout_seconds: float = Field(default=10, gt=0)
    find_work_mem: Size = "128MB"
    write_work_mem: Size | None = None  # None: as the server has it
    temp_file_limit: str = Field(default="20GB", pattern=rf"^(-1|{SIZE})$")  # of a process of the server; -1: none
    es_senders: int = Field(default=2, ge=1, le=16)  # connections that send documents at once
    es_grace_seconds: float = Field(default=600, ge=0)  # how long an index is kept after another took its place
    event_days: float = Field(default=14, gt=0)
    run_days: float = Field(default=90, gt=0)
    audit_days: float = Field(default=365, ge=30)
    version_days: float = Field(default=365, ge=30)
    latency_days: float = Field(default=7, gt=0)
    change_log_max_rows: int = Field(default=5_000_000, ge=1)
    audit_share: float = Field(default=0.01, ge=0, le=1)  # of the time, for auditing all live marts together; 0: off
    audit_rest_seconds: float = Field(default=60, ge=0)  # at least, between two audits of a mart

    # The mass-delete guard: more deletes than this share of the mart, and more than this many, need a word.
    max_delete_share: float = Field(default=0.5, gt=0, le=1)
    max_delete_rows: int = Field(default=100, ge=0)

    # What the outside is told: metrics to be scraped, alerts by webhook.
    metrics_token: SecretStr | None = None
    runner_metrics_port: int | None = Field(default=None, ge=0, le=65535)
    runner_metrics_host: str = "127.0.0.1"
    public_url: str | None = None  # where people find the console
    webhook_url: SecretStr | None = None
    webhook_secret: SecretStr | None = None
    alerts: dict[str, Destination] = {}  # VITRINA_ALERTS__NAME__URL=https://…, and more by name
    webhook_attempts: int = Field(default=20, ge=1, le=1000)
    webhook_backoff_seconds: float = Field(default=5, gt=0)  # doubled each time, up to ten minutes

    log_format: str = Field(default="auto", pattern="^(auto|console|json)$")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Given in code, the environment, `.env`, what the demo has left; without `.env` that neither."""
        del file_secret_settings
        assert isinstance(env_settings, EnvSettingsSource)
        assert isinstance(dotenv_settings, DotEnvSettingsSource)
        for source in (env_settings, dotenv_settings):
            source.env_vars = read_secrets(source.env_vars, _is_secret)
        demo = (DemoSettings(settings_cls, env_file=None),) if dotenv_settings.env_file else ()
        return init_settings, env_settings, dotenv_settings, *demo

    @property
    def whitelist(self) -> Whitelist:
        """Where pipelines may write."""
        return Whitelist(
            {
                "allowed_target_tables": self.allowed_target_tables,
                "allowed_es_indexes": self.allowed_es_indexes,
                "allowed_opensearch_indexes": self.allowed_opensearch_indexes,
                "allowed_clickhouse_tables": self.allowed_clickhouse_tables,
                "allowed_lake_tables": self.allowed_lake_tables,
                "allowed_files": self.allowed_files,
                "allowed_other_targets": self.allowed_other_targets,
            }
        )

    @property
    def spark_session(self) -> dict[str, str]:
        """What every session of Spark is told."""
        return {name: value.get_secret_value() for name, value in self.spark_settings.items()}

    @property
    def mart_schemas(self) -> list[str]:
        """The schemas that hold marts, from the whitelist."""
        return sorted({pattern.split(".")[0] for pattern in self.allowed_target_tables})

    @property
    def horizon_margin(self) -> timedelta:
        """How far before the oldest open transaction an incremental window ends."""
        return timedelta(seconds=self.horizon_margin_seconds)
