"""Manifests as text, and what is read in them."""

from __future__ import annotations

import io
from typing import Any

import pytest

from moorage.api.manifests import Document, ManifestError, read


def load(text: str | bytes) -> list[Document]:
    data = text.encode() if isinstance(text, str) else text
    return list(read(["-"], io.BytesIO(data)))


def only(text: str) -> Any:
    (document,) = load(text)
    return document.data


def refusal(text: str | bytes) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        load(text)
    return caught.value
