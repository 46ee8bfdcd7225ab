"""Numbers that are allocated in turn, so that one that was released is not used again soon."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from moorage.apiserver.base.objects import decode, encode
from moorage.store.protocol import KeyExists, KeyMissing, RevisionConflict, Store


async def next_free(
    store: Store, where: str, numbers: range, is_free: Callable[[int], bool], *, dry: bool
) -> int | None:
    """The next number that is free, None when there is none left.

    The last one is kept in the store: nobody else takes it while the object that gets it is still being written.
    """
    while True:
        item = await store.get(where)
        last: int = decode(item).get("last", 0) if item else 0
        after = last + 1 if last in numbers else numbers.start
        following = chain(range(after, numbers.stop), range(numbers.start, after))
        number = next(filter(is_free, following), None)
        if number is None or dry:
            return number
        value = encode({"metadata": {}, "last": number})
        try:
            if item is None:
                await store.create(where, value)
            else:
                await store.update(where, value, item.revision)
        except (KeyExists, RevisionConflict, KeyMissing):
            continue  # another allocation was faster
        return number
