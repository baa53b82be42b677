"""Make the embedded set: the 35 words of Speech Commands v2, spoken by synthetic voices.

    apt-get install espeak-ng flite festival festvox-kallpc16k festvox-kdlpc16k festvox-us-slt-hts
    python tools/make_embedded.py

A clip is a word from one voice with its own pitch and speed, played a little faster or slower
(which also moves the formants), put into a room, coloured, laid over noise and set to a level.
A voice belongs to one split only. The same seed gives the same samples.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve, lfilter, resample_poly

from falcon_snn.data.audio import in_parallel, read_and_change, to_int16
from falcon_snn.data.clips import Clip
from falcon_snn.data.features import CLIP_SAMPLES, RATE_HZ
from falcon_snn.data.packed import write_packed

HOME = Path(__file__).parent.parent / "src" / "falcon_snn" / "data" / "embedded"
SEED = 20_240
WORDS = """
    backward bed bird cat dog down eight five follow forward four go happy house learn left marvin
    nine no off on one right seven sheila six stop three tree two up visual wow yes zero
"""
CLIPS_PER_WORD = {"training": 50, "validation": 14, "testing": 14}
BITRATE_KBPS = 16.0

ACCENTS = ("en-us", "en-gb", "en-gb-x-rp", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-gbcwmd",
           "en-029", "en-us-nyc")  # fmt: skip
# espeak-ng's speakers, then those of flite and festival. Relatives (iven, iven2; kal in both
# programs) stay together, so that no voice is known from training.
ESPEAK = {
    "training": """
        adam Alex Alicia Andrea Andy antonio benjamin boris caleb Demonic Denis Diogo ed edward
        edward2 gustave Henrique Hugo iven iven2 iven3 iven4 Jacky john kaukovalta Lee marcelo
        Marco Mario max michel miguel Mike Nguyen pablo paul quincy rob RicishayMax2 travis
        victor zac anika AnxiousAndy f1 f2 f4 m1 m2 m4 m6 m7 klatt klatt2 klatt3 klatt4 grandma
    """,
    "validation": "Annie david Michael pedro f3 m3 norbert shelby steph steph2 steph3",
    "testing": "belinda linda robert sandro Gene Gene2 aunty f5 m5 m8 grandpa",
}
OTHERS = {
    "training": (("flite", "kal16"), ("flite", "rms"), ("festival", "kal_diphone")),
    "validation": (("flite", "awb"),),
    "testing": (
        ("flite", "slt"),
        ("festival", "cmu_us_slt_arctic_hts"),
        ("festival", "ked_diphone"),
    ),
}
# One clip in so many comes from flite or festival.
OTHERS_EVERY = 4


@dataclass(frozen=True)
class Take:
    """One word by one voice: what the synthesiser is asked for."""

    split: str
    word: str
    number: int
    engine: str
    voice: str
    accent: str
    pitch: float  # 0..1 within what sounds human
    stretch: float  # duration, 1 is the voice's own

    @property
    def clip(self) -> Clip:
        name = f"{self.word}/{self.engine}-{self.voice}_nohash_{self.number}.wav"
        return Clip(name, self.word, f"{self.engine}-{self.voice}", self.split)


def plan(generator: np.random.Generator) -> list[Take]:
    """Who says what: within a split, every voice takes its turn."""
    takes = []
    for split, count in CLIPS_PER_WORD.items():
        espeak = ESPEAK[split].split()
        for word in WORDS.split():
            speakers = generator.permutation(len(espeak))
            for number in range(count):
                if number % OTHERS_EVERY == 0:
                    engine, voice = OTHERS[split][number // OTHERS_EVERY % len(OTHERS[split])]
                else:
                    engine, voice = "espeak", espeak[speakers[number % len(speakers)]]
                accent = ACCENTS[int(generator.integers(len(ACCENTS)))]
                pitch, stretch = generator.random(), generator.uniform(0.8, 1.25)
                takes.append(Take(split, word, number, engine, voice, accent, pitch, stretch))
    return takes


def speak(take: Take, path: Path) -> None:
    """Let espeak-ng or flite say the word."""
    if take.engine == "espeak":
        voice, pitch = f"{take.accent}+{take.voice}", f"{10 + 75 * take.pitch:.0f}"
        rate = f"{165 / take.stretch:.0f}"
        command = ["espeak-ng", "-v", voice, "-p", pitch, "-s", rate, "-w", str(path), take.word]
    else:
        mean_hz = {"slt": 150, "awb": 100}.get(take.voice, 80) + 60 * take.pitch
        command = ["flite", "-voice", take.voice, "-t", take.word, "-o", str(path),
                   "--setf", f"duration_stretch={take.stretch:.3f}",
                   "--setf", f"int_f0_target_mean={mean_hz:.0f}"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)


def speak_festival(takes: Sequence[tuple[Take, Path]]) -> None:
    """Let festival say all its words in one run: it takes long to start."""
    lines = []
    for take, path in takes:
        lines += [
            f"(voice_{take.voice})",
            f"(Parameter.set 'Duration_Stretch {take.stretch:.3f})",
            f'(utt.save.wave (utt.synth (Utterance Text "{take.word}")) "{path}" \'riff)',
        ]
    subprocess.run(["festival", "--pipe"], input="\n".join(lines), text=True, check=True,
                   capture_output=True)  # fmt: skip


def trim(wave: NDArray[np.float32]) -> NDArray[np.float32]:
    """Without the silence at both ends, peak 1."""
    loud = np.flatnonzero(np.abs(wave) > 0.02 * np.abs(wave).max())
    trimmed: NDArray[np.float32] = wave[loud[0] : loud[-1] + 1] / np.abs(wave).max()
    return trimmed


def coloured_noise(generator: np.random.Generator) -> NDArray[np.float64]:
    """A second of noise between white and brown, power 1, sometimes with mains hum."""
    spectrum = np.fft.rfft(generator.standard_normal(CLIP_SAMPLES))
    spectrum[1:] /= np.arange(1, len(spectrum)) ** (generator.uniform(0.0, 2.0) / 2)
    spectrum[0] = 0.0
    noise: NDArray[np.float64] = np.fft.irfft(spectrum, CLIP_SAMPLES)
    noise /= noise.std()
    if generator.random() < 0.2:
        time_s = np.arange(CLIP_SAMPLES) / RATE_HZ
        hum_hz = generator.choice([50.0, 60.0])
        noise = noise + sum(np.sin(2 * np.pi * hum_hz * k * time_s) / k for k in (1, 2, 3, 5))
        noise /= noise.std()
    return noise


def babble(
    others: Sequence[NDArray[np.float32]], generator: np.random.Generator
) -> NDArray[np.float64]:
    """A second of others talking at once, power 1; their words wrap around."""
    noise = np.zeros(CLIP_SAMPLES)
    for other in others:
        padded = np.pad(other, (0, CLIP_SAMPLES - len(other)))
        noise += np.roll(padded, int(generator.integers(CLIP_SAMPLES)))
    noise /= noise.std()
    return noise


def produce(
    dry: NDArray[np.float32], others: Sequence[NDArray[np.float32]], generator: np.random.Generator
) -> NDArray[np.int16]:
    """From a dry word to a clip of one second: another throat, a room, noise, a level."""
    ratio = int(generator.integers(88, 115))
    wave: NDArray[Any] = resample_poly(dry, 100, ratio)
    if len(wave) > 0.96 * CLIP_SAMPLES:
        wave = resample_poly(wave, 15_000, len(wave))
    if generator.random() < 0.5:
        decay = np.exp(-np.arange(2_400) / (RATE_HZ * generator.uniform(0.01, 0.05)))
        room = generator.standard_normal(2_400) * decay * generator.uniform(0.05, 0.25)
        room[0] = 1.0
        wave = fftconvolve(wave, room)[:CLIP_SAMPLES]
    wave = lfilter([1.0, -generator.uniform(-0.4, 0.8)], [1.0], wave)  # dark or bright microphone
    spare = max(1, CLIP_SAMPLES - len(wave))
    start = int(np.clip(generator.normal(0.5, 0.2), 0, 1) * spare)
    clip = np.zeros(CLIP_SAMPLES)
    clip[start : start + len(wave)] = wave[: CLIP_SAMPLES - start]
    speech_power = np.mean(wave**2)
    noise = babble(others, generator) if generator.random() < 0.25 else coloured_noise(generator)
    clip += noise * np.sqrt(speech_power / 10 ** (generator.uniform(3.0, 30.0) / 10))
    clip *= 10 ** (generator.uniform(-24.0, -1.0) / 20) / np.abs(clip).max()
    return to_int16(clip.astype(np.float32))


def main() -> None:
    takes = plan(np.random.default_rng(SEED))
    with tempfile.TemporaryDirectory() as scratch:
        paths = [Path(scratch) / f"{row}.wav" for row in range(len(takes))]
        jobs = list(zip(takes, paths, strict=True))
        speak_festival([job for job in jobs if job[0].engine == "festival"])
        in_parallel(lambda job: speak(*job), [job for job in jobs if job[0].engine != "festival"])
        dry = [trim(read_and_change(path)[0])[:CLIP_SAMPLES] for path in paths]
    rows_of = {split: [row for row, take in enumerate(takes) if take.split == split]
               for split in CLIPS_PER_WORD}  # fmt: skip
    waves = np.zeros((len(takes), CLIP_SAMPLES), np.int16)
    for row, take in enumerate(takes):
        generator = np.random.default_rng([SEED, row])
        # Others talking at once come from the same split, so that no voice leaks into another.
        others = [dry[other] for other in generator.choice(rows_of[take.split], 12)]
        waves[row] = produce(dry[row], others, generator)
    lengths = np.full(len(takes), CLIP_SAMPLES, np.int64)
    with tempfile.TemporaryDirectory() as scratch:
        packed = Path(scratch) / "packed"
        clips = [take.clip for take in takes]
        write_packed(
            packed, clips, [], waves, lengths, bitrate_kbps=BITRATE_KBPS, clips_per_chunk=700
        )
        for file in packed.iterdir():
            shutil.copyfile(file, HOME / file.name)


if __name__ == "__main__":
    main()
