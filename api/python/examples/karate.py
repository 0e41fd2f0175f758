"""Attention over a graph: the karate club that split in two.

    python karate.py

34 members, and who met whom outside the club. Members attend those whom they met, the more the
more friends they have in common; whom they side with after the quarrel spreads along the edges.
"""

from pathlib import Path

import numpy as np

import heed

INSTRUCTOR, PRESIDENT = 0, 33
file = Path(__file__).parents[2] / "examples" / "karate.txt"
pairs = np.loadtxt(file, dtype=np.int64).T - 1
sources, destinations = np.hstack([pairs, pairs[::-1]])  # in both directions
graph = heed.Graph(sources, destinations, nodes=34)

friends = np.eye(34, dtype=np.float32)
friends[sources, destinations] = 1
common = friends[:, None]  # [nodes, heads, features]: scores are numbers of common friends

side = np.zeros((34, 1, 1), np.float32)
for _ in range(20):
    side[INSTRUCTOR], side[PRESIDENT] = -1, 1
    side = heed.graph_attention(graph, common, common, side, scale=0.3)
side = side.reshape(34)

weights = heed.graph_attention(
    graph, common, common, common, scale=0.3, return_weights=True
).weights[:, 0]
for member in (INSTRUCTOR, PRESIDENT):
    edges = np.flatnonzero(destinations == member)
    first = edges[np.argsort(-weights[edges], kind="stable")][:3]
    told = ", ".join(f"{sources[e] + 1} ({weights[e]:.2f})" for e in first)
    print(f"member {member + 1} attends most {told}")
for name, sided in (("instructor", side < 0), ("president", side > 0)):
    print(f"with the {name}:", *np.flatnonzero(sided) + 1)
