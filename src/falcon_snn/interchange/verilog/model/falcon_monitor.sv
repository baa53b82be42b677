// Compares every slot of a stage with what is expected: its bits and the cycle in which it is there.
module falcon_monitor #(
    parameter NAME = "stage",
    parameter int WIDTH = 1,
    parameter int SLOTS = 7
) (
    input logic clk,
    input logic load,  // read what is expected in run number `run`
    input logic check,
    input logic ended,  // the run is over: what has not come is missing
    input int run,
    input int cycle,
    input logic [3:0] count,
    input logic [SLOTS*WIDTH-1:0] slots,
    output logic done,
    output int compared,
    output int wrong_bits,  // slots with a wrong bit, of all runs
    output int wrong_cycles  // slots in a wrong cycle, or that never came
);
  localparam int WORDS = (WIDTH + 31) / 32;
  logic [31:0] expected[0:SLOTS*WORDS-1];  // wide words would take long to read
  logic [31:0] cycles[0:SLOTS-1];
  int seen, first;
  logic told;
  string folder, file;

  assign done = seen == SLOTS;
  initial begin
    compared = 0;
    wrong_bits = 0;
    wrong_cycles = 0;
    seen = 0;
    told = 0;
    if (!$value$plusargs("expected=%s", folder)) folder = "expected";
  end

  always @(posedge clk) begin
    if (load) begin
      file = $sformatf("%s/%0d/%s", folder, run, NAME);
      $readmemh({file, ".hex"}, expected);
      $readmemh({file, ".cycles"}, cycles);
      seen <= 0;
      told <= 0;
    end else if (check) begin
      for (int t = 0; t < SLOTS; t++) begin
        if (t >= seen && t < int'(count)) begin
          compared = compared + 1;
          if (cycle != int'(cycles[t])) begin
            wrong_cycles = wrong_cycles + 1;
            if (!told)
              $display("DIFFERS run %0d, stage %s, slot %0d: came in cycle %0d, expected %0d",
                       run, NAME, t, cycle, cycles[t]);
            told <= 1;
          end
          first = -1;
          // Bit by bit: a comparison of whole slots becomes very much code in Verilator.
          for (int i = WIDTH - 1; i >= 0; i--)
            if (slots[t*WIDTH+i] !== expected[t*WORDS+i/32][i%32]) first = i;
          if (first >= 0) begin
            wrong_bits = wrong_bits + 1;
            if (!told)
              $display("DIFFERS run %0d, stage %s, slot %0d, cycle %0d: bit %0d of %0d is wrong",
                       run, NAME, t, cycle, first, WIDTH);
            told <= 1;
          end
        end
      end
      if (int'(count) > seen) seen <= int'(count);
    end else if (ended && seen < SLOTS) begin
      compared = compared + SLOTS - seen;
      wrong_cycles = wrong_cycles + SLOTS - seen;
      if (!told)
        $display("DIFFERS run %0d, stage %s, slot %0d: never came, expected in cycle %0d",
                 run, NAME, seen, cycles[seen]);
      seen <= SLOTS;
    end
  end
endmodule
