// Machine: how fast a kind of GPU, and what connects them, do the work that a plan counts; or a
// rank on this machine's CPU.
//
// Operations take as long as their FLOPs or their bytes, whichever take longer; a product's bytes
// are hidden by its multiplications but for a quarter.  A message takes the latency of its link,
// and its bytes at the rate of the slowest link that it passes; between nodes the members of a
// group that share a node share their network cards.
//
// Four constants were fixed by five runs of mt-pretrain on one H200 (mt-performance(7): 1.7B with
// one and with four micro-batches, Llama-style 1.5B and 3.6B, GPT-2 124M), which they give back
// within 0.9%: the rate of products, that quarter, and what of cuDNN's attention is reached with
// heads of 128 and of 64 channels.
#pragma once

#include <string>
#include <vector>

#include "comm/meta_group.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"
#include "train/plan/machine_options.h"

namespace mt {

struct Link {
  double bytes = 0;       // a second that a rank sends (NCCL's bus bandwidth)
  double latency = 0;     // seconds of a collective, or a message, of no bytes
  double pair = 1;        // what of those bytes two ranks alone reach
  double slow_start = 0;  // so many bytes, a message's first, take twice as long
};

// What attention's rate depends on.
struct AttentionKind {
  std::int64_t head_dim = 128, seq_length = 4096;
};

struct Machine {
  std::string name;
  double peak = 0;         // FLOP/s of the datasheet in 16 bits, dense: what MFU is a part of
  double products = 0;     // FLOP/s of large products in 16 bits, sustained
  double bytes = 0;        // read and written a second, of a large copy
  double attention = 0;    // FLOP/s of attention; 0: as cuDNN's on an H200, by the products
  double launch = 0;       // seconds from one captured graph to the next
  std::size_t memory = 0;  // bytes of a GPU
  int gpus_per_node = 8;
  Link node, network;  // within a node, and of each GPU between nodes

  // How long operations take one after another, by families.
  PerFamily<double> seconds(const PerFamily<Cost>& work, const AttentionKind& kind,
                            bool backward) const;
  double seconds(const Message& message) const;
  int nodes(const std::vector<int>& ranks) const;  // those of a node stand together
};

// Where the machine is "here": takes what is not given from this machine's GPU.  Exit::unavailable
// without one.
void measure_machine(MachineOptions& options, DType dtype);

// One of so many ranks on this machine's CPU, each with so many threads.  What the options do not
// give is measured, in about half a second.
Machine measure_cpu(const MachineOptions& options, DType dtype, int ranks, int threads);

// What a device reaches in a second.
struct Ceilings {
  double flops = 0;  // of large products in the type that is computed in
  double bytes = 0;  // read and written, of a large copy
};
Ceilings measure_ceilings(DType dtype, Stream& stream);

}  // namespace mt
