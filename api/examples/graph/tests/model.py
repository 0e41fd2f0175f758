"""What messages computes, from the same random numbers, in plain Python."""

import math

MASK = 2**64 - 1


class Random:
    """splitmix64, and what random.c makes of it."""

    def __init__(self, seed):
        self.state = seed

    def bits(self):
        self.state = z = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        return z ^ (z >> 31)

    def uniform(self):
        return (self.bits() >> 11) * 2.0**-53

    def below(self, count):
        return int(self.uniform() * count)

    def normal(self):
        radius = math.sqrt(-2 * math.log(1 - self.uniform()))
        return radius * math.cos(2 * math.pi * self.uniform())


class World:
    def __init__(self, seed=1, nodes=10, features=20, edges=40, keep_duplicates=False,
                 data_times_w=False, temperature=1.0):
        random = Random(seed)
        row = lambda: [random.normal() for _ in range(features)]
        matrix = lambda: [row() for _ in range(features)]
        self.nodes = [dict(data=row(), key=matrix(), query=matrix(), value=matrix())
                      for _ in range(nodes)]
        self.edges = [(random.below(nodes), random.below(nodes)) for _ in range(edges)]
        if not keep_duplicates:
            self.edges = list(dict.fromkeys(self.edges))
        self.data_times_w, self.temperature = data_times_w, temperature

    def lengths(self):
        return [math.hypot(*node["data"]) for node in self.nodes]

    def project(self, node, name):
        matrix = zip(*node[name]) if self.data_times_w else node[name]
        return [math.fsum(w * x for w, x in zip(line, node["data"])) for line in matrix]

    def step(self):
        """For every node its sources, their scores and weights; then data += update, at once."""
        query, key, value = ([self.project(node, name) for node in self.nodes]
                             for name in ("query", "key", "value"))
        heard, updates = [], []
        for to, node in enumerate(self.nodes):
            sources = [source for source, destination in self.edges if destination == to]
            scores = [math.fsum(map(float.__mul__, key[m], query[to])) for m in sources]
            highest = max(scores, default=0)
            weights = [math.exp((s - highest) / self.temperature) for s in scores]
            weights = [w / math.fsum(weights) for w in weights]
            heard.append((sources, scores, weights))
            updates.append([math.fsum(w * value[m][x] for w, m in zip(weights, sources))
                            for x in range(len(node["data"]))])
        for node, update in zip(self.nodes, updates):
            node["data"] = [x + u for x, u in zip(node["data"], update)]
        return heard
