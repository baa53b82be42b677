"""Hardware profiles: the paper's, somebody's own, and every kind of broken one."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falcon_snn.errors import FalconError
from falcon_snn.hardware.keys import TAGS
from falcon_snn.hardware.profile import (
    KEYS,
    differences,
    load_profile,
    parse_profile,
    profile_toml,
    shipped_profiles,
    with_value,
)

TEXT = shipped_profiles()["paper"]
PRECISE = {name for name, key in KEYS.items() if key.section in ("precision", "errors")}


def changed(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new)


def chip(*pairs: object) -> str:
    """The macro as published with some values changed, each in the section of its key."""
    lines = ['like = "xue2020"']
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        section = KEYS[str(key)].section if key in KEYS else "errors"
        shown = f'"{value}"' if isinstance(value, str) else value
        lines += [f"[{section}]"] if f"[{section}]" not in lines else []
        lines += [f'{key} = {{ value = {shown}, tag = "assumed", source = "test" }}']
    return "\n".join(lines)


def test_the_macro_as_published_differs_from_the_papers_in_what_it_computes() -> None:
    paper, macro = load_profile(), load_profile("xue2020")
    changed = differences(paper, macro)
    assert changed["weight_bits"] == (8, 3)
    assert changed["input_bits"] == (1, 2)
    assert {KEYS[name].section for name in changed} == {"precision", "errors"}
    assert macro.pass_cycles(160) == paper.pass_cycles(160)
    assert (paper.bit_passes(3), macro.bit_passes(3)) == (3, 2)


def test_an_older_profile_without_precision_and_errors_is_the_ideal_chip() -> None:
    lines = [line for line in TEXT.splitlines() if line.split(" = ")[0] not in PRECISE]
    old = parse_profile("\n".join(lines), "old.toml")
    assert old == load_profile()


def test_the_papers_pass_is_188_cycles_and_exact() -> None:
    paper = load_profile()
    assert paper.t_cycle_ns == 14.6
    assert paper.accesses(160) == 128
    assert paper.pass_cycles(160) == 188
    assert paper.cycle_ns == 10.0
    # 100 accesses of 14.6 ns are 146 cycles sharp; binary fractions must not make it 147
    assert paper.access_cycles(100) == 146


@pytest.mark.parametrize(("rows", "cycles"), [(27, 142), (28, 188), (36, 188), (37, 235)])
def test_tile_rows_of_28_to_36_give_the_same_pass(rows: int, cycles: int) -> None:
    assert with_value(load_profile(), "tile_rows", rows).pass_cycles(160) == cycles


def test_every_value_has_a_tag_and_a_source() -> None:
    paper = load_profile()
    required = {key.name for key in KEYS.values() if not key.optional}
    assert required <= set(paper.sources)
    assert all(source.tag in TAGS and source.text for source in paper.sources.values())


def test_a_copied_and_edited_profile_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(changed("clock_mhz = { value = 100.0", "clock_mhz = { value = 200"))
    mine = load_profile(file)
    assert mine.cycle_ns == 5.0
    assert mine.pass_cycles(160) == 375  # 1868.8 ns are 373.76 cycles, and the hand-over


def test_a_profile_may_start_from_a_shipped_one() -> None:
    usual, paper = load_profile("45nm"), load_profile()
    assert (usual.mac_8x8_pj, usual.accumulate_pj) == (4.6, 0.9)
    assert usual.sources["accumulate_pj"].tag == "measured"
    assert usual.pass_cycles(160) == paper.pass_cycles(160)
    assert usual.sources["mux"] == paper.sources["mux"]


@pytest.mark.parametrize("name", shipped_profiles())
def test_a_profile_is_written_and_read_back(name: str) -> None:
    profile = load_profile(name)
    again = parse_profile(profile_toml(profile), "again.toml")
    assert again == profile
    assert again.sources == profile.sources


@given(st.integers(1, 4000), st.integers(1, 400), st.integers(1, 64))
def test_row_groups_cover_all_rows_of_all_tiles(inner: int, tile: int, active: int) -> None:
    profile = with_value(with_value(load_profile(), "tile_rows", tile), "active_rows", active)
    tiles = [min(tile, inner - first) for first in range(0, inner, tile)]
    assert profile.layer_row_groups(inner) == sum(-(-rows // active) for rows in tiles)


@given(st.integers(1, 200), st.integers(1, 2000))
def test_sharing_a_copy_never_takes_more_turns_than_tokens(share: int, copies: int) -> None:
    profile = with_value(load_profile(), "tokens_per_copy", share)
    arrays = -(-copies // share)
    assert profile.turns(copies) <= min(share, copies)
    assert profile.turns(copies) * arrays >= copies


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed("t_adc_ns", "t_adc_us"), r"\[analog\] unknown key 't_adc_us'; did you mean"),
        (changed("value = 9,", "value = -9,"), r"active_rows = -9; allowed: a whole number from 1"),
        (changed("value = 9,", "value = 9.5,"), r"active_rows = 9.5; allowed: a whole number"),
        (changed("value = 9,", "value = true,"), r"active_rows = True; allowed"),
        (changed("value = 4.6", 'value = "4.6 ns"'), r"t_set_ns = '4.6 ns'; allowed: a number"),
        (changed("value = 4.6", "value = nan"), r"t_set_ns = nan; allowed: a number from 0"),
        (changed('"serial"', '"fast"'), r"attention = 'fast'; allowed: \"serial\", \"streamed\""),
        (changed('9, tag = "measured"', '9, tag = "guessed"'), r"tag 'guessed'; allowed: measured"),
        (changed('"Xue et al., JSSC 2020: at most 9 word lines per access"', '" "'),
         r"active_rows has no source"),
        (changed("clock_mhz = {", "clock_mhz = 100 #"), r"clock_mhz must be \{ value"),
        (changed("[area]", "[areas]\nx = 1"), r"unknown section or key 'areas'"),
        (changed("[digital]", "[digital]\nmux = 1"), r"mux belongs in section \[analog\]"),
        (TEXT.replace("clock_mhz", "# clock_mhz"), r"\[digital\] clock_mhz is missing; allowed"),
        ("name = 3", r"name = 3; allowed: text"),
        ('like = "papyrus"',
         r"like = 'papyrus'; shipped profiles are: 45nm, fitted, noisy, paper, xue2020"),
        (chip("converter_levels", 1), r"converter_levels = 1; allowed: a whole number from 3"),
        (chip("read_sigma", -0.01), r"read_sigma = -0.01; allowed: a number from 0 to 1"),
        (chip("stuck_lrs_rate", 1.5), r"stuck_lrs_rate = 1.5; allowed: a number from 0 to 1"),
        (chip("stuck_hrs_rate", 0.7, "stuck_lrs_rate", 0.7), r"rates? .*add up to 1.4; the sum"),
        (chip("programming", "perfect"), r"programming = 'perfect'; allowed: \"none\", \"indep"),
        (chip("converter_range", "wide"), r"converter_range = 'wide'; allowed: \"exact\", \"unit"),
        (chip("on_off_ratio", 1.0), r"on_off_ratio = 1.0; allowed: a number from 1.01"),
        (chip("weight_bits", 8), r"weights of 8 bits have 7 besides the sign, but 1 x 2 bits are"),
        (chip("adc_bits", 4), r"\[errors\] unknown key 'adc_bits'"),
        ("like = 3", r"like = 3; shipped profiles are"),
        (changed("access_pj", "# access_pj"), r"\[energy\] access_pj is missing; allowed"),
        (changed("value = 32.06", "value = -1"), r"access_pj = -1; allowed: a number from 0"),
        (changed("value = 29.2", "value = 292"), r"control_percent = 292; allowed: .* to 100"),
        (changed("value = 29.2", "value = 92"), r"shares of an access add up to 162.8 %, not 100"),
        ("[analog", r"not valid TOML"),
    ],
)  # fmt: skip
def test_a_broken_profile_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(FalconError, match=message) as caught:
        parse_profile(text, "my.toml")
    line = str(caught.value)
    assert line.startswith("my.toml: ")
    assert "\n" not in line


def test_a_missing_or_binary_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(
        FalconError, match="no such file; shipped profiles are: 45nm, fitted, noisy"
    ):
        load_profile(tmp_path / "none.toml")
    (tmp_path / "noise.toml").write_bytes(bytes(range(128, 256)))
    with pytest.raises(FalconError, match="cannot be read"):
        load_profile(tmp_path / "noise.toml")


def test_shares_of_an_access_must_add_up_to_it() -> None:
    paper = load_profile()
    with pytest.raises(FalconError, match="add up to 101 %, not 100"):
        replace(paper, adc_percent=paper.adc_percent + 1)


def test_decimals_are_exact() -> None:
    """As floats, 0.1 and 0.9 lie a hair above the decimals: ten accesses would take two cycles."""
    profile = replace(load_profile(), t_set_ns=0.1, t_adc_ns=0.9, clock_mhz=100.0)
    assert profile.access_cycles(10) == 1


def test_the_last_columns_need_an_access_of_their_own() -> None:
    profile = replace(load_profile(), outputs_per_access=16, weight_slices=2)
    assert [profile.column_groups(columns) for columns in (1, 8, 9, 16, 17)] == [1, 1, 2, 2, 3]
