// Systolic arrays that run in step, output-stationary: SIZE x SIZE cells multiply, add and hand on.
//
// A cycle with `valid` brings column k of a left tile (a) and row k of a right one (b) for each array;
// cell (i, j) has them i + j cycles later. Tiles follow without a gap: `first` and `last` travel with
// them. While `done[d]` is high, the cells of diagonal d = i + j end a tile, and their sums are there.
module falcon_array #(
    parameter int ARRAYS = 1,
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
    input logic [ARRAYS*SIZE*WIDTH_A-1:0] a,
    input logic [ARRAYS*SIZE*WIDTH_B-1:0] b,
    output logic [2*SIZE-2:0] done,
    output logic [ARRAYS*SIZE*SIZE*WIDTH-1:0] sums
);
  localparam int DIAGONALS = 2 * SIZE - 1;
  localparam int N_A = ARRAYS * SIZE * WIDTH_A;
  localparam int N_B = ARRAYS * SIZE * WIDTH_B;
  // What came one cycle ago, two cycles ago, ...; registers that no cell reads vanish.
  logic [DIAGONALS*N_A-1:0] held_a;
  logic [DIAGONALS*N_B-1:0] held_b;
  logic [DIAGONALS-1:0] valids, firsts, lasts, held_valid, held_first, held_last;
  logic [ARRAYS*SIZE*SIZE*WIDTH-1:0] held;  // sums so far
  logic busy;

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
          if (valids[i+j])
            for (int u = 0; u < ARRAYS; u++) begin
              if (i + j == 0) begin
                left = a[u*SIZE*WIDTH_A+:WIDTH_A];
                right = b[u*SIZE*WIDTH_B+:WIDTH_B];
              end else begin
                left = held_a[(i+j-1)*N_A+(u*SIZE+i)*WIDTH_A+:WIDTH_A];
                right = held_b[(i+j-1)*N_B+(u*SIZE+j)*WIDTH_B+:WIDTH_B];
              end
              sum = firsts[i+j] ? 0 : held[((u*SIZE+i)*SIZE+j)*WIDTH+:WIDTH];
              sums[((u*SIZE+i)*SIZE+j)*WIDTH+:WIDTH] = sum + WIDTH'(left) * WIDTH'(right);
            end
  end

  always @(posedge clk) begin
    held_valid <= reset ? 0 : valids;
    if (busy) begin
      held_first <= firsts;
      held_last <= lasts;
      held_a <= (held_a << N_A) | (DIAGONALS * N_A)'(a);
      held_b <= (held_b << N_B) | (DIAGONALS * N_B)'(b);
      held <= sums;
    end
  end
endmodule
