"""The closed set of operations, one file each with all its meanings."""

from falcon_snn.network.operations.attention import Attention
from falcon_snn.network.operations.code import Code
from falcon_snn.network.operations.fire import Fire, FireTerm
from falcon_snn.network.operations.readout import Readout
from falcon_snn.network.operations.source import Source

OPERATIONS = {kind.operation: kind for kind in (Source, Fire, Code, Attention, Readout)}

__all__ = ["OPERATIONS", "Attention", "Code", "Fire", "FireTerm", "Readout", "Source"]
