"""Spiking VGG-11 (T-BSO) as a task graph on shared digital engines.

The first convolution and its spikes are outside the timed core: its four feature maps of
64 x 32 x 32 are ready at time 0. Seven convolutions follow, each with LIF and output scaling,
and three average poolings. No batch norm.
"""

from falcon_snn.pipeline.engines import TILE, Task, TaskList, VectorCosts, gemm_cycles

POOL_2X2 = "pool"
LAYERS = (128, POOL_2X2, 256, 256, POOL_2X2, 512, 512, POOL_2X2, 512, 512)
KERNEL = 3

# maps[time step][block of image rows][32 channels]: the task that must have ended
Maps = list[list[list[frozenset[int]]]]


def spiking_vgg11(time_steps: int, costs: VectorCosts) -> list[Task]:
    """The tasks in the order layer, time step, block of image rows, 32 channels."""
    net = _ImageTasks(costs)
    size, maps = 32, [[[frozenset[int]()] * (64 // TILE)] * len(row_blocks(32))] * time_steps
    for index, layer in enumerate(LAYERS):
        if isinstance(layer, int):
            maps = net.convolution(f"layer{index}", maps, size, layer)
        else:
            maps = net.pooling(f"layer{index}", maps, size)
            size //= 2
    return net.tasks


def row_blocks(size: int) -> list[range]:
    """A size x size image in blocks of whole rows, at most 32 pixels each."""
    height = max(1, TILE // size)
    return [range(row, min(row + height, size)) for row in range(0, size, height)]


class _ImageTasks(TaskList):
    def __init__(self, costs: VectorCosts) -> None:
        super().__init__()
        self.costs = costs

    def convolution(self, layer: str, maps: Maps, size: int, outputs: int) -> Maps:
        """3 x 3, LIF, scale. Waits for the neighbouring image rows of all input channels."""
        output: Maps = []
        for step, inputs in enumerate(maps):
            output.append([])
            for block, rows in enumerate(row_blocks(size)):
                pixels = len(rows) * size
                taps = KERNEL * KERNEL * TILE * len(inputs[block])
                group = step * len(inputs) + block
                needed = _rows_of(inputs, size, rows[0] - KERNEL // 2, rows[-1] + KERNEL // 2)
                after = frozenset().union(*(tile for tiles in needed for tile in tiles))
                output[step].append([
                    self.add(layer, group, tile, "array", gemm_cycles(pixels, taps, TILE), after)
                    for tile in range(outputs // TILE)
                ])  # fmt: skip
        spikes = self._lif(f"{layer}.lif", output, size)
        return self._each_tile(f"{layer}.scale", spikes, size, self.costs.scale)

    def _lif(self, layer: str, maps: Maps, size: int) -> Maps:
        """One task per tile, which needs the membrane that the time step before left."""
        blocks = row_blocks(size)
        state = [[frozenset[int]()] * len(tiles) for tiles in maps[0]]
        output: Maps = []
        for step, inputs in enumerate(maps):
            state = [
                [
                    self.add(layer, step * len(blocks) + block, tile, "vector",
                             len(blocks[block]) * size * self.costs.lif, after, state[block][tile])
                    for tile, after in enumerate(tiles)
                ]
                for block, tiles in enumerate(inputs)
            ]  # fmt: skip
            output.append(state)
        return output

    def pooling(self, layer: str, maps: Maps, size: int) -> Maps:
        """2 x 2 average: waits for the two image rows that feed each of its rows."""
        pooled = [
            [
                [
                    frozenset().union(*tiles)
                    for tiles in zip(
                        *_rows_of(inputs, size, 2 * rows[0], 2 * rows[-1] + 1), strict=True
                    )
                ]
                for rows in row_blocks(size // 2)
            ]
            for inputs in maps
        ]
        return self._each_tile(layer, pooled, size // 2, self.costs.pooling)

    def _each_tile(self, layer: str, maps: Maps, size: int, chunk_cycles: int) -> Maps:
        """Stateless work on every pixel: one task per block of rows and 32 channels."""
        blocks = row_blocks(size)
        return [
            [
                [
                    self.add(layer, step * len(blocks) + block, tile, "vector",
                             len(blocks[block]) * size * chunk_cycles, after)
                    for tile, after in enumerate(tiles)
                ]
                for block, tiles in enumerate(inputs)
            ]
            for step, inputs in enumerate(maps)
        ]  # fmt: skip


def _rows_of(
    inputs: list[list[frozenset[int]]], size: int, first: int, last: int
) -> list[list[frozenset[int]]]:
    """The blocks of an image that hold its rows first..last."""
    return [
        tiles
        for tiles, rows in zip(inputs, row_blocks(size), strict=True)
        if rows[0] <= last and rows[-1] >= first
    ]
