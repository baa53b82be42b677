// A bank of integrate-and-fire neurons on one or two inputs, sums or spikes.
//
// Three steps: scale (factor x input + static), update (add, compare, soft reset), and the slot
// buffer's register. Constants are per channel, in FILE: static, initial, threshold, factors.
// A later cycle reads what the arrays here hold, so plain assignments in reverse order are registers.
module falcon_neurons #(
    parameter int N = 1,
    parameter int CHANNELS = 1,
    parameter int SHARE = 1,  // neurons that one unit serves
    parameter int TERMS = 1,
    parameter int WIDTH_A = 1,  // bits of an input; 1 is a spike
    parameter int DEPTH_A = 1,  // slots of it that wait
    parameter int WIDTH_B = 1,
    parameter int DEPTH_B = 1,
    parameter int FACTOR = 32,  // bits of a factor
    parameter int VOLTAGE = 32,  // bits of a membrane
    parameter FILE = "neurons.hex"
) (
    input logic clk,
    input logic reset,
    input logic issue,
    input logic add,
    input logic fire,
    input logic [3:0] slot,
    input logic [15:0] phase,
    input logic [DEPTH_A*N*WIDTH_A-1:0] in_a,
    input logic [DEPTH_B*N*WIDTH_B-1:0] in_b,
    output logic [N-1:0] spikes
);
  localparam int UNITS = (N + SHARE - 1) / SHARE;
  logic signed [31:0] constants[0:5*CHANNELS-1];
  initial $readmemh(FILE, constants);

  logic signed [VOLTAGE-1:0] v[0:N-1];
  logic signed [VOLTAGE-1:0] scaled[0:UNITS-1];
  logic updates, adds, fires;
  logic [15:0] phase_q;
  logic signed [VOLTAGE-1:0] now, threshold;
  logic signed [FACTOR-1:0] factor_a, factor_b;
  logic signed [WIDTH_A:0] a;  // a spike has no sign
  logic signed [WIDTH_B:0] b;
  int base_a, base_b, n, c;

  always @(posedge clk) begin
    updates <= !reset && issue;
    adds <= add;
    fires <= fire;
    phase_q <= phase;
    if (reset) begin
      for (int i = 0; i < N; i++) v[i] = VOLTAGE'(constants[CHANNELS+i%CHANNELS]);
    end else if (updates) begin
      for (int u = 0; u < UNITS; u++) begin
        n = u * SHARE + int'(phase_q);
        if (n < N) begin
          now = adds ? v[n] + scaled[u] : v[n];
          if (fires) begin
            threshold = VOLTAGE'(constants[2*CHANNELS+n%CHANNELS]);
            spikes[n] = now >= threshold;
            if (now >= threshold) now = now - threshold;
          end
          v[n] = now;
        end
      end
    end
    if (issue && add) begin
      base_a = (DEPTH_A == 1 ? 0 : int'(slot)) * N;
      base_b = (DEPTH_B == 1 ? 0 : int'(slot)) * N;
      for (int u = 0; u < UNITS; u++) begin
        n = u * SHARE + int'(phase);
        if (n < N) begin
          c = n % CHANNELS;
          factor_a = FACTOR'(constants[3*CHANNELS+c]);
          a[WIDTH_A-1:0] = in_a[(base_a+n)*WIDTH_A+:WIDTH_A];
          a[WIDTH_A] = WIDTH_A == 1 ? 1'b0 : a[WIDTH_A-1];
          now = VOLTAGE'(factor_a) * VOLTAGE'(a) + VOLTAGE'(constants[c]);
          if (TERMS == 2) begin
            factor_b = FACTOR'(constants[4*CHANNELS+c]);
            b[WIDTH_B-1:0] = in_b[(base_b+n)*WIDTH_B+:WIDTH_B];
            b[WIDTH_B] = WIDTH_B == 1 ? 1'b0 : b[WIDTH_B-1];
            now = now + VOLTAGE'(factor_b) * VOLTAGE'(b);
          end
          scaled[u] = now;
        end
      end
    end
  end
endmodule
