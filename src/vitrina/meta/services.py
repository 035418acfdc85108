"""Whose Postgres it is: managed services give rights and settings by ways of their own, and call them otherwise."""

import re
from dataclasses import dataclass

from psycopg import sql

from vitrina.meta.db import Connection, fetch_all, queries

SQL = queries("services")
SIZES = ("kB", "MB", "GB", "TB")
UNITS = {"temp_file_limit": "kB", "max_slot_wal_keep_size": "MB"}


@dataclass(frozen=True)
class Service:
    """How to get on this server what only its operator gives. `{}`: a role; or a setting, and its value."""

    name: str
    mark: str  # a role that all its servers have
    logical: str  # how the WAL becomes logical
    may_stream: str  # how a role may read it
    setting: str  # how a setting of the server is changed
    administrator: str = "a superuser"
    streams_by: str = ""  # a role whose members may read the WAL, beside the attribute
    gives_parameters: bool = False  # whether GRANT SET ON PARAMETER is anybody's
    counts: bool = True  # sizes are bare numbers there

    def let_stream(self, role: str) -> str:
        """What lets a role read the WAL, as whom."""
        return self.may_stream.format(sql.Identifier(role).as_string(None))

    def set(self, name: str, value: str) -> str:
        """What gives a setting of the server another value."""
        return self.setting.format(name, _counted(name, value) if self.counts else value)

    def set_at_once(self, name: str, value: str) -> str:
        """Likewise, of one that holds without a restart."""
        return self.set(name, value) + ("" if self.name else "; SELECT pg_reload_conf()")

    @property
    def limit_wal(self) -> str:
        """What keeps a slot that nobody reads from filling the disk."""
        return self.set_at_once("max_slot_wal_keep_size", "10GB")


def _counted(name: str, value: str) -> str:
    """By the setting's own unit, which the forms of services want as a bare number."""
    size = re.fullmatch(r"(\d+)([a-zA-Z]+)", value)
    if not size:
        return value
    unit = UNITS[name]
    return f"{int(size[1]) * 1024 ** (SIZES.index(size[2]) - SIZES.index(unit))} ({unit})"


PLAIN = Service(
    name="",
    mark="",
    logical="ALTER SYSTEM SET wal_level = 'logical', as a superuser, and restart Postgres",
    may_stream="ALTER ROLE {} REPLICATION, as a superuser",
    setting="ALTER SYSTEM SET {} = '{}'",
    gives_parameters=True,
    counts=False,
)
SERVICES = (
    Service(
        name="Amazon RDS",
        mark="rds_superuser",
        logical="set rds.logical_replication = 1 in the parameter group of the instance (Aurora: of the cluster), "
        "and reboot it",
        may_stream="GRANT rds_replication TO {}, as the master user",
        setting="set {} = {} in the parameter group",
        administrator="the master user (rds_superuser)",
        streams_by="rds_replication",
    ),
    Service(
        name="Cloud SQL",
        mark="cloudsqlsuperuser",
        logical="set the flag cloudsql.logical_decoding = on of the instance, which restarts it",
        may_stream="ALTER ROLE {} REPLICATION, as postgres or another member of cloudsqlsuperuser",
        setting="set the flag {} = {} of the instance",
        administrator="postgres, or another member of cloudsqlsuperuser",
    ),
    Service(
        name="Azure Database for PostgreSQL",
        mark="azure_pg_admin",
        logical="set the server parameter wal_level = logical, and restart the server",
        may_stream="ALTER ROLE {} REPLICATION, as the server's administrator (azure_pg_admin)",
        setting="set the server parameter {} = {}",
        administrator="the server's administrator (azure_pg_admin)",
    ),
    Service(
        name="Supabase",
        mark="supabase_admin",
        logical="ask Supabase: wal_level is logical there unless somebody has changed it",
        may_stream="ALTER ROLE {} REPLICATION, as postgres; and sign in directly, past Supavisor",
        setting="supabase postgres-config update --config {}={}",
        counts=False,
        administrator="postgres",
    ),
    Service(
        name="Neon",
        mark="neon_superuser",
        logical="enable logical replication in the settings of the project, which restarts its computes",
        may_stream="create {} in Neon's console, API or command line and not by SQL, which leaves REPLICATION out; "
        "and sign in by the address without -pooler",
        setting="ask Neon to set {} = {}",
        administrator="a member of neon_superuser",
    ),
)


def find_service(conn: Connection) -> Service:
    """By the roles that its servers come with; what is not known is a plain server."""
    marks = {service.mark: service for service in SERVICES}
    found = fetch_all(conn, SQL["marks"], {"marks": list(marks)})
    return marks[found[0]["name"]] if found else PLAIN
