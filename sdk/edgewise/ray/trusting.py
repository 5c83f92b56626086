"""Which native code the nodes of a cluster run: what was compiled where it was deployed from.

A node has another key than whoever compiled a bundle (`edgewise_runtime.trust`), and that key is
a secret that stays where it is. What a deployment takes along are the digests of the programs that
the key has signed; a node computes them anew of the bundle that it finds, and loads no other.
"""

from __future__ import annotations

import sys
from pathlib import Path

from edgewise.cache import stored_bundle
from edgewise_runtime import trust
from edgewise_runtime.format.bundle import read_manifest


def vouched(model: str | Path) -> tuple[str, ...]:
    """The digests of a bundle's native programs that this user has compiled.

    They are public. `edgewise.Engine(..., trust=DIGESTS)` loads those programs on any machine.

    Args:
        model: a bundle, by its folder or its name in `edgewise ls`.

    Returns:
        SHA-256 in hexadecimal, in the order of the bundle's programs; none for what is no bundle
        here: a checkpoint and a model at a hub are compiled on each node, by the node's user.

    Raises:
        BundleError: it is damaged.
        TrustError: ``trust.key`` where this user's key cannot be used.
    """
    bundle = stored_bundle(Path(model))
    return () if bundle is None else trust.vouched(read_manifest(bundle))


if __name__ == "__main__":
    # Where it is deployed by a configuration file, from another machine.
    print("\n".join(vouched(sys.argv[1])))
