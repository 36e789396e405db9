"""A Kubernetes API with a clock for tests: `Server` is a `plumbline serve` process, `World` a cluster of its own.

    with plumbline.Server() as server:
        world = server.world()
        client = kubernetes.config.new_client_from_config_dict(world.kubeconfig)
        world.advance("2m")

With pytest, the fixtures `world`, `client`, `kr8s_client`, `lightkube_client` and `kubeconfig` do this for each test.
"""

import sys

if sys.version_info < (3, 9):
    raise ImportError("plumbline needs Python 3.9 or later, this is %d.%d" % sys.version_info[:2])

from ._program import PlumblineError
from ._server import Server
from ._world import World

__all__ = ["PlumblineError", "Server", "World"]
