"""Settings, from the environment or `.env`, prefix `VITRINA_`. Secrets are never shown."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from vitrina.domain.policy import Whitelist


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


SIZE = r"[0-9]+(kB|MB|GB|TB)"
Size = Annotated[str, Field(pattern=f"^{SIZE}$")]
Names = Annotated[list[str], NoDecode, BeforeValidator(_split)]


class Settings(BaseSettings):
    """Every knob, with the default that a newcomer wants."""

    model_config = SettingsConfigDict(
        env_prefix="VITRINA_", env_file=".env", env_nested_delimiter="__", extra="ignore", frozen=True
    )

    home: Path = Path(".vitrina")

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

    # Elasticsearch. Without elasticsearch_url: an embedded one in `home`, fetched once into elasticsearch_cache.
    elasticsearch_url: SecretStr | None = Field(default=None, validation_alias="elasticsearch_url")  # no prefix
    elasticsearch_username: str | None = None
    elasticsearch_password: SecretStr | None = None
    elasticsearch_api_key: SecretStr | None = None
    elasticsearch_ca_file: Path | None = None
    elasticsearch_cache: Path | None = None

    # The API, and how the command line finds it.
    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)
    trusted_proxies: Names = []  # addresses or networks besides this machine; believed about X-Forwarded-Proto and -For
    url: str | None = None
    token: SecretStr | None = None

    # What is allowed.
    allowed_source_schemas: Names = ["content", "ugc"]
    allowed_target_tables: Names = ["analytics.*"]
    allowed_es_indexes: Names = []
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
    linger_seconds: float = Field(default=30.0, ge=0)
    dependency_seconds: float = Field(default=60.0, ge=0)  # between two looks at what live marts depend on
    backoff_seconds: tuple[float, ...] = (1, 2, 4)
    max_crashes: int = Field(default=3, ge=1)
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
    webhook_attempts: int = Field(default=20, ge=1, le=1000)
    webhook_backoff_seconds: float = Field(default=5, gt=0)  # doubled each time, up to ten minutes

    log_format: str = Field(default="auto", pattern="^(auto|console|json)$")

    @property
    def whitelist(self) -> Whitelist:
        """Where pipelines may write."""
        return Whitelist(self.allowed_target_tables, self.allowed_es_indexes, self.allowed_other_targets)

    @property
    def mart_schemas(self) -> list[str]:
        """The schemas that hold marts, from the whitelist."""
        return sorted({pattern.split(".")[0] for pattern in self.allowed_target_tables})

    @property
    def horizon_margin(self) -> timedelta:
        """How far before the oldest open transaction an incremental window ends."""
        return timedelta(seconds=self.horizon_margin_seconds)
