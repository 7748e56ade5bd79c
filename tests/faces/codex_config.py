"""The config.toml by which the real codex talks to a model server of the tests."""

from __future__ import annotations

CODEX_CONFIG = """\
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "FAKE_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"""
