# `make dist` first: the image holds the wheel of the release. BASE may be pinned by its digest.
ARG BASE=python:3.13-slim

FROM ${BASE} AS packages
COPY requirements.lock /
RUN python -m venv /opt/moorage
RUN /opt/moorage/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --only-binary :all: -r /requirements.lock

FROM ${BASE}
COPY --from=packages /opt/moorage /opt/moorage
RUN --mount=type=bind,source=dist,target=/dist \
    /opt/moorage/bin/pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /dist/moorage-*.whl
ENV PATH=/opt/moorage/bin:$PATH PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["/opt/moorage/bin/moorage"]
