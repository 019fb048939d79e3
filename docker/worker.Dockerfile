# The image of media workers: Python's standard library and ffmpeg, nothing else.
# BASE is an image with python3 and ffmpeg, or a Debian on which they can be installed. Build it with `make image`.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN if ! command -v ffmpeg || ! command -v python3; then \
      apt-get update && apt-get install -y --no-install-recommends python3 ffmpeg ca-certificates \
      && rm -rf /var/lib/apt/lists/*; \
    fi
RUN mkdir -p /opt/airlock /media
COPY worker /opt/airlock/worker
ENV PYTHONPATH=/opt/airlock PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["python3", "-m", "worker"]
