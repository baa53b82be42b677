// Attention, behavioural: Q K^T, ConSmax and A V, each after its cycles; values from C++.
//
// Q K^T follows both codes and the attention before it on the same arrays (`free`), ConSmax follows
// it, A V follows ConSmax and the last slot of V. `count` is 1 when the sums of A V are there.
module falcon_attention #(
    parameter int LINES = 1,
    parameter int CHANNELS = 1,
    parameter int HEADS = 1,
    parameter int SLOTS = 7,
    parameter int WIDTH = 32,  // bits of a sum
    parameter int QK = 1,  // cycles
    parameter int MAP = 1,
    parameter int AV = 1,
    parameter FILE = "curve.hex"
) (
    input logic clk,
    input logic reset,
    input logic free,
    input logic [3:0] count_q,
    input logic [3:0] count_k,
    input logic [3:0] count_v,
    input logic [LINES*CHANNELS*8-1:0] q,
    input logic [LINES*CHANNELS*8-1:0] k,
    input logic [SLOTS*LINES*CHANNELS-1:0] v,
    output logic [3:0] count,
    output logic [LINES*CHANNELS*WIDTH-1:0] sums
);
  localparam int N = LINES * CHANNELS;
  import "DPI-C" function int falcon_attention_new(
    input string file, input int lines, input int channels, input int heads
  );
  import "DPI-C" function void falcon_attention_put(
    input int unit, input int index, input int q, input int k, input int v
  );
  import "DPI-C" function void falcon_attention_run(input int unit);
  import "DPI-C" function int falcon_attention_sum(input int unit, input int index);

  int unit, counted;
  logic [1:0] part;  // waiting, Q K^T, ConSmax, A V
  logic [31:0] left;
  initial unit = falcon_attention_new(FILE, LINES, CHANNELS, HEADS);

  assign count = part == 3 && left == 0 ? 4'd1 : 4'd0;
  always @(posedge clk) begin
    if (reset) begin
      part <= 0;
      left <= 0;
    end else if (left != 0) left <= left - 1;
    else if (part == 0 && free && count_q != 0 && count_k != 0) begin
      part <= 1;
      left <= QK - 1;
    end else if (part == 1) begin
      part <= 2;
      left <= MAP - 1;
    end else if (part == 2 && int'(count_v) == SLOTS) begin
      part <= 3;
      left <= AV - 1;
      for (int i = 0; i < N; i++) begin
        counted = 0;
        for (int t = 0; t < SLOTS; t++) counted = counted + 32'(v[t*N+i]);
        falcon_attention_put(
            unit, i, 32'($signed(q[i*8+:8])), 32'($signed(k[i*8+:8])), counted
        );
      end
      falcon_attention_run(unit);
      for (int i = 0; i < N; i++) sums[i*WIDTH+:WIDTH] = WIDTH'(falcon_attention_sum(unit, i));
    end
  end
endmodule
