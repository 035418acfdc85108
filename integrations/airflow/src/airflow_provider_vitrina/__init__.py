"""Vitrina for Airflow: a connection type, a hook, an operator, a sensor."""

from typing import Any

__version__ = "0.1.0"


def get_provider_info() -> dict[str, Any]:
    """What Airflow asks a provider about itself."""
    return {
        "package-name": "airflow-provider-vitrina",
        "name": "Vitrina",
        "description": "Runs Vitrina's pipelines and waits for their marts.",
        "versions": [__version__],
        "connection-types": [
            {
                "connection-type": "vitrina",
                "hook-class-name": "airflow_provider_vitrina.hooks.VitrinaHook",
                "hook-name": "Vitrina",
                "ui-field-behaviour": FORM,
            }
        ],
        "extra-links": ["airflow_provider_vitrina.links.VitrinaRunLink"],
    }


FORM: dict[str, Any] = {
    "hidden-fields": ["schema", "login", "port", "extra"],
    "relabeling": {"host": "URL", "password": "Token"},
    "placeholders": {
        "host": "http://vitrina.example:8765",
        "password": "of: vitrina token create airflow --role operator",
    },
}
