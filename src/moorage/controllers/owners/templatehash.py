"""Hashes of pod templates, which name ReplicaSets and ControllerRevisions and label their pods.

Both are ten letters of Kubernetes' safe alphabet, made of eight bytes. Stored objects carry them: they must not change.
"""

from __future__ import annotations

from hashlib import blake2b, sha256

import msgspec

from moorage.api.meta import Data

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels and digits that look like them: no hash spells a word."""
_LENGTH = 10


def pod_template_hash(template: Data, collisions: int) -> str:
    """The hash by which a Deployment names the ReplicaSet of a template; another one after each collision."""
    encoded = msgspec.json.encode([template, collisions], order="sorted")
    return _safe_encoded(sha256(encoded).digest()[:8])


def controller_revision_hash(template: Data, collisions: int) -> str:
    """The hash by which a StatefulSet or DaemonSet names the revision of a template; another after each collision."""
    encoded = msgspec.json.encode(template, order="sorted")
    return _safe_encoded(blake2b(encoded, digest_size=8, salt=str(collisions).encode()).digest())


def _safe_encoded(digest: bytes) -> str:
    number, letters = int.from_bytes(digest), []
    for _ in range(_LENGTH):
        number, letter = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(letters)
