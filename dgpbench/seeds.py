"""Seeds by axis: a draw depends on its purpose and on the named axes only.

All methods see the same split because ``split`` is seeded without the method; each method has its own
initialisation because ``initial`` is seeded with it. The idea is benchopt's.
"""

import hashlib


def seed_for(purpose: str, **axes: object) -> int:
    """Return a 63-bit seed for the purpose of a draw and the axes it may depend on, in any order."""
    text = "\x1f".join([purpose, *(f"{name}={axes[name]}" for name in sorted(axes))])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
