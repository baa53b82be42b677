"""Mutants of `neuron/` and of what chips are made of; see `mutants.py`."""

from tools.mutant import Mutant, of

NEURON_MUTANTS: tuple[Mutant, ...] = (
    *of(
        "neuron/reference.py",
        "test_firing.py::test_reference_follows_algorithm_1_by_hand "
        "test_firing.py::test_a_potential_equal_to_the_threshold_fires "
        "test_firing.py::test_backends_equal_the_reference_for_every_delay",
        ("min(slot + delay - 1, slots - 1)", "min(slot + delay, slots - 1)"),
        ("potential >= threshold", "potential > threshold"),
        ("potential - threshold * spike", "potential - potential * spike"),
        ("potential + static_per_slot + currents", "potential + currents"),
    ),
    *of(
        "neuron/encoding.py",
        "test_packed.py",
        ("tuple((1 << n) - 1 for n", "tuple((1 << n) >> 1 for n"),
        ("(t + 1) * n // slots > t * n", "(t + 1) * n // slots >= t * n"),
    ),
    *of(
        "neuron/packed.py",
        "test_packed.py",
        ("(spike != 0).to(torch.uint8) << slot", "(spike != 0).to(torch.uint8) << (7 - slot)"),
        ("packed & ((1 << first) - 1)", "packed & ((1 << first) >> 1)"),
        ("(bits >> 2) & 0x33", "(bits >> 2) & 0x11"),
        ("(index >= 0) & (index <= slots)", "(index >= 0) & (index < slots)"),
    ),
    *of(
        "neuron/theorems.py",
        "test_theorems.py",
        (
            "min(stream.slots, max(0, total // stream.threshold))",
            "max(0, total // stream.threshold)",
        ),
        ("last = slots * threshold ", "last = (slots - 1) * threshold "),
        ("(1, second, second - 1, third, third - 1)", "(1, second, second, third, third - 1)"),
        ("sum(following[1]) + HALF", "sum(following[1]) - HALF"),
    ),
    *of(
        "neuron/converter.py",
        "test_converter.py",
        (".add_(0.5).floor_()", ".sub_(0.5).ceil_()"),
        ("parts = parts + noise", "parts = parts - noise"),
        ("3.5 * sigma + levels + 2", "levels + 2"),
        ("2 * _BYTE * BYTE_VARIANCE**0.5", "4 * _BYTE * BYTE_VARIANCE**0.5"),
    ),
    *of(
        "network/chip_cells.py",
        "test_chip.py::test_the_chip_is_what_a_slow_one_computes "
        "test_chip.py::test_a_perfect_chip_is_the_integer_network",
        ("[number * bits + bit for", "[bit * slices + number for"),
        ("[there & (flat > 0), there & (flat < 0)]", "[there & (flat < 0), there & (flat > 0)]"),
        ("(*parts, *(-part for", "(*parts, *(part for"),
    ),
    *of(
        "neuron/counter_noise.py",
        "test_chip.py::test_the_chip_is_what_a_slow_one_computes "
        "test_chip.py::test_cells_of_several_layers_are_those_of_each_alone",
        ("row * size + within + key", "row + within + key"),
        ("device=device) - first", "device=device)"),
    ),
    *of(
        "neuron/counter_noise.py",
        "test_converter.py",
        ("first, second, -third, -fourth", "first, second, third, fourth"),
        ("low = isqrt(int(squares / 4))", "low = isqrt(int(squares / 2))"),
    ),
    *of(
        "neuron/analog.py",
        "test_converter.py test_chip.py",
        ("_FINE_ENOUGH = 8", "_FINE_ENOUGH = 16"),
        ("alpha=256.0**place", "alpha=128.0**place"),
    ),
    *of(
        "neuron/analog_cells.py",
        "test_converter.py test_chip.py",
        ("SHARED = (1, 3, 0, 2)", "SHARED = (0, 1, 2, 3)"),
        ("(0.5 - converter.low)", "(0.0 - converter.low)"),
        ("low = weight - high if", "low = None if"),
        ("1 << (converter.bits - 1), device", "1 << converter.bits, device"),
        ("words = both[..., [0, 2, 1, 3]]", "words = both[..., [0, 1, 2, 3]]"),
    ),
    *of(
        "neuron/chip_numba.py",
        "test_chip_kernels.py::test_kernels_take_layers_of_any_shape "
        "test_chip_kernels.py::test_a_processor_looks_up_any_number_of_columns",
        ("tables[after + i] = np.int32(tables[before + i] + added)", "tables[after + i] = added"),
        ("width = min(columns - at, _WIDEST)", "width = min(columns - at, LANES)"),
        ("keys[number, row]) | np.uint32(1))", "keys[number, row]))"),
        ("range(array * groups, (array + 1) * groups, 2)", "range(array * groups, groups, 2)"),
    ),
    *of(
        "neuron/compiling.py",
        "test_startup.py::test_only_long_waits_are_named_and_only_once "
        "test_startup.py::test_short_waits_add_up",
        ("self._timer.cancel()", "pass"),
        ("max(PATIENCE_S - self._spent_s, 0.0)", "PATIENCE_S"),
        ("self._said = True", "pass"),
    ),
    *of(
        "neuron/parameters.py",
        "test_firing.py::test_static_is_spread_over_the_slots "
        "test_firing.py::test_reference_follows_algorithm_1_by_hand "
        "test_firing.py::test_bad_parameters_are_one_clear_error "
        "test_firing.py::test_backends_equal_the_reference_for_every_delay",
        (
            '_like(currents, "static", static) / currents.shape[0]',
            '_like(currents, "static", static)',
        ),
        ('0.5 + _like(currents, "offset", offset)', '_like(currents, "offset", offset)'),
        ("(theta.detach() > 0)", "(theta.detach() >= 0)"),
    ),
    *of(
        "neuron/gradients.py",
        "test_gradients.py::test_gradients_equal_their_definition",
        ("-slope * total / threshold", "slope * total / threshold"),
        ("neurons.static_per_slot + current, slope", "current, slope"),
    ),
)
