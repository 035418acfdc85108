"""The doctor's look at folders and buckets in which marts are kept as files."""

from vitrina.cli.checking import Check, Checks, allowed_targets, refused
from vitrina.domain.diagnoses import Diagnosis
from vitrina.domain.errors import VitrinaError
from vitrina.domain.policy import BUCKET_TARGET_PREFIX, SCHEMES_OF_FILES, allowed_folders
from vitrina.settings import Settings


def check_files(settings: Settings) -> Checks:
    """Only pipelines to files need it: where none is allowed there is nothing to say."""
    if not settings.allowed_files:
        return
    from vitrina.sinks.files.sink import look

    yield allowed_targets("files", BUCKET_TARGET_PREFIX, settings, "s3://bucket/marts/*")
    for url in [url for scheme in SCHEMES_OF_FILES for url in allowed_folders(settings.allowed_files, scheme)]:
        try:
            yield Check("ok", "files", Diagnosis.FILES, {"url": url, "version": look(url, settings)})
        except VitrinaError as error:
            yield refused("files", error)
