"""Task graphs of networks over acoustic frames, which shared engines take in groups of 32.

A `Signal` says which tasks must have ended before 32 channels of a group of frames can be read:
`signal[group][tile]`. Every method adds the tasks of one layer and returns its output signal.
"""

from falcon_snn.pipeline.engines import TILE, TaskList, gemm_cycles

Signal = list[list[frozenset[int]]]


def join(*parts: Signal) -> Signal:
    """The channels of several signals side by side."""
    return [[tile for signal in groups for tile in signal] for groups in zip(*parts, strict=True)]


def channels(x: Signal, first: int, last: int) -> Signal:
    """Channels first..last-1 of a signal; both are multiples of 32."""
    return [tiles[first // TILE : last // TILE] for tiles in x]


class FrameTasks(TaskList):
    """The tasks of a network over frames; creation order is layer, group, tile."""

    def __init__(self, frames: int, spread_neurons: bool) -> None:
        super().__init__()
        self.frames = frames
        self.spread_neurons = spread_neurons
        self.groups = [range(f, min(f + TILE, frames)) for f in range(0, frames, TILE)]

    def source(self, width: int) -> Signal:
        """Input channels that are ready at time 0."""
        return [[frozenset()] * (width // TILE) for _ in self.groups]

    def linear(self, layer: str, x: Signal, outputs: int) -> Signal:
        """A dense layer: one array task per 32 outputs, which needs all channels of its group."""
        return [
            [
                self.add(layer, group, tile, "array",
                         gemm_cycles(len(frames), len(x[group]) * TILE, TILE), *x[group])
                for tile in range(outputs // TILE)
            ]
            for group, frames in enumerate(self.groups)
        ]  # fmt: skip

    def neurons(self, layer: str, x: Signal, chunk_cycles: int) -> Signal:
        """A spiking layer, which needs the membranes that the group before left.

        One task for all channels of a group, as the published figures imply; or, with
        `spread_neurons`, one per 32 channels, so that idle engines can share the layer.
        """
        state = [frozenset[int]()] * len(x[0])
        output = []
        for group, frames in enumerate(self.groups):
            cycles = len(frames) * chunk_cycles
            if self.spread_neurons:
                state = [
                    self.add(layer, group, tile, "vector", cycles, after, state[tile])
                    for tile, after in enumerate(x[group])
                ]
            else:
                width = len(x[group])
                state = [
                    self.add(layer, group, 0, "vector", cycles * width, *x[group], state[0])
                ] * width
            output.append(state)
        return output

    def elementwise(self, layer: str, chunk_cycles: int, *inputs: Signal) -> Signal:
        """Stateless work on each frame: one task per group and 32 channels."""
        return self.window(layer, chunk_cycles, 0, *inputs)

    def window(self, layer: str, chunk_cycles: int, radius: int, *inputs: Signal) -> Signal:
        """Stateless work on frames t - radius .. t + radius: waits for each group they touch."""
        output = []
        for group, frames in enumerate(self.groups):
            touched = [
                other
                for other, others in enumerate(self.groups)
                if others[0] <= frames[-1] + radius and others[-1] >= frames[0] - radius
            ]
            cycles = len(frames) * chunk_cycles
            output.append([
                self.add(layer, group, tile, "vector", cycles,
                         *(x[other][tile] for x in inputs for other in touched))
                for tile in range(len(inputs[0][group]))
            ])  # fmt: skip
        return output

    def whole_sequence(self, layer: str, cycles: int, *inputs: Signal) -> Signal:
        """One task per 32 channels over all frames; every group reads its result."""
        tiles = [
            self.add(layer, 0, tile, "vector", cycles, *(y[tile] for x in inputs for y in x))
            for tile in range(len(inputs[0][0]))
        ]
        return [tiles for _ in self.groups]
