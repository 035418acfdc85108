"""From a task to the run's page in Vitrina's console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PAGE = "vitrina_page"


class VitrinaRunLink(BaseOperatorLink):
    """The pipeline's page while it is waited for, then the run's."""

    name = "Vitrina run"

    @property
    def xcom_key(self) -> str:
        """The operator writes it as soon as it knows."""
        return PAGE

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """As the operator wrote it; empty if it did not come so far."""
        return str(XCom.get_value(key=PAGE, ti_key=ti_key) or "")
