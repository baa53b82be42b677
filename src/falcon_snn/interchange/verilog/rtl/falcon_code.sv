// Q and K: a signed 8-bit code, clip((factor x sum of the first slots + bias) >> shift).
//
// Two steps and the buffer's register, like neurons. Constants are per channel, in FILE: bias,
// shift, factor.
module falcon_code #(
    parameter int N = 1,
    parameter int CHANNELS = 1,
    parameter int SHARE = 1,
    parameter int WIDTH = 1,  // bits of a sum
    parameter int DEPTH = 1,
    parameter FILE = "code.hex"
) (
    input logic clk,
    input logic reset,
    input logic issue,
    input logic add,
    input logic fire,
    input logic [3:0] slot,
    input logic [15:0] phase,
    input logic [DEPTH*N*WIDTH-1:0] sums,
    output logic [N*8-1:0] codes
);
  localparam int UNITS = (N + SHARE - 1) / SHARE;
  logic signed [31:0] constants[0:3*CHANNELS-1];
  initial $readmemh(FILE, constants);

  logic signed [31:0] total[0:N-1];
  logic codes_next;
  logic [15:0] phase_q;
  logic signed [31:0] value;
  logic signed [WIDTH-1:0] sum;
  int base, n, c;

  always @(posedge clk) begin
    codes_next <= !reset && issue && fire;
    phase_q <= phase;
    if (reset) begin
      for (int i = 0; i < N; i++) total[i] = 0;
    end else if (codes_next) begin
      for (int u = 0; u < UNITS; u++) begin
        n = u * SHARE + int'(phase_q);
        if (n < N) begin
          c = n % CHANNELS;
          value = (total[n] * constants[2*CHANNELS+c] + constants[c]) >>> constants[CHANNELS+c][4:0];
          if (value > 127) value = 127;
          if (value < -127) value = -127;
          codes[n*8+:8] = value[7:0];
        end
      end
    end
    if (issue && add) begin
      base = (DEPTH == 1 ? 0 : int'(slot)) * N;
      for (int u = 0; u < UNITS; u++) begin
        n = u * SHARE + int'(phase);
        if (n < N) begin
          sum = sums[(base+n)*WIDTH+:WIDTH];
          total[n] = total[n] + 32'(sum);
        end
      end
    end
  end
endmodule
