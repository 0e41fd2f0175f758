"""Dense attention: ``heed.attention`` and ``heed.plan``."""

from typing import Any, Unpack

from heed import _heed
from heed._heed import Context, Plan
from heed.options import Array, Options


def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    out: Array | None = None,
    context: Context | None = None,
    **options: Unpack[Options],
) -> Any:
    """Attention."""
    return _heed.attention(query, key, value, out, context, options)


def plan(
    query: Array,
    key: Array,
    value: Array,
    *,
    out: Array | None = None,
    context: Context | None = None,
    **options: Unpack[Options],
) -> Plan:
    """Plan."""
    return _heed.plan(query, key, value, out, context, options)
