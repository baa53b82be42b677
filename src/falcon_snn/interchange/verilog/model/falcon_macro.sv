// The analog macro, behavioural: sums of one slot after CYCLES cycles. A vendor's model goes here.
//
// It takes the spikes of `slot` in the cycle of `start` and gives `done` with `sums` in the last cycle
// of the pass. Nothing here is analog. In Verilator the sums come from C++ (falcon_model.cpp), which is
// faster; elsewhere from the loops here.
module falcon_macro #(
    parameter int LINES = 1,
    parameter int PIXELS = 1,
    parameter int CHANNELS = 1,
    parameter int OUTPUTS = 1,
    parameter int KERNEL_0 = 1,
    parameter int KERNEL_1 = 1,
    parameter int STRIDE_0 = 1,
    parameter int STRIDE_1 = 1,
    parameter int PADDING_0 = 0,
    parameter int PADDING_1 = 0,
    parameter int N = 1,  // outputs of all positions
    parameter int WIDTH = 8,  // bits of a sum
    parameter int CYCLES = 188,
    parameter int SLOTS = 7,
    parameter FILE = "weights.hex"
) (
    input logic clk,
    input logic reset,
    input logic start,
    input logic [3:0] slot,
    input logic [SLOTS*LINES*PIXELS*CHANNELS-1:0] slots,
    output logic done,
    output logic [N*WIDTH-1:0] sums
);
  localparam int INPUTS = LINES * PIXELS * CHANNELS;
  logic [31:0] left;
  int base;
`ifdef VERILATOR
  import "DPI-C" function int falcon_macro_new(
    input string file, input int lines, input int pixels, input int channels, input int outputs,
    input int kernel0, input int kernel1, input int stride0, input int stride1,
    input int padding0, input int padding1
  );
  import "DPI-C" function void falcon_macro_spikes(input int macro, input int first, input int bits);
  import "DPI-C" function void falcon_macro_run(input int macro);
  import "DPI-C" function int falcon_macro_sum(input int macro, input int index);

  int macro;
  logic [31:0] word;
  initial
    macro = falcon_macro_new(
        FILE, LINES, PIXELS, CHANNELS, OUTPUTS, KERNEL_0, KERNEL_1, STRIDE_0, STRIDE_1, PADDING_0,
        PADDING_1
    );
`else
  localparam int PLACES = KERNEL_0 * KERNEL_1 * CHANNELS;
  localparam int WIDE = (PIXELS + 2 * PADDING_1 - KERNEL_1) / STRIDE_1 + 1;
  logic signed [7:0] weights[0:OUTPUTS*PLACES-1];  // [output][place in the kernel][channel]
  initial $readmemh(FILE, weights);
  int line, pixel, total;
`endif

  assign done = left == 1;
  always @(posedge clk) begin
    if (reset) left <= 0;
    else if (start) begin
      left <= CYCLES - 1;
      base = int'(slot) * INPUTS;
`ifdef VERILATOR
      for (int i = 0; i < INPUTS; i += 32) begin
        for (int j = 0; j < 32; j++) word[j] = i + j < INPUTS ? slots[base+i+j] : 1'b0;
        falcon_macro_spikes(macro, i, word);
      end
      falcon_macro_run(macro);
      for (int i = 0; i < N; i++) sums[i*WIDTH+:WIDTH] = WIDTH'(falcon_macro_sum(macro, i));
`else
      for (int n = 0; n < N; n++) begin
        total = 0;
        for (int i = 0; i < KERNEL_0; i++)
          for (int j = 0; j < KERNEL_1; j++) begin
            line = n / OUTPUTS / WIDE * STRIDE_0 - PADDING_0 + i;
            pixel = n / OUTPUTS % WIDE * STRIDE_1 - PADDING_1 + j;
            if (line >= 0 && line < LINES && pixel >= 0 && pixel < PIXELS)
              for (int c = 0; c < CHANNELS; c++)
                if (slots[base+(line*PIXELS+pixel)*CHANNELS+c])
                  total = total + 32'(weights[n%OUTPUTS*PLACES+(i*KERNEL_1+j)*CHANNELS+c]);
          end
        sums[n*WIDTH+:WIDTH] = WIDTH'(total);
      end
`endif
    end else if (left != 0) left <= left - 1;
  end
endmodule
