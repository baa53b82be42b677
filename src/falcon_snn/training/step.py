"""One training step: spikes, forward, backward, optimiser; on a GPU recorded and replayed.

A step is many hundred small kernels, and launching them takes longer than running them. So the
first steps run plainly, the next is recorded as a CUDA graph, and from then on a step is one
launch. The results are those of the plain step.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from falcon_snn.data.examples import Examples
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.calibrate import calibrate
from falcon_snn.network.chip import FIRST_CHIP, sampled
from falcon_snn.network.compile_ahead import compile_ahead
from falcon_snn.network.convert import convert
from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import Qnn
from falcon_snn.network.teacher import Teacher
from falcon_snn.network.temporal import SlotNetwork
from falcon_snn.neuron.compiling import preparing_kernels
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.training.batches import Batch, Clips
from falcon_snn.training.devices import Devices
from falcon_snn.training.evaluate import class_weights
from falcon_snn.training.optimiser import AdamW
from falcon_snn.training.recipe import Recipe

_PLAIN_STEPS = 3  # for the choice of algorithms


@dataclass
class Job:
    """What is trained, on what, and where the results go."""

    model: Qnn | Teacher
    recipe: Recipe
    clips: Clips
    validation: Examples
    out: Path
    seed: int = 0
    delays: Delays | None = None  # the schedule of a spiking phase; None: a QNN, perhaps on chips
    teachers: tuple[Qnn | Teacher, ...] = ()
    resume: bool = False
    profile: Profile | None = None  # its chips run the spikes of a spiking phase, one per step
    facts: dict[str, Any] = field(default_factory=dict)


class TrainingStep:
    """Learns from one batch after the other; sums losses and hits on the device."""

    def __init__(self, job: Job, devices: Devices, optimiser: AdamW) -> None:
        self.job, self.devices, self.optimiser = job, devices, optimiser
        self.sums = torch.zeros(2, device=devices.device)  # loss times clips, hits
        self.weight = None
        if job.recipe.class_weight:
            labels, power = job.clips.epoch_labels, job.recipe.class_weight
            self.weight = class_weights(labels, len(job.clips.words), power)
        self.temporal = job.recipe.spiking and job.recipe.gradient == "temporal"
        self.network = self._network()
        if job.recipe.spiking and job.profile is None and not self.temporal:
            assert isinstance(job.model, Qnn)
            assert job.delays is not None
            compile_ahead(convert(job.model), [job.delays], padded=job.clips.lengths is not None)
        # The slot-by-slot network waits for its kernels' answers, which no graph can.
        alone = devices.device.type == "cuda" and devices.count == 1
        self.recorded = alone and not self.temporal and job.profile is None
        self.done = 0
        self.chip = FIRST_CHIP  # the number of the next one
        self.ranges: dict[str, float] | None = None  # of its converters; None: not known yet

    def begin_epoch(self, steps_done: int) -> None:
        """Sums start anew, and so does what a resumed run could not know: chips and ranges."""
        self.sums.zero_()
        self.chip, self.ranges = FIRST_CHIP + steps_done, None

    def __call__(self, batch: Batch) -> None:
        compiles = self.done == 0 and self.devices.device.type == "cuda"
        with preparing_kernels if compiles else nullcontext():
            self._step(batch)
        self.done += 1

    def _step(self, batch: Batch) -> None:
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

    def _learn(self, batch: Batch) -> None:
        loss, hits = self._losses(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
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
        """The model behind precision and several processes."""
        job = self.job
        module: nn.Module = job.model
        if self.temporal:
            assert isinstance(job.model, Qnn)
            assert job.delays is not None
            module = SlotNetwork(job.model, job.delays)
        if isinstance(job.model, Qnn):  # the encoder and the classifier are digital
            for stage in job.model.network.stages:
                for suffix, _, _ in stage.products:
                    weights = getattr(job.model.part(stage.name), f"weights{suffix}")
                    weights.noise = job.recipe.weight_noise
        network = self.devices.shared(module)
        # Batch norm is frozen while the spiking network learns: its scale is part of conversion.
        job.model.train(not job.recipe.spiking)
        return network

    def _losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss of a batch and the number of clips that are labelled correctly."""
        job, recipe = self.job, self.job.recipe
        x, lengths, labels, targets = batch
        if recipe.spiking and not self.temporal:
            with torch.no_grad():
                snn = self._spiking(x, lengths)
                streams = snn.streams(x, lengths, job.delays or snn.network.lookahead)
                with self.devices.autocast():  # counts come in the type that products take
                    spikes = snn.counts(streams)
            scores = self.network(x, lengths, spikes)
        else:
            scores = self.network(x, lengths)
        wanted = labels if targets is None else targets
        # A teacher says better than smoothing which other words a clip resembles.
        smoothing = 0.0 if job.teachers else recipe.label_smoothing
        loss = F.cross_entropy(scores, wanted, self.weight, label_smoothing=smoothing)
        if job.teachers:
            with torch.no_grad(), self.devices.autocast():
                answers = [teacher(x, lengths).float() for teacher in job.teachers]
            taught = torch.stack(answers).mean(dim=0)
            loss = (1 - recipe.distil) * loss + recipe.distil * divergence(
                scores, taught, recipe.temperature
            )
        return loss, (scores.argmax(dim=1) == labels).sum()

    def _spiking(self, x: Tensor, lengths: Tensor | None) -> Snn:
        """The integer network as it is now, on a chip of its own if the job has a profile."""
        job = self.job
        assert isinstance(job.model, Qnn)
        snn, qnn = convert(job.model), job.delays is None
        if job.profile is None:
            return snn
        if self.ranges is None:
            delays = job.delays or snn.network.lookahead
            self.ranges = calibrate(snn, job.profile, x, lengths, delays, qnn=qnn)
        self.chip += 1
        return sampled(snn, job.profile, self.chip, self.ranges, qnn=qnn)


def divergence(scores: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """Distillation: t^2 KL(softmax(taught / t) || softmax(scores / t)), mean over the batch."""
    student = F.log_softmax(scores / temperature, dim=1)
    teacher = F.log_softmax(taught / temperature, dim=1)
    return temperature**2 * F.kl_div(student, teacher, reduction="batchmean", log_target=True)
