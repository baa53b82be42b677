"""A network as SystemVerilog: fixed modules, a generated top, and a testbench that can fail."""
