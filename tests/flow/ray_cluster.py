"""A Ray cluster of two nodes on one machine: `ray_cluster.py` prints the address of its client server, and
ends the second node, hard, when a line comes on stdin. It ends with its stdin."""

from __future__ import annotations

import socket
import sys

from ray.cluster_utils import Cluster


def main() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "ray_client_server_port": port, "include_dashboard": False,
                        "resources": {"head": 1}, "object_store_memory": 80_000_000},
    )  # fmt: skip
    second = cluster.add_node(
        num_cpus=2, resources={"mill": 1}, object_store_memory=80_000_000, include_dashboard=False
    )
    cluster.wait_for_nodes()
    sys.stdout.write(f"ray://127.0.0.1:{port}\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        cluster.remove_node(second, allow_graceful=False)
        sys.stdout.write("ended\n")
        sys.stdout.flush()
    cluster.shutdown()


if __name__ == "__main__":
    main()
