"""The hook: from an Airflow connection to Vitrina's client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_provider_vitrina import FORM
from airflow_provider_vitrina.client import Client, ClientError

if TYPE_CHECKING:
    from airflow.sdk import Connection

DEFAULT_CONNECTION = "vitrina_default"


class VitrinaHook(BaseHook):
    """A client of the API that a connection names: its host is the URL, its password the token of an operator."""

    conn_name_attr = "vitrina_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "vitrina"
    hook_name = "Vitrina"

    def __init__(self, vitrina_conn_id: str = DEFAULT_CONNECTION, **more: Any) -> None:
        super().__init__(**more)
        self.vitrina_conn_id = vitrina_conn_id

    def get_conn(self) -> Client:
        """A client of its own, to be closed by who asked for it."""
        return open_client(self.get_connection(self.vitrina_conn_id))

    async def aget_conn(self) -> Client:
        """The same, from an event loop; in a thread, for TLS is set up meanwhile."""
        return await asyncio.to_thread(open_client, await self.aget_connection(self.vitrina_conn_id))

    def test_connection(self) -> tuple[bool, str]:
        """Whether the API answers and knows the token."""
        try:
            with self.get_conn() as client:
                runners = sum(runner.alive for runner in client.runners())
        except (ClientError, ValueError) as error:
            return False, str(error)
        return True, f"Vitrina answers; {runners} runners are alive"

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """What the connection's form shows."""
        return {name.replace("-", "_"): value for name, value in FORM.items()}


def open_client(connection: Connection) -> Client:
    """From a whole URL in `host`, or from schema (default http), host and port, as a connection's URI has them."""
    if not connection.host or not connection.password:
        said = f"connection {connection.conn_id!r} needs the API's URL as host and a token as password"
        raise ValueError(f"{said}; a token: vitrina token create airflow --role operator")
    if "://" in connection.host:
        return Client(connection.host, connection.password)
    port = f":{connection.port}" if connection.port else ""
    return Client(f"{connection.schema or 'http'}://{connection.host}{port}", connection.password)
