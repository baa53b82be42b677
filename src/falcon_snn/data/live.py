"""Sound that is not in a file: raw samples from a pipe, and the microphone."""

import queue
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from falcon_snn.data.audio import check_rate, log, resampled
from falcon_snn.data.features import RATE_HZ
from falcon_snn.errors import FalconError

BLOCK_S = 0.08  # how much is taken at once
_WAITING = 125  # blocks, ten seconds; what comes then is lost and counted


def raw_blocks(pipe: BinaryIO, rate_hz: int = RATE_HZ) -> Iterator[NDArray[np.float32]]:
    """Raw 16-bit samples, little-endian and mono, as blocks at 16 kHz."""
    check_rate(rate_hz, "--rate is")

    def blocks() -> Iterator[NDArray[np.float32]]:
        size, half = 2 * max(1, round(BLOCK_S * rate_hz)), b""
        # A pipe gives what it has; a sample may be cut between two reads.
        while octets := pipe.read1(size) if hasattr(pipe, "read1") else pipe.read(size):
            octets = half + octets
            whole = len(octets) // 2 * 2
            half = octets[whole:]
            yield np.frombuffer(octets[:whole], "<i2").astype(np.float32) / 32768.0
        if half:
            log.warning("standard input ends in half a sample; it is left out")

    return resampled(blocks(), rate_hz)


def microphone(device: str | None = None) -> Iterator[NDArray[np.float32]]:
    """What the microphone hears, at 16 kHz, without end; a missing one is reported at once."""
    sounddevice = _sounddevice()
    waiting: queue.Queue[NDArray[np.float32]] = queue.Queue(_WAITING)
    lost = 0

    def heard(block: Any, *_: Any) -> None:
        nonlocal lost
        try:
            waiting.put_nowait(block[:, 0].copy())
        except queue.Full:
            lost += 1

    chosen = int(device) if device is not None and device.isdecimal() else device
    try:
        stream = sounddevice.InputStream(
            samplerate=RATE_HZ, channels=1, dtype="float32", device=chosen,
            blocksize=round(BLOCK_S * RATE_HZ), callback=heard,
        )  # fmt: skip
    except (sounddevice.PortAudioError, ValueError) as error:
        known = ", ".join(each["name"] for each in sounddevice.query_devices()
                          if each["max_input_channels"] > 0)  # fmt: skip
        raise FalconError(
            f"no microphone to listen to ({str(error)[:100]}); "
            f"choose one with --device: {known or 'this machine has none'}"
        ) from None

    def blocks() -> Iterator[NDArray[np.float32]]:
        nonlocal lost
        with stream:
            while True:
                try:
                    yield waiting.get(timeout=5)
                except queue.Empty:
                    raise FalconError("the microphone has gone silent; plug it in again") from None
                if lost:
                    log.warning("too slow: %.1f s of sound were lost", lost * BLOCK_S)
                    lost = 0

    return blocks()


def _sounddevice() -> Any:
    try:
        import sounddevice
    except ImportError:
        raise FalconError(
            "the microphone needs the package sounddevice (pip install 'falcon-snn[listen]'); or "
            "give raw samples: `arecord -t raw -f S16_LE -r 16000 | falcon-snn listen -`"
        ) from None
    except OSError as error:  # it is there, PortAudio is not
        raise FalconError(f"the microphone needs PortAudio: {str(error)[:100]}") from None
    return sounddevice
