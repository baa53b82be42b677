// When neurons take a slot and when they decide: decision t follows input slot
// min(t + delay - 1, INPUTS - 1) and decision t - 1.
//
// A decision that begins in cycle c is written in cycle c + STEP + SHARE - 2 and so can be seen one
// cycle later. A neuron unit serves SHARE neurons one after the other: `phase` says which.
module falcon_control #(
    parameter int INPUTS = 7,  // input slots
    parameter int OUTPUTS = 7,  // decisions
    parameter int STEP = 3,
    parameter int SHARE = 1
) (
    input logic clk,
    input logic reset,
    input logic [3:0] delay,
    input logic [3:0] count_a,
    input logic [3:0] count_b,
    output logic issue,  // a phase begins in this cycle
    output logic add,  // it takes the input slot `slot`
    output logic fire,  // it decides
    output logic [3:0] slot,
    output logic [15:0] phase,
    output logic write
);
  logic [3:0] taken, decided, held_slot;
  logic [15:0] at, gap;  // next phase (0: the unit is free), cycles until the next decision
  logic held_add, held_fire;
  logic [4:0] ahead, needed;
  logic available, begins, decides, takes;

  assign ahead = 5'(decided) + 5'(delay) - 5'd1;
  assign needed = int'(ahead) < INPUTS ? ahead : 5'(INPUTS - 1);
  assign available = int'(taken) < INPUTS && count_a > taken && count_b > taken;
  assign begins = !reset && at == 0 && int'(decided) < OUTPUTS;
  assign decides = begins && gap == 0
      && (5'(taken) > needed || (5'(taken) == needed && available));
  assign takes = begins && available && (5'(taken) < needed || (5'(taken) == needed && decides));

  assign issue = takes || decides || at != 0;
  assign add = at == 0 ? takes : held_add;
  assign fire = at == 0 ? decides : held_fire;
  assign slot = at == 0 ? taken : held_slot;
  assign phase = at;
  assign write = gap == 1;

  always @(posedge clk) begin
    if (reset) begin
      taken <= 0;
      decided <= 0;
      at <= 0;
      gap <= 0;
    end else begin
      if (takes) taken <= taken + 1;
      if (decides) decided <= decided + 1;
      if (decides) gap <= 16'(STEP + SHARE - 2);
      else if (gap != 0) gap <= gap - 1;
      if (issue) at <= int'(at) == SHARE - 1 ? 0 : at + 1;
      if (at == 0) begin
        held_add <= takes;
        held_fire <= decides;
        held_slot <= taken;
      end
    end
  end
endmodule
