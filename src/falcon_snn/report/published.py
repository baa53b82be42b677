"""What the paper says: its tables as plain data, each labelled with the table it comes from.

Nothing here is measured or modeled by this project. Accuracies are percent of the test set,
latencies are the paper's modeled core latencies in microseconds.
"""

from typing import NamedTuple

SETTINGS = ("ssc-medium", "gsc-medium", "gsc-large")  # data set and model size
# By the names of our networks.
SETTING_OF = {
    "Falcon-Medium SSC": "ssc-medium",
    "Falcon-Medium GSC": "gsc-medium",
    "Falcon-Large GSC": "gsc-large",
}


def setting_of(network: str, slots: int) -> str:
    """The paper's setting of a network by its name; its figures are of seven slots; '': none."""
    return SETTING_OF.get(network, "") if slots == 7 else ""


class AccuracyLatency(NamedTuple):
    accuracy_percent: float
    latency_us: float


# Paper, "Test accuracy and modeled network-core latency": setting -> configuration -> figures.
MAIN_RESULTS: dict[str, dict[str, AccuracyLatency]] = {
    "ssc-medium": {
        "qnn": AccuracyLatency(83.97, 131.46),
        "full": AccuracyLatency(83.94, 253.04),
        "fastest": AccuracyLatency(81.24, 116.42),
        "balanced": AccuracyLatency(83.02, 124.00),
        "accurate": AccuracyLatency(83.02, 129.70),
    },
    "gsc-medium": {
        "qnn": AccuracyLatency(96.68, 130.86),
        "full": AccuracyLatency(96.68, 252.44),
        "fastest": AccuracyLatency(96.11, 115.82),
        "balanced": AccuracyLatency(96.31, 119.64),
        "accurate": AccuracyLatency(96.39, 129.04),
    },
    "gsc-large": {
        "qnn": AccuracyLatency(96.92, 202.98),
        "full": AccuracyLatency(96.91, 385.44),
        "fastest": AccuracyLatency(95.46, 180.42),
        "balanced": AccuracyLatency(96.19, 184.24),
        "accurate": AccuracyLatency(96.52, 201.16),
    },
}


class GscLatencyRow(NamedTuple):
    method: str
    parameters_millions: float
    accuracy_percent: float
    latency_us: float


# Paper, "Comparison on GSC in terms of model size, accuracy, and latency". The latencies of other
# people's networks are the paper's reconstruction, not figures of their authors.
GSC_LATENCY_COMPARISON: tuple[GscLatencyRow, ...] = (
    GscLatencyRow("T-BSO, Spiking VGG-11", 9.23, 96.12, 1714.88),
    GscLatencyRow("SpikeSCR, 1L-16-256 (short)", 1.63, 94.71, 278.47),
    GscLatencyRow("SpikeSCR, 1L-16-256", 1.63, 95.90, 468.11),
    GscLatencyRow("SpikCommander, 1L-16-256", 1.12, 96.71, 487.97),
    GscLatencyRow("SpikCommander, 2L-16-256 (short)", 2.13, 96.27, 645.63),
    GscLatencyRow("SpikCommander, 2L-16-256", 2.13, 96.92, 940.70),
    GscLatencyRow("Falcon-Medium, non-pipelined", 0.82, 96.68, 252.44),
    GscLatencyRow("Falcon-Medium, Balanced", 0.82, 96.31, 119.64),
    GscLatencyRow("Falcon-Large, non-pipelined", 1.24, 96.91, 385.44),
    GscLatencyRow("Falcon-Large, Balanced", 1.24, 96.19, 184.24),
)


class Reported(NamedTuple):
    parameters_millions: float
    accuracy_percent: float
    deviation_percent: float | None = None  # over runs, where it is reported


class MethodRow(NamedTuple):
    method: str
    ssc: Reported | None  # None: not reported or not verified
    gsc: Reported | None


# Paper, "Comparison with prior SNN speech-recognition methods": the twelve prior methods.
PRIOR_METHODS: tuple[MethodRow, ...] = (
    MethodRow("DCLS-Delays, 2L-2KC", Reported(1.40, 80.16, 0.09), Reported(1.40, 95.00, 0.06)),
    MethodRow("DCLS-Delays, 3L-2KC", Reported(2.50, 80.69, 0.21), Reported(2.50, 95.35, 0.04)),
    MethodRow("d-cAdLIF", Reported(0.70, 80.23, 0.07), Reported(0.61, 95.69, 0.03)),
    MethodRow("SNN-Delays + TR/NAR", Reported(2.50, 81.02), Reported(2.50, 95.62)),
    MethodRow("CADAD, 3L", Reported(0.60, 80.69, 0.24), Reported(0.60, 95.58, 0.15)),
    MethodRow("SE-adLIF, 2L", Reported(1.60, 80.44, 0.26), None),
    MethodRow("SpikeSCR + KDCL, 2L-16-256", Reported(3.15, 83.69), Reported(3.15, 96.08)),
    MethodRow("SpikCommander, 1L-16-256", Reported(1.12, 83.26), Reported(1.12, 96.71)),
    MethodRow("SpikCommander, 2L-16-256", Reported(2.13, 83.49), Reported(2.13, 96.92)),
    MethodRow("SNN-KWS", None, Reported(0.0802, 92.90)),
    MethodRow("SIDC-KWS", None, Reported(0.4028, 94.70)),
    MethodRow("Spiking LMUFormer", None, Reported(1.69, 96.12)),
)

# The same table's Falcon rows.
FALCON_METHODS: tuple[MethodRow, ...] = (
    MethodRow("Falcon-Medium, full lookahead", Reported(0.97, 83.94), Reported(0.82, 96.68)),
    MethodRow("Falcon-Medium, Accurate", Reported(0.97, 83.02), Reported(0.82, 96.39)),
    MethodRow("Falcon-Large, full lookahead", None, Reported(1.24, 96.91)),
    MethodRow("Falcon-Large, Accurate", None, Reported(1.24, 96.52)),
)


class RandomAdaptation(NamedTuple):
    pds_percent: float
    random_percent: tuple[float, float, float, float, float]
    random_average_percent: float
    pds_gain_points: float


# Paper, "Test accuracy after full adaptation": the PDS Balanced schedule against five random ones
# with the same delays and latency.
RANDOM_ADAPTATION: dict[str, RandomAdaptation] = {
    "gsc-medium": RandomAdaptation(96.31, (96.08, 96.33, 96.25, 96.24, 96.13), 96.21, 0.11),
    "gsc-large": RandomAdaptation(96.19, (96.18, 96.02, 95.78, 95.81, 96.00), 95.96, 0.23),
    "ssc-medium": RandomAdaptation(83.02, (82.08, 82.39, 82.41, 81.66, 82.01), 82.11, 0.92),
}


class PrefixRow(NamedTuple):
    prefix: int
    latency_us: float
    validation_before_percent: float
    validation_after_percent: float | None  # None: the reference gets no further training
    test_before_percent: float
    test_after_percent: float | None


# Paper, "Q/K prefix ablation on GSC with Falcon-Medium" (Balanced schedule).
QK_PREFIX: tuple[PrefixRow, ...] = (
    PrefixRow(7, 119.64, 96.4332, None, 96.3108, None),
    PrefixRow(6, 114.00, 95.9523, 96.2930, 96.1654, 96.3289),
    PrefixRow(5, 108.36, 94.3192, 96.1527, 94.4480, 96.1290),
    PrefixRow(4, 102.72, 85.0215, 95.8120, 84.6524, 95.9200),
    PrefixRow(3, 97.08, 72.1872, 91.6942, 71.0404, 91.1495),
)


class ArchitectureRow(NamedTuple):
    component: str
    medium: int
    large: int


# Paper, "Architecture summary of the two Falcon variants".
ARCHITECTURE: tuple[ArchitectureRow, ...] = (
    ArchitectureRow("Input-encoder convolutions", 1, 1),
    ArchitectureRow("Pipelined-stem convolutions", 2, 2),
    ArchitectureRow("Pipelined-stem FC layers", 2, 2),
    ArchitectureRow("Transformer blocks", 3, 5),
    ArchitectureRow("Hidden dimension", 160, 160),
    ArchitectureRow("Attention heads", 5, 5),
    ArchitectureRow("FFN intermediate dimension", 320, 320),
    ArchitectureRow("Classifier output classes", 35, 35),
    ArchitectureRow("Total convolutional layers", 3, 3),
    ArchitectureRow("Total FC layers", 21, 33),
)


class SearchRow(NamedTuple):
    validation_before_percent: float
    validation_after_percent: float
    latency_us: float


# Paper, section "Pipeline Delay Search and adaptation": Falcon-Large on GSC, before any SNN
# training and after all of it. The search evaluated 916 schedules.
SEARCH_GSC_LARGE: dict[str, SearchRow] = {
    "fastest": SearchRow(11.64, 95.88, 180.42),
    "balanced": SearchRow(73.28, 96.17, 184.24),
    "accurate": SearchRow(91.99, 96.49, 201.16),
}
SEARCH_GSC_LARGE_SCHEDULES = 916
# Ten random schedules at the Balanced latency, before training: mean and deviation.
SEARCH_GSC_LARGE_RANDOM_PERCENT = (23.64, 12.23)
# Falcon-Large on GSC with one delay everywhere, before training: delay -> figures (validation).
UNIFORM_DELAYS_GSC_LARGE: dict[int, AccuracyLatency] = {
    1: AccuracyLatency(11.64, 180.42),
    2: AccuracyLatency(4.28, 231.24),
}

# Paper, "Energy and throughput discussion" and "Energy breakdown": mJ per inference, Balanced.
ENERGY_ARITHMETIC_MJ = {"gsc-medium": 0.01405, "gsc-large": 0.02135}  # all-digital, arithmetic only
ENERGY_ANALOG_MJ = {"gsc-medium": 0.7436, "gsc-large": 1.0591}
ENERGY_CORE_MJ = {"gsc-medium": 0.75, "gsc-large": 1.06}  # analog and digital
