"""One training loop for all phases: the recipe says what moves and how the network is executed.

Nothing in a step waits for the device: losses and hits are summed there and read once an epoch.
"""

import json
import time
from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from falcon_snn.errors import FalconError
from falcon_snn.files import demand_unused, read_json_lines, write_text
from falcon_snn.forms import shaped
from falcon_snn.network.parts import Weights
from falcon_snn.network.quantise import Counter
from falcon_snn.network.teacher import Teacher
from falcon_snn.training.batches import epoch_seed
from falcon_snn.training.checkpoint import (
    Metadata,
    check_tensors,
    demand_same,
    demand_same_network,
    demand_words,
    load_checkpoint,
    load_weights,
    prefixed,
    save_checkpoint,
    under,
)
from falcon_snn.training.devices import Devices
from falcon_snn.training.evaluate import on_device, validate
from falcon_snn.training.optimiser import AdamW, Group
from falcon_snn.training.recipe import Recipe, one_cycle
from falcon_snn.training.step import Job, TrainingStep

DROPOUT_STREAM = 500  # besides the streams of `Clips.epoch`
BEST, LAST, CURVES = "best.safetensors", "last.safetensors", "curves.jsonl"


@dataclass(frozen=True)
class EpochResult:
    """One line of the curves."""

    epoch: int
    loss: float
    training_accuracy: float
    validation_accuracy: float
    best_accuracy: float
    clips_per_second: float
    seconds: float


Watch = Callable[[int, EpochResult | None], None]  # clips trained on; the epoch that just ended


def train(job: Job, devices: Devices, watch: Watch = lambda clips, ended: None) -> EpochResult:
    """Train, validate and keep checkpoints; the last epoch's result."""
    state = _State(job, devices)
    if state.epoch == job.recipe.epochs:
        return state.results[-1]
    step = TrainingStep(job, devices, state.optimiser)
    validation = on_device(job.validation, devices.device)
    while state.epoch < job.recipe.epochs:
        begin = time.perf_counter()
        # Dropout draws from torch's own generator: a run that is continued must draw the same.
        torch.manual_seed(epoch_seed(job.seed, state.epoch, DROPOUT_STREAM + devices.rank))
        step.begin_epoch(state.steps_done)
        done = 0
        for batch in job.clips.epoch(job.seed, state.epoch, devices.rank, devices.count):
            state.set_rates()
            step(batch)
            state.after_step()
            done += len(batch.labels) * devices.count
            watch(len(batch.labels) * devices.count, None)
        state.agree()
        loss_sum, hit_sum = devices.total(step.sums).tolist()
        seconds = time.perf_counter() - begin  # the line above has waited for the device
        if not isfinite(loss_sum):
            raise FalconError(
                f"the loss is no longer finite in epoch {state.epoch + 1}; lower the recipe's rates"
            )
        accuracy = validate(
            state.shadow or job.model, validation, job.delays, job.recipe.class_weight, job.profile
        )
        result = state.end_epoch(
            loss=loss_sum / done,
            training_accuracy=100.0 * hit_sum / done,
            validation_accuracy=accuracy,
            clips_per_second=done / seconds,
            seconds=seconds,
        )
        watch(0, result)
    return result


class _State:
    """All that changes during training, and how it is kept on disk."""

    def __init__(self, job: Job, devices: Devices) -> None:
        self.job, self.devices = job, devices
        self.epoch = 0
        self.steps_done = 0
        self.steps = job.clips.steps() * job.recipe.epochs
        self.results: list[EpochResult] = []
        job.model.to(devices.device)
        self.neurons = neuron_parameters(job.model)
        self.moving = choose_moving(job.model, job.recipe)
        self.optimiser = make_optimiser(
            self.moving, self.neurons.keys(), job.recipe, devices.device
        )
        self.shadow = deepcopy(job.model).requires_grad_(False) if job.recipe.ema else None
        if self.shadow is not None:
            self.behind, self.ahead = _floats(self.shadow), _floats(job.model)
        last = job.out / LAST
        if not job.resume:
            if last.exists():
                raise FalconError(f"{job.out}: already holds a run; add --resume or change --out")
            demand_unused(job.out, (BEST, CURVES))
        if last.exists():
            self._restore(last)

    def set_rates(self) -> None:
        """The learning rates of the next step."""
        self.optimiser.set_rates(one_cycle(self.steps_done, self.steps, self.job.recipe.warmup))

    @torch.no_grad()
    def after_step(self) -> None:
        """Neurons stay in their bounds; the average follows."""
        recipe = self.job.recipe
        self.steps_done += 1
        if recipe.neuron_rate:
            for name, parameter in self.neurons.items():
                if name.endswith("threshold"):
                    parameter.clamp_(recipe.threshold_low, recipe.threshold_high)
                else:
                    parameter.clamp_(recipe.offset_low, recipe.offset_high)
        if recipe.weight_clip:
            for part in self.job.model.modules():
                if isinstance(part, Weights):
                    limit = recipe.weight_clip * part.weight.std()
                    part.weight.clamp_(-limit, limit)
        if self.shadow is not None:
            # Early on the average reaches back over a tenth of the steps, not to the start.
            decay = min(recipe.ema, self.steps_done / (self.steps_done + 10))
            torch._foreach_lerp_(self.behind, self.ahead, 1 - decay)

    def agree(self) -> None:
        """Several processes: rank 0's batch-norm statistics count; all weights must be equal."""
        if self.devices.count == 1:
            return
        for model in (self.job.model, self.shadow):
            if model is not None:
                for buffer in model.buffers():
                    torch.distributed.broadcast(buffer, src=0)
        total = torch.stack([p.detach().double().sum() for p in self.job.model.parameters()]).sum()
        first = total.clone()
        torch.distributed.broadcast(first, src=0)
        if not torch.equal(first, total):
            raise FalconError(
                "the processes no longer hold the same weights; continue with --resume"
            )

    def end_epoch(self, **figures: float) -> EpochResult:
        """Count the epoch and write best, curves and last, in an order that a kill cannot harm."""
        job = self.job
        self.epoch += 1
        before = max((result.validation_accuracy for result in self.results), default=-1.0)
        best = max(before, figures["validation_accuracy"])
        result = EpochResult(epoch=self.epoch, best_accuracy=best, **figures)
        self.results.append(result)
        if self.devices.leads:
            metadata = Metadata(
                network=job.model.network,
                words=job.clips.words,
                recipe=asdict(job.recipe),
                epoch=self.epoch,
                seed=job.seed,
                metrics=asdict(result),
                delays=job.delays,
                facts=job.facts,
                teacher=isinstance(job.model, Teacher),
            )
            tensors = prefixed("model.", (self.shadow or job.model).state_dict())
            if figures["validation_accuracy"] == best:  # of equal epochs the last: trained longest
                save_checkpoint(job.out / BEST, metadata, tensors)
            lines = [json.dumps(asdict(result)) + "\n" for result in self.results]
            write_text(job.out / CURVES, "".join(lines))
            if self.shadow is not None:
                tensors |= prefixed("raw.", job.model.state_dict())
            for name, parameter in self.moving.items():
                moments = self.optimiser.moments[parameter]
                tensors[f"first.{name}"] = moments.first
                tensors[f"second.{name}"] = moments.second
            save_checkpoint(job.out / LAST, metadata, tensors)
        return result

    def _restore(self, path: Path) -> None:
        """Continue where `last.safetensors` ended."""
        job = self.job
        metadata, tensors = load_checkpoint(path)
        demand_same_network(path, metadata.network, job.model.network)
        demand_same(path, "recipe", metadata.recipe, asdict(job.recipe))
        demand_words(path, metadata.words, job.clips.words)
        demand_same(path, "seed", metadata.seed, job.seed)
        demand_same(path, "schedule", metadata.delays, job.delays)
        # Of the fingerprint; a path may change.
        for what in ("data", "start", "teachers", "hardware"):
            found, wanted = (_origin(facts.get(what)) for facts in (metadata.facts, job.facts))
            demand_same(path, what, found, wanted)
        weights = under("model.", tensors)
        if self.shadow is not None:
            load_weights(self.shadow, weights, path)
            weights = under("raw.", tensors)
        load_weights(job.model, weights, path)
        self.epoch = metadata.epoch
        self.steps_done = self.epoch * job.clips.steps()
        moving = {
            f"{kind}.{name}": parameter.detach()
            for kind in ("first", "second")
            for name, parameter in self.moving.items()
        }
        kept = {name: t for name, t in tensors.items() if name.startswith(("first.", "second."))}
        check_tensors(moving, kept, path)
        for name, parameter in self.moving.items():
            moments = self.optimiser.moments[parameter]
            moments.steps.fill_(self.steps_done)
            moments.first.copy_(tensors[f"first.{name}"])
            moments.second.copy_(tensors[f"second.{name}"])
        lines = shaped(read_json_lines(job.out / CURVES), list[EpochResult], job.out / CURVES)
        self.results = lines[: self.epoch]
        if not 1 <= self.epoch == len(self.results) <= job.recipe.epochs:
            raise FalconError(f"{path}: {self.epoch} epochs, {len(self.results)} in {CURVES}")


def _origin(fact: Any) -> Any:
    """What a fact of the fingerprint says about content: of data its key, not where it lies."""
    return fact.get("key", fact) if isinstance(fact, dict) else fact


def neuron_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Thresholds and offsets of the IF stages, by name; a source has none to tune."""
    counters = {name: part for name, part in model.named_modules() if isinstance(part, Counter)}
    return {
        f"{name}.{kind}": getattr(part, kind)
        for name, part in counters.items()
        if part.tunable
        for kind in ("threshold", "offset")
    }


def choose_moving(model: nn.Module, recipe: Recipe) -> dict[str, nn.Parameter]:
    """Let only those parameters learn whose rate is not zero; give them by name."""
    neurons = neuron_parameters(model)
    fixed = {
        id(parameter)
        for part in model.modules()
        if isinstance(part, Counter)
        for parameter in part.fixed()
    }
    for name, parameter in model.named_parameters():
        rate = recipe.neuron_rate if name in neurons else recipe.weight_rate
        parameter.requires_grad_(rate > 0 and id(parameter) not in fixed)
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def make_optimiser(
    moving: dict[str, nn.Parameter], neurons: Collection[str], recipe: Recipe, device: torch.device
) -> AdamW:
    """AdamW with weight decay on matrices only, and a rate of its own for the neurons."""
    matrices = [p for p in moving.values() if p.dim() > 1]
    vectors = [p for name, p in moving.items() if p.dim() <= 1 and name not in neurons]
    tuned = [p for name, p in moving.items() if name in neurons]
    groups = [
        Group(matrices, recipe.weight_rate, recipe.weight_decay),
        Group(vectors, recipe.weight_rate, 0.0),
        Group(tuned, recipe.neuron_rate, 0.0),
    ]
    return AdamW([group for group in groups if group.parameters], device)


def _floats(model: nn.Module) -> list[Tensor]:
    """What a moving average follows: parameters and batch-norm statistics, as live views."""
    return [tensor for tensor in model.state_dict().values() if tensor.is_floating_point()]
