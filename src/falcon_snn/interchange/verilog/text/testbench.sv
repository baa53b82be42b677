// Runs the network on every expected run and compares each slot of each stage. Generated.
//   +runs=N        the first N runs only        +expected=DIR   where they are
//   +all           goes on after a run in which something differs
module testbench;
  logic clk = 0, reset = 1, load = 0, check = 0, ended = 0;
  int run = 0, cycle = 0, runs = 0, clocks = 0, file, given;
  int slots = 0, bits = 0, cycles = 0;
  string folder;
  logic [31:0] settings[0:@BOUNDARIES@];
  logic [31:0] source[0:@SLOTS@*@WORDS@-1];
  logic [4*@DELAYS@-1:0] delays = 0;
  logic [@SLOTS@*@INPUTS@-1:0] source_slots;
  logic [3:0] source_count;
  logic [@STAGES@-1:0] done;
  int compared[0:@STAGES@-1], wrong_bits[0:@STAGES@-1], wrong_cycles[0:@STAGES@-1];

  // The source's slots are all there in cycle 0.
  assign source_count = reset ? 4'd0 : 4'd@SLOTS@;
  falcon_network network (.clk(clk), .reset(reset), .delays(delays), .source_count(source_count),
                          .source_slots(source_slots));
@MONITORS@

  always #5 clk = !clk;
  always @(posedge clk) begin
    cycle <= reset ? 0 : cycle + 1;
    clocks <= clocks + 1;
  end

  task automatic count_wrong;
    slots = 0;
    bits = 0;
    cycles = 0;
    for (int i = 0; i < @STAGES@; i++) begin
      slots += compared[i];
      bits += wrong_bits[i];
      cycles += wrong_cycles[i];
    end
  endtask

  initial begin
    if (!$value$plusargs("expected=%s", folder)) folder = "expected";
    if (!$value$plusargs("runs=%d", runs)) begin
      file = $fopen({folder, "/runs.txt"}, "r");
      given = $fscanf(file, "%d", runs);
      $fclose(file);
    end
    for (run = 0; run < runs; run++) begin
      $readmemh($sformatf("%s/%0d/delays.hex", folder, run), settings);
      $readmemh($sformatf("%s/%0d/source.hex", folder, run), source);
      for (int i = 0; i < @BOUNDARIES@; i++) delays[4*i+:4] = settings[i][3:0];
      for (int t = 0; t < @SLOTS@; t++)
        for (int i = 0; i < @INPUTS@; i++)
          source_slots[t*@INPUTS@+i] = source[t*@WORDS@+i/32][i%32];
      @(negedge clk) reset = 1;
      load = 1;
      @(negedge clk) load = 0;
      @(negedge clk) reset = 0;
      check = 1;
      while (!(&done) && cycle < int'(settings[@BOUNDARIES@])) @(negedge clk);
      check = 0;
      ended = 1;
      @(negedge clk) ended = 0;
      count_wrong();
      if (bits + cycles != 0 && !$test$plusargs("all")) run = runs;
    end
    $display("RESULT slots %0d, wrong spikes %0d, wrong cycles %0d, clock cycles %0d", slots, bits,
             cycles, clocks);
    if (bits + cycles != 0 || slots == 0) $fatal(1, "not as expected");
    $finish;
  end
endmodule
