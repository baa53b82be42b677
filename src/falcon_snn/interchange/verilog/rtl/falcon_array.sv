// A systolic array, output-stationary: SIZE x SIZE cells that multiply, add and hand on.
//
// A cycle with `valid` brings column k of the left tile (a) and row k of the right one (b); cell (i, j)
// has them i + j cycles later. Tiles follow without a gap: `first` and `last` travel with them. While
// `done[d]` is high, the cells of diagonal d = i + j end a tile, and their sums are there.
module falcon_array #(
    parameter int SIZE = 32,
    parameter int WIDTH_A = 9,  // bits of what comes, signed
    parameter int WIDTH_B = 8,
    parameter int WIDTH = 32  // bits of a sum
) (
    input logic clk,
    input logic reset,
    input logic valid,
    input logic first,
    input logic last,
    input logic [SIZE*WIDTH_A-1:0] a,
    input logic [SIZE*WIDTH_B-1:0] b,
    output logic [2*SIZE-2:0] done,
    output logic [SIZE*SIZE*WIDTH-1:0] sums
);
  localparam int DIAGONALS = 2 * SIZE - 1;
  // What came in this cycle, one cycle ago, two cycles ago, ...; registers that no cell reads vanish.
  logic [DIAGONALS*SIZE*WIDTH_A-1:0] all_a, held_a;
  logic [DIAGONALS*SIZE*WIDTH_B-1:0] all_b, held_b;
  logic [DIAGONALS-1:0] valids, firsts, lasts, held_valid, held_first, held_last;
  logic [SIZE*SIZE*WIDTH-1:0] held;  // sums so far
  logic busy;

  assign all_a = (held_a << SIZE * WIDTH_A) | (DIAGONALS * SIZE * WIDTH_A)'(a);
  assign all_b = (held_b << SIZE * WIDTH_B) | (DIAGONALS * SIZE * WIDTH_B)'(b);
  assign valids = (held_valid << 1) | DIAGONALS'(valid);
  assign firsts = (held_first << 1) | DIAGONALS'(first);
  assign lasts = (held_last << 1) | DIAGONALS'(last);
  assign done = valids & lasts;
  assign busy = |valids;

  logic signed [WIDTH_A-1:0] left;
  logic signed [WIDTH_B-1:0] right;
  logic signed [WIDTH-1:0] sum;
  always_comb begin
    sums = held;
    left = 0;
    right = 0;
    sum = 0;
    if (busy)
      for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++)
          if (valids[i+j]) begin
            left = all_a[((i+j)*SIZE+i)*WIDTH_A+:WIDTH_A];
            right = all_b[((i+j)*SIZE+j)*WIDTH_B+:WIDTH_B];
            sum = firsts[i+j] ? 0 : held[(i*SIZE+j)*WIDTH+:WIDTH];
            sums[(i*SIZE+j)*WIDTH+:WIDTH] = sum + WIDTH'(left) * WIDTH'(right);
          end
  end

  always @(posedge clk) begin
    held_valid <= reset ? 0 : valids;
    if (busy) begin
      held_first <= firsts;
      held_last <= lasts;
      held_a <= all_a;
      held_b <= all_b;
      held <= sums;
    end
  end
endmodule
