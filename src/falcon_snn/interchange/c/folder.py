"""A C program as a folder: fixed files, the network, clips with what is expected, a Makefile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.data.audio import pink_noise, to_int16
from falcon_snn.data.features import CLIP_SAMPLES, exact_log_mel, one_second
from falcon_snn.errors import FalconError
from falcon_snn.files import new_folder
from falcon_snn.interchange.c.program import Program, c_text, feature_tables
from falcon_snn.network.integer import Snn

ALWAYS = ("runtime.c", "runtime.h", "compare.c", "say.c")
WITH_SOUND = ("features.c", "features.h")
_PRECISION = """
Features are computed in double: a chip without a unit for it does that in software, slowly but
with the same result. They differ from those of training by some 1e-13, so an 8-bit input differs
only where a value lies that close to the middle between two steps; on 200 recordings none did."""


@dataclass(frozen=True)
class Sizes:
    """What a network takes on a device, without its code."""

    flash_bytes: int  # constants
    ram_bytes: int  # static memory, without the caller's samples


def write_c(
    folder: Path, snn: Snn, delays: Mapping[str, int], words: Sequence[str],
    clips: NDArray[np.int16] | NDArray[np.int8] | None = None,
) -> Sizes:  # fmt: skip
    """Write a network under a schedule as a new folder.

    `clips` are what its test compares: samples [clip, 16000], or 8-bit inputs [clip, ...] of a
    network that does not hear; by default two of noise.
    """
    snn = snn.to("cpu")
    snn.network.demand_spikes()
    program = Program(snn, delays)
    tables, table_bytes = "", 0
    if program.sound:
        source = snn.network.source
        tables, table_bytes = feature_tables(source.levels, source.zero)
    sizes = Sizes(program.constant_bytes + table_bytes, program.ram_bytes)
    clips = noise_clips(program) if clips is None else clips
    files = {name: _text(name) for name in ALWAYS + (WITH_SOUND if program.sound else ())}
    files |= {
        "falcon.h": _header(program, words, sizes),
        "network.c": _network(program, words),
        "Makefile": _filled("Makefile", {
            "FEATURES": "features.c" if program.sound else "",
            "HEADERS": "features.h feature_tables.h" if program.sound else "",
        }),
        "README.md": _readme(program, sizes),
    }  # fmt: skip
    if program.sound:
        files["feature_tables.h"] = tables
    with new_folder(folder) as target:
        for name, text in files.items():
            (target / name).write_text(text, encoding="utf-8")
        (target / "expected").mkdir()
        (target / "expected" / "clips").write_bytes(_little(clips))
        with (target / "expected" / "stages").open("wb") as file:
            for clip in clips:
                file.write(expected(program, clip))
    return sizes


def noise_clips(program: Program) -> NDArray[np.int16] | NDArray[np.int8]:
    """Two clips that are not data: noise that swells and falls, or random inputs."""
    if program.sound:
        noise = pink_noise(2 * CLIP_SAMPLES).reshape(2, CLIP_SAMPLES)
        swell = np.hanning(CLIP_SAMPLES).astype(np.float32) ** 4
        return np.stack([to_int16(clip * swell) for clip in noise])
    top = program.network.slots if program.network.source.given else 127
    draws = np.random.Generator(np.random.Philox(0))
    low = 0 if program.network.source.given else -127
    return draws.integers(low, top + 1, (2, *program.network.source.input)).astype(np.int8)


def expected(program: Program, clip: NDArray[np.int16] | NDArray[np.int8]) -> bytes:
    """The integers of every stage on one clip, as `compare.c` meets them."""
    snn, network, source = program.snn, program.network, program.network.source
    parts: list[bytes] = []
    if program.sound:
        samples = torch.from_numpy(np.ascontiguousarray(clip))[None]
        x = exact_log_mel(one_second(samples, torch.tensor([CLIP_SAMPLES])))
        parts.append(_octets(source.integers(x).to(torch.int8)))
    else:
        x = torch.from_numpy(clip.astype(np.float32))[None] / source.levels + source.zero
    streams = snn.streams(x, None, program.delays)
    parts += [_octets(network.inner(s.name, streams[s.name])) for s in network.inner_stages]
    scores = snn.scores(streams, None)[0]
    return b"".join([*parts, _little(scores.to(torch.int64).numpy())])


def _octets(stream: Tensor) -> bytes:
    return stream.contiguous().numpy().tobytes()


def _little(array: NDArray[np.signedinteger]) -> bytes:
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def _header(program: Program, words: Sequence[str], sizes: Sizes) -> str:
    kind, meant = (
        ("int16_t", "samples of one second at 16 kHz, mono") if program.sound
        else ("int8_t", "inputs [line][pixel][channel], (x - zero) * levels rounded")
    )  # fmt: skip
    return "\n".join([
        f"/* {_comment(program.network.name)}, T = {program.network.slots}. Generated. */",
        "#ifndef FALCON_H",
        "#define FALCON_H",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        f"typedef {kind} falcon_input; /* {meant} */",
        f"#define FALCON_INPUT {program.inputs}",
        f"#define FALCON_CLASSES {len(words)}",
        f"#define FALCON_LOGIT_SCALE {program.logit_scale!r}",
        f"#define FALCON_CONSTANT_BYTES {sizes.flash_bytes}",
        f"#define FALCON_STATIC_BYTES {sizes.ram_bytes}",
        "extern const char *const falcon_words[FALCON_CLASSES];",
        "",
        "/* The class of a clip, and its scores; not for two threads at once. */",
        "int falcon_run(const falcon_input *input, int64_t *scores);",
        "#ifdef FALCON_WATCH",
        "/* Yours, if you define FALCON_WATCH: hears the integers of every stage. */",
        "void falcon_watch(const char *stage, const void *integers, size_t size);",
        "#endif",
        "#endif",
        "",
    ])  # fmt: skip


def _network(program: Program, words: Sequence[str]) -> str:
    names = ",\n".join(c_text(word) for word in words)
    delays = " ".join(f"{name}={d}" for name, d in program.delays.items())
    prepare = []
    if program.sound:
        logs, inputs = program.buffers["logs"].at, program.buffers["inputs"]
        prepare = [
            f"    falcon_features(input, (double *)(void *)(memory.bytes + {logs}),",
            f"                    (int8_t *)(memory.bytes + {inputs.at}));",
            f'    WATCH("inputs", memory.bytes + {inputs.at}, {inputs.size});',
        ]
    return "\n".join([
        f"/* {_comment(program.network.name)}, T = {program.network.slots}. Generated.",
        f" * Delays: {_comment(delays) or 'none'} */",
        '#include "falcon.h"',
        '#include "features.h"' if program.sound else "",
        '#include "runtime.h"',
        "",
        "#ifdef FALCON_WATCH",
        "#define WATCH(stage, integers, size) falcon_watch(stage, integers, size)",
        "#else",
        "#define WATCH(stage, integers, size) ((void)0)",
        "#endif",
        "",
        f"const char *const falcon_words[FALCON_CLASSES] = {{\n{names}\n}};",
        "",
        *program.constants,
        "",
        "/* Outputs of stages share memory: each lies there until its last reader is done. */",
        f"static union {{ double aligned; uint8_t bytes[{program.memory_bytes}]; }} memory;",
        f"static int32_t sums[{program.sums}], more[{program.more}];",
        "",
        "int falcon_run(const falcon_input *input, int64_t *scores)",
        "{",
        *prepare,
        *program.calls,
        "}",
        "",
    ])  # fmt: skip


def _readme(program: Program, sizes: Sizes) -> str:
    source = program.network.source
    shape = " x ".join(map(str, source.input))
    sound = program.sound
    return _filled("README.md", {
        "NAME": program.network.name,
        "LIBRARY": ", `log`, `sqrt` and `rintf`" if sound else "",
        "INPUT": "16,000 samples at 16 kHz" if sound else
        f"{shape} 8-bit numbers, round((x - {source.zero:g}) * {source.levels:g})",
        "FEATURE_FILES": "\n- `features.c`, `feature_tables.h`: log-mel features of the samples."
        if sound else "",
        "FLASH": f"{sizes.flash_bytes:,}",
        "RAM": f"{sizes.ram_bytes:,}",
        "CALLER": ", and 32,000 for the samples, which are yours" if sound else "",
        "PRECISION": _PRECISION
        if sound else "",
    })  # fmt: skip


def _comment(text: str) -> str:
    """Text that cannot end a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")


def _text(name: str) -> str:
    return (resources.files("falcon_snn.interchange.c") / "text" / name).read_text("utf-8")


def _filled(name: str, values: Mapping[str, str]) -> str:
    text = _text(name)
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    if "@" in text.replace("$@", ""):
        raise FalconError(f"{name}: a place was left empty; please report this as a bug")
    return text
