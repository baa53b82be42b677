"""`falcon-snn models`: the trained networks that ship with Falcon."""

from falcon_snn.cli.output import JsonFlag, out, print_json, print_table


def models(as_json: bool = JsonFlag) -> None:
    """List the pretrained networks that `--pretrained NAME` takes."""
    from falcon_snn.workflow.model import shipped_models

    rows = shipped_models()
    if as_json:
        print_json(rows)
        return
    if not rows:
        out.print("no pretrained network comes with this version")
        return
    print_table(
        "name | T | p | words | val. % | test % | µs | streamed",
        "{name} | {slots} | {qk_prefix} | {words} | {validation_percent:.2f} | {test_percent:.2f}"
        " | {latency_us:.2f} | {streamed_latency_us:.2f}",
        rows,
    )
    out.print("T: slots; p: Q/K prefix; µs: core latency on the paper's chip, serial or streamed")
