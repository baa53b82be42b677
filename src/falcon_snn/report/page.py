"""HTML pages from the package's templates: everything inside one file, nothing fetched."""

import base64
from pathlib import Path
from typing import Any

from falcon_snn.files import demand_file_target, write_text

_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def write_page(path: Path, template: str, **values: Any) -> None:
    """Fill a template of `report/templates` and write the page, whole or not at all."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("falcon_snn.report", "templates"), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["data_uri"] = data_uri
    environment.filters["css"] = css_name
    demand_file_target(path, mark=b'<meta name="color-scheme" content="light dark">')
    write_text(path, environment.get_template(template).render(**values) + "\n")


def css_name(text: str) -> str:
    """A phrase as the name of a class: "within 2 %" is within-2-percent."""
    return text.replace("%", "percent").replace(" ", "-")


def data_uri(picture: Path) -> str:
    """A picture as an address that holds the picture itself."""
    content = base64.b64encode(picture.read_bytes()).decode("ascii")
    return f"data:{_TYPES[picture.suffix]};base64,{content}"
