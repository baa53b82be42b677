"""Places where a fault must be noticed, and the tests that must notice it; see `mutants.py`."""

from tools.mutant import Mutant, of
from tools.mutants_of_neurons import NEURON_MUTANTS

GOLDEN = "test_latency_golden.py"
ORACLE = "test_network.py::test_full_lookahead_is_the_qnn"

MUTANTS: tuple[Mutant, ...] = (
    *NEURON_MUTANTS,
    # --- hardware: what a chip takes
    *of(
        "hardware/profile.py",
        f"{GOLDEN} test_profile.py",
        (
            "-(-min(inner, self.tile_rows) // self.active_rows)",
            "min(inner, self.tile_rows) // self.active_rows",
        ),
        (
            "self.tile_row_groups + -(-rest // self.active_rows)",
            "self.tile_row_groups + rest // self.active_rows",
        ),
        ("+ self.neurons_per_unit - 1", "+ self.neurons_per_unit"),
        ("self.row_groups(inner) * self.mux", "self.row_groups(inner)"),
        (
            "-(-accesses * one.numerator // one.denominator)",
            "accesses * one.numerator // one.denominator",
        ),
        ("1000 / self.clock_mhz", "100 / self.clock_mhz"),
        ("_exact(self.t_set_ns) + _exact(self.t_adc_ns)", "_exact(self.t_adc_ns)"),
        ("abs(total - 100) > 0.05", "abs(total - 100) > 50"),
        ("Fraction(repr(value))", "Fraction(value)"),
        (" + self.hand_over_cycles", ""),
    ),
    *of(
        "hardware/profile.py",
        "test_throughput.py::test_resources_of_the_papers_mapping test_energy.py",
        ("-(-inner // self.tile_rows) * across", "inner // self.tile_rows * across"),
        (
            "-(-columns * self.weight_slices // self.outputs_per_access)",
            "columns * self.weight_slices // self.outputs_per_access",
        ),
    ),
    *of(
        "hardware/energy.py",
        "test_energy.py::test_what_an_access_a_product_and_an_operation_cost",
        ("operations.macs_8x8 * profile.mac_8x8_pj", "operations.macs_8x8 * profile.mac_8x4_pj"),
        (
            "profile.cablc_percent / profile.conduction_rows",
            "profile.cablc_percent / profile.active_rows",
        ),
        ("work.accesses * one_percent_pj * percent", "work.rows_on * one_percent_pj * percent"),
        ("work.tile_us * profile.tile_static_uw", "work.tile_us"),
        ("profile.array_size**2", "profile.array_size"),
        ("profile.cycle_ns / 1000", "profile.cycle_ns"),
        ("work.tile_sums * profile.tile_sum_pj", "work.accesses * profile.tile_sum_pj"),
    ),
    # --- pipeline: when everything happens, and what it costs
    *of(
        "pipeline/timing.py",
        "test_timing.py::test_slack_is_exactly_how_late_a_result_may_come",
        ("min(latest[before], begin)", "max(latest[before], begin)"),
        ("min(latest[s], core) - timing", "core - timing"),
    ),
    *of(
        "pipeline/timing.py",
        f"{GOLDEN} test_timing.py",
        ("max(self.ready(name)[-1]", "min(self.ready(name)[0]"),
        ("if step.slot > carried", "if step.slot >= carried"),
        ("min(carried, step.slot)", "max(carried, step.slot)"),
        ("carried = timing.graph.slots - 1", "carried = 0"),
        ("ready[min(slot + delay, graph", "ready[min(slot + delay - 1, graph"),
        ("planes * one, graph.slots * one", "graph.slots * one, graph.slots * one"),
        ("cycles * self.profile.cycle_ns / 1000", "cycles * self.profile.cycle_ns / 100"),
        ("start + step.cycles", "start + step.cycles + 1"),
    ),
    *of(
        "pipeline/steps.py",
        f"{GOLDEN} test_timing.py",
        ("plan.slot(stage.after[0], prefix - 1)", "plan.slot(stage.after[0], 0)"),
        ("min(slot + delay - 1, last)", "min(slot + delay, last)"),
        ("plan.slot(stage.after[0], slot) + tuple(steps[-1:])", "plan.slot(stage.after[0], slot)"),
        ("for ready in inputs], *steps[-1:])", "for ready in inputs],)"),
        (" + drain_cycles(profile)", ""),
        ("2 * (profile.array_size - 1)", "2 * profile.array_size"),
        (
            "-(-stage.columns // profile.array_size) * stage.inner",
            "stage.columns // profile.array_size * stage.inner",
        ),
        ("-(-rows * columns // profile.engine_lanes)", "rows * columns // profile.engine_lanes"),
        ('1 if style == "bit-parallel" else planes', "planes"),
        ("-(-(group + 1) * parts // groups) - 1", "parts - 1"),
        ("plan.whole(stage) + plan.last_on.get(resource, ())", "plan.whole(stage)"),
        ("-(-stage.copies // profile.arrays) * product", "1 * product"),
        (
            'pool if profile.engine_sharing == "shared"',
            'pool if profile.engine_sharing != "shared"',
        ),
        ("(drained if group == len(heights) - 1 else work,)", "(drained,)"),
        ('stage.kind == "product" and position == 1', 'stage.kind == "product"'),
        ("for step in self.ready[name][-1:])", "for step in self.ready[name][:1])"),
    ),
    *of(
        "pipeline/energy.py",
        "test_energy.py",
        ("return profile.bit_passes(graph.bits)", "return graph.slots"),
        ("return max(prefixes, default", "return min(prefixes, default"),
        ("activity.neurons[name] if qnn else activity.spikes[name]", "activity.spikes[name]"),
        ("Operations(macs_8x4=macs) if counted", "Operations(macs_8x8=macs) if counted"),
        ("activity.rows[stage.layer] * column_groups", "activity.rows[stage.layer]"),
        ("stage.copies * product_cycles(stage, profile)", "product_cycles(stage, profile)"),
        ("profile.shared_copies(stage.copies)", "stage.copies"),
    ),
    *of("pipeline/graph.py", GOLDEN, ("self.slots.bit_length()", "(self.slots - 1).bit_length()")),
    *of(
        "pipeline/schedule.py",
        "test_schedule.py test_latency_command.py",
        ("not 1 <= delay <= slots", "not 1 <= delay"),
    ),
    *of(
        "pipeline/engines.py",
        "test_engines.py",
        ("FILL_DRAIN_CYCLES = 62", "FILL_DRAIN_CYCLES = 64"),
        ("(now, later))", "(0, later))"),
    ),
    *of(
        "pipeline/throughput.py",
        "test_throughput.py",
        ("if span.end > span.start and length", "if span.end < span.start and length"),
        ("-(-self.latency // self.interval)", "self.latency // self.interval"),
    ),
    # --- network: what is computed
    *of(
        "network/fixed_point.py",
        "test_network.py",
        (".log2().floor()", ".log2().ceil()"),
        ("x.round().clamp", "x.floor().clamp"),
        ("torch.maximum(largest, threshold)", "largest"),
        ("(first * grid).floor()", "(first * grid).ceil()"),
        ("initial=to_int32(initial * grid)", "initial=to_int32(0 * initial)"),
    ),
    *of(
        "network/quantise.py",
        f"{ORACLE} test_random_networks.py",
        ("0.5 + offset, threshold", "offset, threshold"),
        ("for value in (0.0, 1.0))", "for value in (0.5, 1.0))"),
        ("return (inside + 0.5).floor_()", "return (inside + 0.0).floor_()"),
        ("(2 ** (bits - 1) - 1)", "(2 ** (bits - 1) - 2)"),
    ),
    *of(
        "network/parts.py",
        f"{ORACLE} test_random_networks.py",
        (" * gain.sign().to(scale)[:, None]", ""),
        ("gain / mean_of", "gain"),
        (" - gain * mean.double()", ""),
        ("x.mean(dim=(2, 4)) if average else x.sum", "x.sum(dim=(2, 4)) if average else x.sum"),
    ),
    *of(
        "network/operations/code.py",
        f"{ORACLE} test_random_networks.py",
        ("bias / alpha + 0.5", "bias / alpha"),
        ("gain * slots / prefix * grid", "gain * grid"),
    ),
    *of(
        "network/operations/attention.py",
        "test_network.py::test_a_code_of_the_attention_map_begins_at_its_edge",
        ("(code - 0.5).double().log()", "code.double().log()"),
        ("smallest.ceil()", "smallest.floor()"),
    ),
    *of(
        "network/operations/readout.py",
        f"{ORACLE} test_random_networks.py",
        ("bias * self.places(run, lines)", "bias"),
    ),
    *of(
        "network/operations/source.py",
        f"{ORACLE} test_random_networks.py",
        ("largest=LARGEST", "largest=1.0"),
    ),
    *of(
        "network/fixed_point.py",
        f"{ORACLE} test_random_networks.py",
        ("0.5 + offset", "offset"),
        ("* scale + shift", "+ shift"),
    ),
    *of(
        "network/restore.py",
        "test_restore.py",
        ("(self._known, self._usual)", "(self._usual, self._known)"),
        ("step.log.requires_grad for", "True for"),
        ("heard = logs[logs.isfinite()]", "heard = logs"),
        ("* self.network.slots / threshold", "/ threshold"),
    ),
    *of(
        "network/operations/fire.py",
        "test_restore.py",
        (".sum(dim=0) >= 0, -1.0)", ".sum(dim=0) >= 0, 1.0)"),
        ("gain = gain / scale.where(scale != 0, 1.0)", "gain = gain"),
        ("restoring.known([one], [other], gain / other_gain)", "pass"),
    ),
    *of(
        "network/quantise.py",
        "test_restore.py",
        ("initial * threshold - 0.5", "initial - 0.5"),
    ),
    # --- search: where to wait
    *of(
        "search/pds.py",
        "test_pds.py",
        ("after & ~before", "after & before"),
        ("/ sqrt(rescued + harmed)", "/ (rescued + harmed)"),
        ("change.added_cycles <= 0", "change.added_cycles < 0"),
        ("-utility(c), -utility_acc(c), c.added_cycles", "-utility(c), c.added_cycles"),
        ("range(current + 1, delta_max + 1)", "range(current + 1, delta_max)"),
        (">= gates.tau", "> gates.tau"),
        (">= gates.eps", "> gates.eps"),
        ("unique(accepted), compared", "accepted, compared"),
    ),
    *of(
        "search/pareto.py",
        "test_pds.py",
        ("costs != others and all", "all"),
        ("(-score(point), -point.right)", "(-score(point), point.right)"),
        ("(cycles - point.cycles)", "(cycles - point.cycles - 1)"),
    ),
    *of(
        "search/space.py",
        "test_pds.py",
        ("if cycles < self.budget_cycles", "if cycles <= self.budget_cycles"),
    ),
    *of(
        "search/statistics.py",
        "test_search_statistics.py",
        ("accuracy + z * z / (2 * clips)", "accuracy + z * z / clips"),
        ("2 * total / (1 << changed)", "total / (1 << changed)"),
        ("gain - held_out_gain)", "held_out_gain - gain)"),
    ),
    *of(
        "report/results_table.py",
        "test_reproduce.py::test_a_difference_is_called_one_only_where_seeds_or_clips_show_it",
        ("and a.data_key == b.data_key", ""),
        ("min(len(first), len(second)) > 1", "min(len(first), len(second)) > 3"),
        ("len(wrong_other - wrong))", "len(wrong_other))"),
        ("or ends[2] > ends[1]", "or ends[2] > ends[0]"),
    ),
    *of(
        "search/random_schedules.py",
        "test_search_statistics.py",
        ("latency(delays) == wanted", "latency(delays) <= wanted"),
        ("(schedule := tuple(row)) != like", "(schedule := tuple(row))"),
    ),
    *of(
        "search/journal.py",
        "test_search_resume.py",
        ('content[: content.rfind(b"\\n") + 1]', "content"),
    ),
    # --- training
    *of(
        "training/recipe.py",
        "test_training.py::test_one_cycle_rises_and_falls "
        "test_training.py::test_recipes_that_come_along_fit_the_batch_to_the_data",
        ("0.04 + 0.96 * 0.5", "0.04 + 0.5"),
        ("1 << (wanted.bit_length() - 1)", "1 << wanted.bit_length()"),
    ),
    *of(
        "training/step.py",
        "test_training.py::test_distillation_by_hand",
        ("temperature**2 * F.kl_div", "temperature * F.kl_div"),
    ),
    *of(
        "training/evaluate.py",
        "test_training.py::test_rare_classes_count_more",
        ("sizes**-power", "sizes**power"),
    ),
    *of(
        "training/batches.py",
        "test_training.py::test_every_clip_is_in_an_epoch_and_batches_are_of_one_size "
        "test_training.py::test_shifted_clips_keep_their_padding",
        ("order[: self.steps() * batch - len(self)]", "order[:0]"),
        ("(lengths + by[:, 0]).clamp(1, tokens)", "lengths"),
        ("(source >= 0) & (source < tokens)", "source >= 0"),
    ),
    *of(
        "training/loop.py",
        "test_training.py::test_of_equal_epochs_the_last_is_the_best "
        "test_training.py::test_tuning_moves_only_neurons_and_keeps_bounds",
        ('if figures["validation_accuracy"] == best:', "if best > before:"),
        ("parameter.clamp_(recipe.threshold_low, recipe.threshold_high)", "pass"),
    ),
    # --- data
    *of(
        "data/features.py",
        "test_features.py",
        ("LOG_FLOOR = 1e-6", "LOG_FLOOR = 1e-5"),
        ("deviation.clamp_min(1e-3)", "deviation"),
        ("start = spare // 2", "start = spare"),
        ("log_mel(waves.double())", "log_mel(waves)"),
    ),
    *of(
        "data/ssc.py",
        "test_ssc.py",
        ("_EDGE_BINS = 1e-4", "_EDGE_BINS = 0.0"),
        ("flat_units[inside] // CHANNELS_PER_FEATURE", "flat_units[inside] % FEATURES"),
        ("np.maximum(1, ends.max(axis=1))", "ends.max(axis=1)"),
    ),
    *of(
        "data/clips.py",
        "test_split.py test_recordings.py",
        ("if percentage < 10.0", "if percentage < 1.0"),
    ),
    *of("data/arrays.py", "test_arrays.py", ("max(1, len(rows) // 10)", "max(1, len(rows) // 5)")),
    *of(
        "data/augment.py",
        "test_augment.py",
        ("(left + 2).clamp", "(left + 1).clamp"),
        ("(min(widest, size) + 1)", "(min(widest, size) + 9)"),
    ),
    # --- workflow: steps side by side
    *of(
        "workflow/steps.py",
        "test_side_by_side.py",
        ("done.issuperset(step.after)", "True"),
        ("failed.append(error)", "pass"),
        ("child.terminate()", "pass"),
    ),
    *of(
        "workflow/experiments.py",
        "test_experiments.py::test_what_each_table_and_figure_needs",
        ("-behind[one.step.name]", "behind[one.step.name]"),
    ),
    *of("workflow/workers.py", "test_side_by_side.py", ("(os.getppid(),)", "(os.getpid(),)")),
)
