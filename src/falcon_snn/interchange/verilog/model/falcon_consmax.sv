// ConSmax, behavioural: scores become codes 0..255, part by part, each after its cycles.
//
// A part is HEIGHT rows of HEADS heads, as they leave the arrays (`ready` counts them), or all of them.
// Rows are [row][head][column]. FILE has the smallest score of each code from 1 on, per head.
module falcon_consmax #(
    parameter int ROWS = 1,
    parameter int COLUMNS = 1,
    parameter int COPIES = 1,
    parameter int HEIGHT = 1,
    parameter int HEADS = 1,
    parameter int INPUTS = 1,  // what `ready` counts to
    parameter int CYCLES = 1,  // of a part
    parameter int LAST = 1,  // of the last part of a round, which may be lower
    parameter int WIDTH = 32,  // bits of a score
    parameter FILE = "curve.hex"
) (
    input logic clk,
    input logic reset,
    input logic [15:0] ready,
    input logic [ROWS*COPIES*COLUMNS*WIDTH-1:0] scores,
    output logic [15:0] count,
    output logic [ROWS*COPIES*COLUMNS*9-1:0] codes  // signed, like all that arrays take
);
  localparam int GROUPS = (ROWS + HEIGHT - 1) / HEIGHT;
  localparam int PARTS = GROUPS * ((COPIES + HEADS - 1) / HEADS);
  logic signed [31:0] edges[0:COPIES*255-1];
  initial $readmemh(FILE, edges);

  logic [31:0] left, cycles;
  logic begins;
  int group, round, code, place;
  logic signed [WIDTH-1:0] score;
  assign begins = !reset && left == 0 && int'(count) < PARTS
      && int'(ready) >= (PARTS == 1 ? INPUTS : int'(count) + 1);
  assign cycles = left != 0 ? left : (int'(count) % GROUPS == GROUPS - 1 ? LAST : CYCLES);

  always @(posedge clk) begin
    if (reset) begin
      left <= 0;
      count <= 0;
    end else if (begins || left != 0) begin
      left <= cycles - 1;
      if (cycles == 1) begin
        count <= count + 1;
        group = int'(count) % GROUPS;
        round = int'(count) / GROUPS;
        for (int r = group * HEIGHT; r < (group + 1) * HEIGHT && r < ROWS; r++)
          for (int h = round * HEADS; h < (round + 1) * HEADS && h < COPIES; h++)
            for (int c = 0; c < COLUMNS; c++) begin
              place = (r * COPIES + h) * COLUMNS + c;
              score = scores[place*WIDTH+:WIDTH];
              code = 0;  // the edges that the score reaches, by bisection
              for (int step = 128; step > 0; step = step / 2)
                if (32'(score) >= edges[h*255+code+step-1]) code = code + step;
              codes[place*9+:9] = 9'(code);
            end
      end
    end
  end
endmodule
