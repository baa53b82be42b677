"""`falcon-snn verify`: the latency, executed."""

from dataclasses import asdict
from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import WATCH, JsonFlag, out, print_json
from falcon_snn.hardware.profile import Profile


def verify(
    file: Path = options.File,
    data: str | None = typer.Option(
        None, "--data", help="Test clips of a data set; by default inputs are random numbers."
    ),
    clips: int = typer.Option(2, min=1, help="Inputs, each run under every schedule."),
    random: int = typer.Option(4, min=0, help="Random schedules to run."),
    schedule: list[str] = typer.Option(
        [], "--schedule", help="A schedule beside the random ones; may be repeated."
    ),
    profile: Profile = options.Chip,
    seed: int = typer.Option(0, help="Seed of the random schedules and inputs."),
    as_json: bool = JsonFlag,
) -> None:
    """Run a network as SystemVerilog in Verilator; compare every spike and every cycle."""
    from falcon_snn.workflow.verify import verify as execute

    found = execute(
        file, data, clips=clips, schedules=random, named=schedule, profile=profile, seed=seed,
        watch=WATCH,
    )  # fmt: skip
    ran = found.simulated
    if as_json:
        print_json({
            "network": found.network, "runs": found.runs, **asdict(ran),
            "cycles_per_second": ran.clock_cycles / ran.seconds, "core_us": found.core_us,
            "right": ran.right,
        })  # fmt: skip
    else:
        out.print(
            f"{found.network}: {found.runs} runs, {ran.slots:,} slots compared, "
            f"{ran.wrong_spikes:,} with wrong spikes, {ran.wrong_cycles:,} in a wrong cycle"
        )
        out.print(
            f"{ran.clock_cycles:,} clock cycles in {ran.seconds:.1f} s "
            f"({ran.clock_cycles / ran.seconds:,.0f} per second, "
            f"{ran.seconds / found.runs:.2f} s a run)"
        )
        for name, core in found.core_us.items():
            out.print(f"core latency, {name}: {core:.2f} µs")
        for line in ran.differences[:5]:
            out.print(f"differs: {line}")
        out.print("The analog macro and ConSmax are behavioural: their cycles are the profile's.")
    if not ran.right:
        raise typer.Exit(1)
