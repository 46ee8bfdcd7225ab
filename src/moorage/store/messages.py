"""The messages of etcd's v3 API that Moorage uses. Numbers are etcd's; unused fields are left out."""

from __future__ import annotations

from typing import Any, TypeVar, dataclass_transform, get_args, get_type_hints

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Declared = TypeVar("Declared")

_PACKAGE = "moorage.etcd"
_POOL = descriptor_pool.DescriptorPool()
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {bytes: _FIELD.TYPE_BYTES, int: _FIELD.TYPE_INT64, bool: _FIELD.TYPE_BOOL, str: _FIELD.TYPE_STRING}


def number(field: int) -> Any:
    """The number of a field, in the place of its default: a field that is not set is zero, false or empty."""
    return field


@dataclass_transform(kw_only_default=True)
def message(declaration: type[Declared]) -> type[Declared]:
    """The protobuf class that a declaration describes: no generated code, and mypy knows the fields."""
    name = declaration.__name__
    file = descriptor_pb2.FileDescriptorProto(name=name, package=_PACKAGE, syntax="proto3")
    fields = file.message_type.add(name=name).field
    for field, annotation in get_type_hints(declaration).items():
        (kind,) = get_args(annotation) or (annotation,)
        added = fields.add(name=field, number=getattr(declaration, field))
        added.label = _FIELD.LABEL_OPTIONAL if kind is annotation else _FIELD.LABEL_REPEATED
        if kind in _SCALARS:
            added.type = _SCALARS[kind]
            continue
        added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{kind.__name__}"
        if kind.__name__ not in file.dependency:
            file.dependency.append(kind.__name__)
    _POOL.Add(file)
    built: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
    return built  # type: ignore[no-any-return]


@message
class KeyValue:
    """A key and its value at a revision."""

    key: bytes = number(1)
    create_revision: int = number(2)
    mod_revision: int = number(3)
    value: bytes = number(5)


@message
class Header:
    """The header of every response."""

    revision: int = number(3)


@message
class RangeRequest:
    """Read keys from `key` up to but without `range_end`, or `key` alone."""

    key: bytes = number(1)
    range_end: bytes = number(2)
    limit: int = number(3)
    revision: int = number(4)
    count_only: bool = number(9)


@message
class RangeResponse:
    """Some keys, and how many there are in the range."""

    header: Header = number(1)
    kvs: list[KeyValue] = number(2)
    count: int = number(4)


@message
class PutRequest:
    """Set a key."""

    key: bytes = number(1)
    value: bytes = number(2)


@message
class DeleteRequest:
    """Remove a key."""

    key: bytes = number(1)
    prev_kv: bool = number(3)


@message
class DeleteResponse:
    """The keys that were removed, with their last values."""

    prev_kvs: list[KeyValue] = number(3)


@message
class RequestOp:
    """One step of a transaction: one of these."""

    request_range: RangeRequest = number(1)
    request_put: PutRequest = number(2)
    request_delete_range: DeleteRequest = number(3)


@message
class ResponseOp:
    """The result of one step of a transaction."""

    response_range: RangeResponse = number(1)
    response_delete_range: DeleteResponse = number(3)


MOD_REVISION = 2


@message
class Compare:
    """A condition: the key's revision of last change, when MOD_REVISION is the target, is this one; 0: no such key."""

    target: int = number(2)
    key: bytes = number(3)
    mod_revision: int = number(6)


@message
class TxnRequest:
    """If the conditions hold do the one, else the other."""

    compare: list[Compare] = number(1)
    success: list[RequestOp] = number(2)
    failure: list[RequestOp] = number(3)


@message
class TxnResponse:
    """Which of the two was done."""

    header: Header = number(1)
    succeeded: bool = number(2)
    responses: list[ResponseOp] = number(3)


@message
class CompactionRequest:
    """Forget what was before a revision."""

    revision: int = number(1)


@message
class CompactionResponse:
    """It is forgotten."""

    header: Header = number(1)


@message
class WatchCreateRequest:
    """Follow the keys of a range."""

    key: bytes = number(1)
    range_end: bytes = number(2)
    start_revision: int = number(3)
    progress_notify: bool = number(4)
    prev_kv: bool = number(6)


@message
class WatchRequest:
    """What a client says on a watch stream."""

    create_request: WatchCreateRequest = number(1)


DELETE = 1


@message
class EtcdEvent:
    """A change: a deletion when DELETE is the type, else a new value."""

    type: int = number(1)
    kv: KeyValue = number(2)
    prev_kv: KeyValue = number(3)


@message
class WatchResponse:
    """A response on a watch stream; without events it reports the revision that the watch has reached."""

    header: Header = number(1)
    created: bool = number(3)
    canceled: bool = number(4)
    compact_revision: int = number(5)
    events: list[EtcdEvent] = number(11)
