#include "train/plan/machine.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/command.h"

namespace mt {
namespace {

// Fixed by the five runs of machine.h.
constexpr double kProducts = 690e12;    // FLOP/s of an H200
constexpr double kProductBytes = 0.25;  // the part of their time that is not hidden
constexpr double kAttention = 0.9;      // of cuDNN's rate, below
constexpr double kSmallHeads = 0.75;    // likewise with at most 64 channels
constexpr std::int64_t kSmallHead = 64;

// Measured besides:
//   h200  a copy (mt-performance(7)); NCCL among 4 GPUs of a host: all-gather 328, reduce-scatter
//         326, all-reduce 357 GB/s of bus bandwidth, 10.6 us for 16 KiB; of 8 to 128 MiB in bf16
//         by NCCL 2.28 among 2 247 and 225, among 4 312 and 311 GB/s behind 17 to 26 us
//   h100  a copy, 2,903 GB/s, and between 4 nodes of 8 with 400 Gb/s a GPU 324 GB/s of all-gather,
//         an eighth of it for each network card (AI @ Georgia Tech's benchmarks of Voltage Park's
//         cluster); the rest as of an H200, which has the same chip
// Of a100 (80 GB, SXM) and b200 the datasheets' rates are taken, and H200's part of them: 0.70 of
// products, 0.89 of copies, 0.73 of a direction of NVLink, 0.82 of the network.
constexpr double kLaunch = 10e-6;
constexpr Link kNvLink{.bytes = 327e9, .latency = 10.6e-6, .pair = 0.73, .slow_start = 3.5e6};
constexpr Link at_rate(Link link, double bytes) {
  link.bytes = bytes;
  return link;
}
constexpr Link kNdr{.bytes = 41e9, .latency = 20e-6};
const std::array kMachines{Machine{.name = "h200",
                                   .peak = 989.4e12,
                                   .products = kProducts,
                                   .bytes = 4.25e12,
                                   .launch = kLaunch,
                                   .memory = std::size_t{143771} << 20,
                                   .node = kNvLink,
                                   .network = kNdr},
                           Machine{.name = "h100",
                                   .peak = 989.4e12,
                                   .products = kProducts,
                                   .bytes = 2.9e12,
                                   .launch = kLaunch,
                                   .memory = std::size_t{81559} << 20,
                                   .node = kNvLink,
                                   .network = kNdr},
                           Machine{.name = "a100",
                                   .peak = 312e12,
                                   .products = 218e12,
                                   .bytes = 1.81e12,
                                   .launch = kLaunch,
                                   .memory = std::size_t{81920} << 20,
                                   .node = at_rate(kNvLink, 218e9),
                                   .network = {.bytes = 20.5e9, .latency = 20e-6}},
                           Machine{.name = "b200",
                                   .peak = 2250e12,
                                   .products = 1570e12,
                                   .bytes = 7.1e12,
                                   .launch = kLaunch,
                                   .memory = std::size_t{183359} << 20,
                                   .node = at_rate(kNvLink, 654e9),
                                   .network = kNdr}};

// FLOP/s on an H200.  cuDNN's, causal, 128 channels, in bf16: forward 484, 591, 644, 673, backward
// 370, 474, 541, 579 TFLOP/s at 2k, 4k, 8k, 16k tokens (NVIDIA/cudnn-frontend's results).
double attention_rate(const AttentionKind& kind, bool backward) {
  const auto tokens = static_cast<double>(kind.seq_length);
  const double cudnn =
      backward ? 620e12 * tokens / (tokens + 1262) : 703e12 * tokens / (tokens + 776);
  return cudnn * (kind.head_dim <= kSmallHead ? kSmallHeads : kAttention);
}

}  // namespace

PerFamily<double> Machine::seconds(const PerFamily<Cost>& work, const AttentionKind& kind,
                                   bool backward) const {
  PerFamily<double> seconds = {};
  const double attended =
      attention > 0 ? attention : attention_rate(kind, backward) * products / kProducts;
  for (std::size_t i = 0; i < kFamilies; ++i) {
    const double moving = work[i].bytes / bytes;
    if (static_cast<Family>(i) == Family::product)
      seconds[i] = std::max(work[i].wide_flops() / products + kProductBytes * moving, moving);
    else if (static_cast<Family>(i) == Family::attention)
      seconds[i] = std::max(work[i].flops / attended, moving);
    else
      seconds[i] = std::max(work[i].wide_flops() / products, moving);
  }
  return seconds;
}

int Machine::nodes(const std::vector<int>& ranks) const {
  int nodes = 1;
  for (std::size_t i = 1; i < ranks.size(); ++i)
    nodes += ranks[i] / gpus_per_node != ranks[i - 1] / gpus_per_node ? 1 : 0;
  return nodes;
}

double Machine::seconds(const Message& message) const {
  if (message.hosts == 1) {
    const double rate = node.bytes * (message.ranks == 2 ? node.pair : 1);
    return node.latency + (message.bytes + std::min(message.bytes, node.slow_start)) / rate;
  }
  const double nodes = message.hosts, sharing = message.ranks / nodes;
  const double steps = std::ceil(std::log2(nodes));  // a tree over the nodes
  return node.latency + network.latency * steps +
         message.bytes / std::min(node.bytes, network.bytes * sharing);
}

void MachineOptions::add_to(CommandLine& cl) {
  std::vector<std::string> names;
  names.reserve(std::size(kMachines) + 1);
  for (const Machine& machine : kMachines) names.push_back(machine.name);
  names.emplace_back("here");
  cl.option("--plan-machine", &name, "NAME",
            "kind of GPU that the plan supposes: h200 (the default, in 16 bits), h100, a100, b200, "
            "or here: this machine's, measured, connected as h200",
            one_of(names));
  cl.option("--plan-tflops", &tflops, "F",
            "their TFLOP/s of large products, or the CPU's, which are measured otherwise",
            greater_than(0));
  cl.option("--plan-memory-bandwidth", &memory_bandwidth, "GB/S",
            "what they read and write of their memory", greater_than(0));
  cl.option("--plan-memory", &memory, "GIB", "their memory", greater_than(0));
  cl.option("--plan-gpus-per-node", &gpus_per_node, "N", "how many of them a node has",
            at_least(1));
  cl.option("--plan-link-bandwidth", &link_bandwidth, "GB/S", "what a GPU sends within its node",
            greater_than(0));
  cl.option("--plan-link-latency", &link_latency, "US", "a small message's time within a node",
            at_least(0));
  cl.option("--plan-network-bandwidth", &network_bandwidth, "GB/S",
            "what a GPU's network card sends", greater_than(0));
  cl.option("--plan-network-latency", &network_latency, "US",
            "what a small message takes longer from node to node", at_least(0));
  cl.option("--plan-launch", &launch, "US", "from a forward or backward to the next", at_least(0));
}

bool MachineOptions::gives_rates() const {
  return tflops || memory_bandwidth || launch || link_bandwidth || link_latency ||
         network_bandwidth || network_latency || gpus_per_node;
}

Machine MachineOptions::machine() const {
  const auto known = std::ranges::find(kMachines, name, &Machine::name);
  Machine machine = known != kMachines.end() ? *known : kMachines.front();
  if (!name.empty()) machine.name = name;
  const auto take = [](double& rate, const std::optional<double>& given, double unit) {
    if (given) rate = *given * unit;
  };
  take(machine.products, tflops, 1e12);
  take(machine.bytes, memory_bandwidth, 1e9);
  take(machine.launch, launch, 1e-6);
  take(machine.node.bytes, link_bandwidth, 1e9);
  take(machine.node.latency, link_latency, 1e-6);
  take(machine.network.bytes, network_bandwidth, 1e9);
  take(machine.network.latency, network_latency, 1e-6);
  if (memory) machine.memory = static_cast<std::size_t>(*memory * (1 << 30));
  if (gpus_per_node) machine.gpus_per_node = *gpus_per_node;
  return machine;
}

}  // namespace mt
