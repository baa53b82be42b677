// A matrix product on arrays that others use, too: feeds them tile by tile, keeps what comes out.
//
// COPIES heads share ARRAYS arrays in rounds; a round has groups of SIZE rows. A group starts when its
// rows of the left operand are there (`left` counts them, or is not 0 where all come at once), when
// all of the right operand is (`right`), and when the product before on these arrays has ended
// (`free`). Groups follow without a gap; a round waits until the one before has left the arrays.
// Operands and results are [row][head][column]; a right operand is TRANSPOSED where its rows are
// columns of the product. Spikes (WIDTH_B = 1) are counted over their slots.
module falcon_product #(
    parameter int ROWS = 1,
    parameter int INNER = 1,
    parameter int COLUMNS = 1,
    parameter int COPIES = 1,
    parameter int ARRAYS = 1,
    parameter int SIZE = 32,
    parameter int PARTS = 1,  // in which the left operand comes
    parameter int TRANSPOSED = 0,
    parameter int SLOTS = 1,
    parameter int WIDTH_A = 8,
    parameter int WIDTH_B = 8,
    parameter int FEED_A = 9,  // bits that an array takes
    parameter int FEED_B = 8,
    parameter int WIDTH_S = 32,  // bits of its sums
    parameter int WIDTH = 32  // bits of a result
) (
    input logic clk,
    input logic reset,
    input logic free,
    input logic [15:0] left,
    input logic right,
    input logic [ROWS*COPIES*INNER*WIDTH_A-1:0] a,
    input logic [SLOTS*INNER*COPIES*COLUMNS*WIDTH_B-1:0] b,
    output logic valid,
    output logic first,
    output logic last,
    output logic [ARRAYS*SIZE*FEED_A-1:0] feed_a,
    output logic [ARRAYS*SIZE*FEED_B-1:0] feed_b,
    input logic [2*SIZE-2:0] done,
    input logic [ARRAYS*SIZE*SIZE*WIDTH_S-1:0] sums,
    output logic [15:0] count,  // row groups of all rounds that are there
    output logic whole,
    output logic [ROWS*COPIES*COLUMNS*WIDTH-1:0] results
);
  localparam int GROUPS = (ROWS + SIZE - 1) / SIZE;
  localparam int TILES = (COLUMNS + SIZE - 1) / SIZE;
  localparam int ROUNDS = (COPIES + ARRAYS - 1) / ARRAYS;
  localparam int ALL = ROUNDS * GROUPS;
  localparam int N = INNER * COPIES * COLUMNS;
  localparam int DIAGONALS = 2 * SIZE - 1;

  logic [15:0] row, round, group, tile, k;  // what is fed next; row = round * GROUPS + group
  logic begins, active;
  assign whole = int'(count) == ALL;
  assign active = free && !whole;
  assign begins = !reset && active && right && int'(row) < ALL
      && (PARTS == 1 ? left != 0 : left > row) && (group != 0 || count == row);
  assign valid = begins || k != 0 || tile != 0;
  assign first = valid && k == 0;
  assign last = valid && int'(k) == INNER - 1;

  int head, r, c;
  logic signed [FEED_B-1:0] value;
  always_comb begin
    feed_a = '0;
    feed_b = '0;
    head = 0;
    r = 0;
    c = 0;
    value = 0;
    if (valid)
      for (int u = 0; u < ARRAYS; u++) begin
        head = int'(round) * ARRAYS + u;
        for (int i = 0; i < SIZE; i++) begin
          r = int'(group) * SIZE + i;
          c = int'(tile) * SIZE + i;
          if (head < COPIES && r < ROWS)
            feed_a[(u*SIZE+i)*FEED_A+:FEED_A] =
                FEED_A'($signed(a[((r*COPIES+head)*INNER+int'(k))*WIDTH_A+:WIDTH_A]));
          if (head < COPIES && c < COLUMNS) begin
            r = TRANSPOSED != 0 ? (c * COPIES + head) * INNER + int'(k)
                : (int'(k) * COPIES + head) * COLUMNS + c;
            value = 0;
            for (int t = 0; t < SLOTS; t++)
              if (WIDTH_B == 1) value = value + FEED_B'(b[t*N+r]);
              else value = value + FEED_B'($signed(b[(t*N+r)*WIDTH_B+:WIDTH_B]));
            feed_b[(u*SIZE+i)*FEED_B+:FEED_B] = value;
          end
        end
      end
  end

  // Where the results of a tile go: round, group and tile follow it through the arrays.
  logic [DIAGONALS*48-1:0] places;
  logic [15:0] to_round, to_group, to_tile;
  int to_head, to_row, to_column;
  logic signed [WIDTH_S-1:0] sum;

  always @(posedge clk) begin
    if (reset) begin
      row <= 0;
      round <= 0;
      group <= 0;
      tile <= 0;
      k <= 0;
      count <= 0;
    end else if (active) begin
      places <= (places << 48) | (DIAGONALS * 48)'({round, group, tile});
      if (valid) begin
        k <= last ? 0 : k + 1;
        if (last) tile <= int'(tile) == TILES - 1 ? 0 : tile + 1;
        if (last && int'(tile) == TILES - 1) begin
          row <= row + 1;
          group <= int'(group) == GROUPS - 1 ? 0 : group + 1;
          if (int'(group) == GROUPS - 1) round <= round + 1;
        end
      end
      {to_round, to_group, to_tile} = {round, group, tile};
      if (DIAGONALS > 1) {to_round, to_group, to_tile} = places[(DIAGONALS>1?DIAGONALS-2:0)*48+:48];
      if (done[DIAGONALS-1] && int'(to_tile) == TILES - 1) count <= count + 1;
      if (|done)
        for (int i = 0; i < SIZE; i++)
          for (int j = 0; j < SIZE; j++)
            if (done[i+j]) begin
              {to_round, to_group, to_tile} =
                  i + j == 0 ? {round, group, tile} : places[(i+j==0?0:i+j-1)*48+:48];
              to_row = int'(to_group) * SIZE + i;
              to_column = int'(to_tile) * SIZE + j;
              for (int u = 0; u < ARRAYS; u++) begin
                to_head = int'(to_round) * ARRAYS + u;
                if (to_row < ROWS && to_column < COLUMNS && to_head < COPIES) begin
                  sum = sums[((u*SIZE+i)*SIZE+j)*WIDTH_S+:WIDTH_S];
                  results[((to_row*COPIES+to_head)*COLUMNS+to_column)*WIDTH+:WIDTH] = WIDTH'(sum);
                end
              end
            end
    end
  end
endmodule
