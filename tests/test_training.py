"""The training loop: what moves, what is kept, what survives a kill, what several processes do."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.training_data import CONFIG, NETWORK, make_examples, make_job

from falcon_snn.data.augment import Augmentation
from falcon_snn.data.examples import Waves
from falcon_snn.errors import FalconError
from falcon_snn.network.falcon import falcon
from falcon_snn.network.qnn import Qnn
from falcon_snn.network.teacher import Teacher
from falcon_snn.training.batches import Clips, shift_frames
from falcon_snn.training.checkpoint import load_checkpoint, load_model, load_teacher
from falcon_snn.training.devices import Devices
from falcon_snn.training.evaluate import class_weights, validate
from falcon_snn.training.loop import EpochResult, neuron_parameters, train
from falcon_snn.training.recipe import fitted_batch, load_recipe, one_cycle
from falcon_snn.training.step import Job, divergence


def run(job: Job) -> EpochResult:
    torch.set_num_threads(1)
    return train(job, Devices(torch.device("cpu")))


def curves(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "curves.jsonl").read_text().splitlines()]


def weights(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path)


def same(first: Path, second: Path) -> bool:
    a, b = weights(first), weights(second)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_qnn_learns_and_its_neurons_stay(tmp_path: Path) -> None:
    result = run(make_job(tmp_path, epochs=12))
    assert result.best_accuracy > 70
    model, metadata = load_model(tmp_path / "best.safetensors")
    for name, parameter in neuron_parameters(model).items():
        assert bool((parameter == (1.0 if "threshold" in name else 0.0)).all()), name
    assert metadata.network == NETWORK
    assert metadata.delays is None


def test_best_is_kept_by_validation_accuracy(tmp_path: Path) -> None:
    run(make_job(tmp_path, epochs=8, weight_rate=0.1, warmup=1.0))  # too fast in the end
    lines = curves(tmp_path)
    best = max(line["validation_accuracy"] for line in lines)
    equal = [line["epoch"] for line in lines if line["validation_accuracy"] == best]
    assert equal[-1] < 8  # or the last would be the best anyway
    model, metadata = load_model(tmp_path / "best.safetensors")
    assert metadata.epoch == equal[-1]
    assert validate(model, make_examples(30, 2), None) == best == metadata.metrics["best_accuracy"]
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert load_checkpoint(tmp_path / "last.safetensors")[0].epoch == 8


def test_of_equal_epochs_the_last_is_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accuracies = iter((50.0, 60.0, 60.0, 40.0))
    monkeypatch.setattr(
        "falcon_snn.training.loop.validate", lambda *given, **named: next(accuracies)
    )
    run(make_job(tmp_path, epochs=4))
    assert load_checkpoint(tmp_path / "best.safetensors")[0].epoch == 3


def test_tuning_moves_only_neurons_and_keeps_bounds(tmp_path: Path) -> None:
    job = make_job(
        tmp_path, "tune", neuron_rate=0.5, threshold_low=0.9, threshold_high=1.2,
        offset_low=-0.1, offset_high=0.2,
    )  # fmt: skip
    before = {name: tensor.clone() for name, tensor in job.model.state_dict().items()}
    run(job)
    after = job.model.state_dict()
    neurons = neuron_parameters(job.model)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert moved <= neurons.keys()
    for name, parameter in neurons.items():
        low, high = (0.9, 1.2) if name.endswith("threshold") else (-0.1, 0.2)
        assert low - 1e-6 <= float(parameter.detach().min()), name
        assert float(parameter.detach().max()) <= high + 1e-6, name
    assert any(float(p.detach().max()) > 1.199 for n, p in neurons.items() if "threshold" in n)


@pytest.mark.parametrize("gradient", ["rate", "temporal"])
def test_spike_based_qat_moves_weights_but_no_statistics(tmp_path: Path, gradient: str) -> None:
    run(make_job(tmp_path / "qnn", epochs=4))
    model, _ = load_model(tmp_path / "qnn" / "best.safetensors")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    run(make_job(tmp_path / "qat", "qat", model=model, gradient=gradient, epochs=1))
    after = model.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert "parts.stem/conv1.weights.weight" in moved
    assert "parts.block0/q.weights.weight" in moved
    assert not any("running" in name or "threshold" in name for name in moved)
    held = load_checkpoint(tmp_path / "qat" / "best.safetensors")[0]
    assert held.delays == dict.fromkeys(NETWORK.boundaries, 1)


def test_average_and_teacher(tmp_path: Path) -> None:
    run(make_job(tmp_path / "teacher", epochs=2))
    teacher, _ = load_model(tmp_path / "teacher" / "best.safetensors")
    job = make_job(tmp_path / "ema", teachers=(teacher, teacher), distil=0.5, ema=0.9, epochs=2)
    run(job)
    held = weights(tmp_path / "ema" / "last.safetensors")
    name = "parts.stem/fc1.weights.weight"
    assert not torch.equal(held[f"model.{name}"], held[f"raw.{name}"])
    assert torch.equal(held[f"raw.{name}"], job.model.state_dict()[name])


def test_distillation_by_hand() -> None:
    scores, taught = torch.randn(2, 4, 3, dtype=torch.float64)
    assert float(divergence(scores, scores, 2.0)) == pytest.approx(0.0, abs=1e-6)
    student, teacher = (x.div(2.0).softmax(dim=1) for x in (scores, taught))
    expected = 4 * (teacher * (teacher / student).log()).sum() / len(scores)
    assert float(divergence(scores, taught, 2.0)) == pytest.approx(float(expected))


def test_rare_classes_count_more() -> None:
    labels = torch.tensor([0, 0, 0, 1])
    weight = class_weights(labels, 3, power=1.0)
    assert weight[:2].tolist() == pytest.approx([2 / 3, 2.0])
    assert float(weight[labels].mean()) == pytest.approx(1.0)
    assert class_weights(labels, 3, power=0.0).tolist() == [1.0, 1.0, 1.0]


def test_a_float_teacher_learns_teaches_and_is_no_network(tmp_path: Path) -> None:
    torch.manual_seed(0)
    run(make_job(tmp_path / "teacher", model=Teacher(NETWORK), epochs=6, weight_rate=1e-3))
    path = tmp_path / "teacher" / "best.safetensors"
    teacher, metadata = load_teacher(path)
    assert metadata.teacher
    assert metadata.metrics["best_accuracy"] > 60
    with pytest.raises(FalconError, match="a teacher, which never spikes"):
        load_model(path)
    assert isinstance(teacher, Teacher)
    x = 3 * torch.randn(4, *NETWORK.source.input)
    folded, whole = teacher.folded()(x), teacher.eval()(x)
    assert torch.allclose(folded, whole, atol=1e-4)
    assert float(whole.detach().std()) > 0.1
    run(make_job(tmp_path / "student", teachers=(teacher,), distil=0.5, epochs=1))
    assert not load_teacher(tmp_path / "student" / "best.safetensors")[1].teacher


def test_mixed_clips_are_learned_from(tmp_path: Path) -> None:
    job = make_job(tmp_path, epochs=12, augment=Augmentation(mixup=0.5))
    batch = next(job.clips.epoch(0, 0))
    assert batch.targets is not None
    assert torch.equal(batch.targets.argmax(1), batch.labels)
    assert run(job).best_accuracy > 70


def test_one_cycle_rises_and_falls() -> None:
    rates = [one_cycle(step, 100, 0.3) for step in range(100)]
    assert max(rates) == rates[30] == 1.0
    assert rates[0] < 0.05
    assert rates[-1] < 0.01


_CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.test_training import run
from tests.training_data import make_job
run(make_job(Path({out!r}), epochs=40, ema=0.9))
"""


def test_resume_after_kill_gives_the_same_weights(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[1])
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    child = subprocess.Popen([sys.executable, "-c", _CHILD.format(root=root, out=str(killed))])
    try:
        deadline = time.monotonic() + 120
        while not ((killed / "curves.jsonl").exists() and len(curves(killed)) >= 3):
            assert child.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    done = load_checkpoint(killed / "last.safetensors")[0].epoch
    assert 2 <= done < 40
    with pytest.raises(FalconError, match="--resume"):
        run(make_job(killed, epochs=40, ema=0.9))
    run(make_job(killed, epochs=40, ema=0.9, resume=True))
    run(make_job(whole, epochs=40, ema=0.9))
    assert same(killed / "last.safetensors", whole / "last.safetensors")
    assert same(killed / "best.safetensors", whole / "best.safetensors")
    figures = [[line["validation_accuracy"] for line in curves(out)] for out in (killed, whole)]
    assert figures[0] == figures[1]
    # A run that is complete stays as it is.
    assert run(make_job(killed, epochs=40, ema=0.9, resume=True)).epoch == 40


def test_resume_refuses_another_run(tmp_path: Path) -> None:
    run(make_job(tmp_path, epochs=1))
    with pytest.raises(FalconError, match="made with recipe 'label_smoothing'"):
        run(make_job(tmp_path, epochs=1, label_smoothing=0.2, resume=True))
    changed = make_job(tmp_path, epochs=1, resume=True)
    changed.facts = {"data": {"source": "elsewhere", "key": "of other clips"}}
    with pytest.raises(FalconError, match="made with data"):
        run(changed)
    other = Qnn(falcon(replace(CONFIG, hidden=8)))
    with pytest.raises(FalconError, match=r"another stage 'stem\.fc1'"):
        run(make_job(tmp_path, epochs=1, model=other, resume=True))


_RANK = """
import sys, hashlib
from pathlib import Path
sys.path.insert(0, {root!r})
import torch
from tests.training_data import make_job
from falcon_snn.training.devices import open_devices
from falcon_snn.training.loop import train
torch.set_num_threads(1)
devices = open_devices(2)
job = make_job(Path({out!r}) / "run", epochs=2)
result = train(job, devices)
digest = hashlib.sha256()
for tensor in job.model.state_dict().values():
    digest.update(tensor.numpy().tobytes())
line = digest.hexdigest() + " " + repr(result.validation_accuracy)
(Path({out!r}) / f"rank{{devices.rank}}").write_text(line)
devices.close()
"""


def test_two_processes_end_with_the_same_weights(tmp_path: Path) -> None:
    script = tmp_path / "two.py"
    script.write_text(_RANK.format(root=str(Path(__file__).parents[1]), out=str(tmp_path)))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    ranks = [(tmp_path / f"rank{rank}").read_text() for rank in (0, 1)]
    assert ranks[0] == ranks[1]
    assert len(curves(tmp_path / "run")) == 2


_LOST = """
import sys, time
from falcon_snn.training.devices import open_devices
if open_devices(2).rank == 1:
    sys.exit(3)
time.sleep(60)
print("not noticed")
"""


def test_the_last_other_process_is_missed_when_it_fails(tmp_path: Path) -> None:
    (tmp_path / "lost.py").write_text(_LOST)
    command = [sys.executable, str(tmp_path / "lost.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "not noticed" not in done.stdout


_STOPPED = """
import os, signal, sys, time
from falcon_snn.training.devices import open_devices
if open_devices(2).rank == 0:
    os.killpg(0, signal.SIGINT)
time.sleep(60)
"""


def test_ctrl_c_is_told_to_the_first_process_alone(tmp_path: Path) -> None:
    (tmp_path / "stopped.py").write_text(_STOPPED)
    command = [sys.executable, str(tmp_path / "stopped.py")]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert done.returncode == -signal.SIGINT
    assert done.stderr.count("Traceback") == 1


def test_recordings_are_augmented_on_the_device(tmp_path: Path) -> None:
    waves = Waves(
        (torch.randn(9, 20_000) * 3_000).to(torch.int16), torch.full((9,), 20_000),
        torch.arange(9) % 3, ["x"] * 9, ["y"] * 9, ("a", "b", "c"),
    )  # fmt: skip
    augment = Augmentation(speed=0.1, shift_ms=50.0, noise_probability=0.5, noise_level=0.2)
    recipe = replace(load_recipe("qnn"), batch=4, augment=augment)
    assert recipe.needs_waves
    clips = Clips(waves, recipe, torch.device("cpu"), torch.randn(40_000))
    first, again, later = ([batch.x for batch in clips.epoch(1, epoch)] for epoch in (0, 0, 1))
    assert [tuple(x.shape) for x in first] == [(4, 98, 64)] * 3
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], later[0])


def test_every_clip_is_in_an_epoch_and_batches_are_of_one_size() -> None:
    recipe = replace(load_recipe("qnn"), batch=20, augment=Augmentation())
    clips = Clips(make_examples(48, 1), recipe, torch.device("cpu"), torch.zeros(0))
    clips.labels = torch.arange(48)  # so that a batch says which clips it holds
    seen = [batch.labels.tolist() for batch in clips.epoch(0, 0)]
    assert clips.steps() == len(seen) == 3
    assert {len(part) for part in seen} == {clips.batch} == {16}
    assert {clip for part in seen for clip in part} == set(range(48))
    odd = Clips(make_examples(41, 1), recipe, torch.device("cpu"), torch.zeros(0))
    odd.labels = torch.arange(41)
    seen = [batch.labels.tolist() for batch in odd.epoch(0, 0)]
    assert [len(part) for part in seen] == [16, 16, 16]
    order = [clip for part in seen for clip in part]
    assert sorted(order[:41]) == list(range(41))
    assert order[41:] == seen[0][:7]  # the last batch is filled up from the start


@pytest.mark.parametrize(
    ("clips", "batch"),
    [(51_088, 512), (10_240, 512), (10_239, 256), (1_750, 64), (743, 32), (200, 16), (9, 9)],
)
def test_recipes_that_come_along_fit_the_batch_to_the_data(clips: int, batch: int) -> None:
    assert fitted_batch(load_recipe("qnn"), clips) == batch
    own = replace(load_recipe("qnn"), fit=False)
    assert fitted_batch(own, clips) == min(512, clips)


def test_shifted_clips_keep_their_padding() -> None:
    x = torch.arange(1, 13).view(2, 6, 1).repeat(1, 1, 2)
    lengths = torch.tensor([4, 6])
    draw = torch.Generator().manual_seed(0)
    for _ in range(20):
        shifted, kept = shift_frames(x, lengths, 2, draw)
        assert kept is not None
        for clip in range(2):
            by = int(kept[clip] - lengths[clip])
            source = x[clip, max(0, -by) : 6 - max(0, by)]
            place = slice(max(0, by), max(0, by) + len(source))
            if clip == 0:  # clip 1 is full: its length is cut at the end
                assert torch.equal(shifted[clip, place], source)
                assert int((shifted[clip] == 0).sum()) == 2 * abs(by)


def test_a_run_away_loss_is_an_error(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    with torch.no_grad():
        assert isinstance(job.model, Qnn)
        job.model.part("classifier").linear.weight.fill_(float("inf"))
    with pytest.raises(FalconError, match="no longer finite in epoch 1"):
        run(job)
    assert not (tmp_path / "last.safetensors").exists()


def test_a_batch_must_be_shared_evenly(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    with pytest.raises(FalconError, match="batch of 12 cannot be shared by 5"):
        next(job.clips.epoch(0, 0, rank=0, world=5))
    parts = [next(job.clips.epoch(0, 0, rank, 2)).labels for rank in (0, 1)]
    whole = next(job.clips.epoch(0, 0)).labels
    assert torch.equal(torch.cat(parts), whole)
