"""Pipelines as YAML files."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline


def read_pipelines(path: Path) -> list[Pipeline]:
    """Every pipeline of a file, or of the .yaml files in a folder, in the order of their names."""
    found = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [Pipeline.parse(values) for file in found for values in _documents(file)]


def demo_pipelines() -> list[Pipeline]:
    """The demo's own."""
    return read_pipelines(Path(str(files("vitrina") / "demo" / "pipelines")))


def _documents(file: Path) -> list[dict[str, Any]]:
    try:
        documents = [document for document in yaml.safe_load_all(file.read_text()) if document is not None]
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{file}: {error}") from error
    for document in documents:
        if not isinstance(document, dict):
            raise ConfigError(f"{file}: a pipeline is a mapping of fields, not {type(document).__name__}")
    return documents
