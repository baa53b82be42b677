"""`falcon-snn related-work`: the networks that the paper compares Falcon with."""

from pathlib import Path

import typer

from falcon_snn.cli.output import JsonFlag, notice, print_json, print_table


def related_work(
    as_json: bool = JsonFlag,
    trace: Path | None = typer.Option(
        None, "--trace", metavar="FILE", help="Write when each engine did what; opens in Perfetto."
    ),
) -> None:
    """Model SpikCommander, SpikeSCR and Spiking VGG-11 on digital engines, beside the paper."""
    from falcon_snn.pipeline.related_work import FIT_NOTE, SPREAD_NOTE
    from falcon_snn.report.related_work import compare
    from falcon_snn.report.timeline import write_spans

    rows = compare()
    if trace is not None:
        write_spans(trace, [span for row in rows for span in row.modeled.spans()])
        notice(f"timeline: {trace}")
    facts = [row.as_json() for row in rows]
    if as_json:
        print_json({"note": FIT_NOTE, "spread_note": SPREAD_NOTE, "networks": facts})
        return
    print_table(
        "network | T | published µs | modeled µs | error % | >busy %\narray vector | spread µs",
        "{name} | {time_steps} | {published_us:.2f} | {modeled_us:.2f} | {error_percent:+.2f} | "
        "{array_busy_percent:5.0f} {vector_busy_percent:6.0f} | {spread_us:.2f}",
        facts, caption=f"{FIT_NOTE}\n{SPREAD_NOTE}", caption_justify="left",
    )  # fmt: skip
