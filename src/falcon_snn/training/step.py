"""One training step: spikes, forward, backward, optimiser; on a GPU recorded and replayed.

A step is about a thousand small kernels, and launching them takes two to three times as long as
running them. So the first steps run plainly, the next is recorded as a CUDA graph, and from then
on a step is one launch. The results are those of the plain step.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from falcon_snn.data.examples import Examples
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.calibrate import CALIBRATION_CLIPS, calibrate
from falcon_snn.network.chip import FIRST_CHIP, sampled
from falcon_snn.network.convert import convert
from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import Qnn
from falcon_snn.network.teacher import Teacher
from falcon_snn.network.temporal import SlotNetwork
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.training.batches import Batch, Clips
from falcon_snn.training.evaluate import class_weights
from falcon_snn.training.recipe import Recipe

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_PLAIN_STEPS = 3  # for compilation, choice of algorithms, the optimiser's state


@dataclass
class Job:
    """What is trained, on what, and where the results go."""

    model: Qnn | Teacher
    recipe: Recipe
    clips: Clips
    validation: Examples
    out: Path
    seed: int = 0
    delays: Delays | None = None  # the schedule of a spiking phase
    teachers: tuple[Qnn | Teacher, ...] = ()
    resume: bool = False
    compile: bool = False
    profile: Profile | None = None  # its chips run the spikes of a spiking phase, one per step
    facts: dict[str, Any] = field(default_factory=dict)


class _Spiking(nn.Module):
    """A network on packed spikes: compiled, decoding them becomes part of what reads the counts."""

    def __init__(self, model: Qnn) -> None:
        super().__init__()
        self.model = model
        self.decode = Snn(model.network, {}).decode

    def forward(self, x: Tensor, lengths: Tensor | None, streams: Mapping[str, Tensor]) -> Tensor:
        spikes = {name: self.decode(name, stream) for name, stream in streams.items()}
        scores: Tensor = self.model(x, lengths, spikes)
        return scores


class TrainingStep:
    """Learns from one batch after the other; sums losses and hits on the device."""

    def __init__(self, job: Job, fabric: "Fabric", optimiser: torch.optim.Optimizer) -> None:
        self.job, self.fabric, self.optimiser = job, fabric, optimiser
        self.sums = torch.zeros(2, device=fabric.device)  # loss times clips, hits
        self.weight = None
        if job.recipe.class_weight:
            labels, power = job.clips.epoch_labels, job.recipe.class_weight
            self.weight = class_weights(labels, len(job.clips.words), power)
        self.temporal = job.recipe.spiking and job.recipe.gradient == "temporal"
        self.network = self._network()
        self.teachers: list[Any] = [
            torch.compile(teacher, dynamic=False) if job.compile else teacher
            for teacher in job.teachers
        ]
        # The slot-by-slot network waits for its kernels' answers, which no graph can.
        alone = fabric.device.type == "cuda" and fabric.world_size == 1
        self.recorded = alone and job.compile and not self.temporal and job.profile is None
        self.done = 0
        self.chip = FIRST_CHIP  # the number of the next one
        self.ranges: dict[str, float] | None = None  # of its converters; None: not known yet

    def begin_epoch(self, steps_done: int) -> None:
        """Sums start anew, and so does what a resumed run could not know: chips and ranges."""
        self.sums.zero_()
        self.chip, self.ranges = FIRST_CHIP + steps_done, None

    def __call__(self, batch: Batch) -> None:
        if not self.recorded:
            self._learn(batch)
        elif self.done < _PLAIN_STEPS:
            self._learn_aside(batch)
        else:
            if self.done == _PLAIN_STEPS:
                self._record(batch)
            for static, part in zip(self.graph_batch, batch, strict=True):
                if static is not None and part is not None:
                    static.copy_(part)
            self.graph.replay()
        self.done += 1

    def _learn(self, batch: Batch) -> None:
        loss, hits = self._losses(batch)
        self.fabric.backward(loss)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.sums += torch.stack((loss.detach() * len(batch.labels), hits))

    def _learn_aside(self, batch: Batch) -> None:
        """On a stream of its own, as recording will be."""
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self._learn(batch)
        torch.cuda.current_stream().wait_stream(aside)

    def _record(self, batch: Batch) -> None:
        self.graph_batch = Batch._make(None if part is None else part.clone() for part in batch)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._learn(self.graph_batch)

    def _network(self) -> Callable[..., Tensor]:
        """The model behind precision, compilation and several processes."""
        job = self.job
        module: Any = job.model
        if job.recipe.spiking:
            assert isinstance(job.model, Qnn)
            assert job.delays is not None
            spiking = _Spiking(job.model)
            module = SlotNetwork(job.model, job.delays) if self.temporal else spiking
        if job.compile and not self.temporal:  # its kernels are fused
            # Shapes never change during training, so nothing is compiled for sizes that may vary.
            module = torch.compile(module, dynamic=False)
        network: Callable[..., Tensor] = self.fabric.setup_module(module)
        # Batch norm is frozen while the spiking network learns: its scale is part of conversion.
        job.model.train(not job.recipe.spiking)
        return network

    def _losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss of a batch and the number of clips that are labelled correctly."""
        job, recipe = self.job, self.job.recipe
        x, lengths, labels, targets = batch
        if recipe.spiking and not self.temporal:
            assert isinstance(job.model, Qnn)
            assert job.delays is not None
            with torch.no_grad():
                streams = self._spiking(x, lengths).streams(x, lengths, job.delays)
            scores = self.network(x, lengths, streams)
        else:
            scores = self.network(x, lengths)
        wanted = labels if targets is None else targets
        # A teacher says better than smoothing which other words a clip resembles.
        smoothing = 0.0 if self.teachers else recipe.label_smoothing
        loss = F.cross_entropy(scores, wanted, self.weight, label_smoothing=smoothing)
        if self.teachers:
            with torch.no_grad(), self.fabric.autocast():
                answers = [teacher(x, lengths).float() for teacher in self.teachers]
            taught = torch.stack(answers).mean(dim=0)
            loss = (1 - recipe.distil) * loss + recipe.distil * divergence(
                scores, taught, recipe.temperature
            )
        return loss, (scores.argmax(dim=1) == labels).sum()

    def _spiking(self, x: Tensor, lengths: Tensor | None) -> Snn:
        """The integer network as it is now, on a chip of its own if the job has a profile."""
        job = self.job
        assert isinstance(job.model, Qnn)
        assert job.delays is not None
        snn = convert(job.model)
        if job.profile is None:
            return snn
        if self.ranges is None:
            few = slice(CALIBRATION_CLIPS)
            some = None if lengths is None else lengths[few]
            self.ranges = calibrate(snn, job.profile, x[few], some, job.delays)
        self.chip += 1
        return sampled(snn, job.profile, self.chip, self.ranges)


def divergence(scores: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """Distillation: t^2 KL(softmax(taught / t) || softmax(scores / t)), mean over the batch."""
    student = F.log_softmax(scores / temperature, dim=1)
    teacher = F.log_softmax(taught / temperature, dim=1)
    return temperature**2 * F.kl_div(student, teacher, reduction="batchmean", log_target=True)
