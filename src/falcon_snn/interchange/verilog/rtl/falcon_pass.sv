// Passes of an analog array: pass t follows input slot t and pass t - 1.
//
// A macro stands beside it: it takes the spikes of a slot when `start` is high, which is only when
// none of its passes runs, and gives `done` with the sums in the last cycle of the pass.
module falcon_pass #(
    parameter int SLOTS = 7
) (
    input logic clk,
    input logic reset,
    input logic [3:0] count,  // input slots that are there
    output logic start,
    output logic [3:0] slot,  // the one that a pass reads
    input logic done
);
  logic busy;
  assign start = !reset && !busy && int'(slot) < SLOTS && count > slot;
  always @(posedge clk) begin
    if (reset) begin
      busy <= 0;
      slot <= 0;
    end else begin
      if (start) busy <= 1;
      if (done) begin
        busy <= 0;
        slot <= slot + 1;
      end
    end
  end
endmodule
