// The slot buffer: one writer, many readers.
//
// `count` says how many slots are there. A slot is written in the cycle before `count` counts it,
// and nobody reads it earlier: that is why a plain assignment can hold the slots.
module falcon_slots #(
    parameter int WIDTH = 1,  // bits of a slot
    parameter int SLOTS = 7,
    parameter int DEPTH = SLOTS  // slots that are kept; 1 where the reader takes them as they come
) (
    input logic clk,
    input logic reset,
    input logic write,
    input logic [WIDTH-1:0] data,
    output logic [3:0] count,
    output logic [DEPTH*WIDTH-1:0] slots
);
  always @(posedge clk) begin
    if (reset) count <= 0;
    else if (write) begin
      count <= count + 1;
      slots[(DEPTH==1?0:int'(count))*WIDTH+:WIDTH] = data;
    end
  end
endmodule
