# The server of `vaswani-hf serve`, run by a user without rights (docs/serving.md).
FROM python:3.12-slim
# Another index, such as that of torch without CUDA, which makes the image smaller by gigabytes.
ARG PIP_EXTRA_INDEX_URL
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE model_card.md ./
COPY vaswani_hf vaswani_hf
RUN pip install --no-cache-dir -c constraints.txt ".[serve,export]"
RUN useradd --create-home --uid 10001 server
USER 10001
WORKDIR /home/server
EXPOSE 5000
ENTRYPOINT ["vaswani-hf", "serve", "--host", "0.0.0.0"]
