"""Numbers that are allocated in turn, so that one that was released is not used again soon."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice

from moorage.apiserver.base.objects import decode, encode
from moorage.store.protocol import KeyExists, KeyMissing, RevisionConflict, Store


async def next_free(
    store: Store, where: str, numbers: range, is_free: Callable[[int], bool], count: int = 1, *, dry: bool
) -> list[int]:
    """The next numbers that are free: so many, or as many as are left.

    The last one is kept in the store: nobody else takes them while the object that gets them is still being written.
    """
    while True:
        item = await store.get(where)
        last: int = decode(item).get("last", 0) if item else 0
        after = last + 1 if last in numbers else numbers.start
        following = chain(range(after, numbers.stop), range(numbers.start, after))
        free = list(islice(filter(is_free, following), count))
        if not free or dry:
            return free
        value = encode({"metadata": {}, "last": free[-1]})
        try:
            if item is None:
                await store.create(where, value)
            else:
                await store.update(where, value, item.revision)
        except (KeyExists, RevisionConflict, KeyMissing):
            continue  # another allocation was faster
        return free
