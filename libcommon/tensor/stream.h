// Stream: where a rank's operations run, one after another.  On the CPU it holds the rank's worker
// threads; on `meta` it adds up what the operations would have cost.  Not thread-safe.
#pragma once

#include <functional>
#include <memory>

#include "base/threads.h"
#include "tensor/tensor.h"

namespace mt {

// What work costs.  FLOPs count a multiplication and an addition as two; bytes are those an
// operation must read or write at least once; messages are what collectives move off a rank.
struct Cost {
  double flops = 0, bytes = 0, message_bytes = 0, messages = 0;
  Cost& operator+=(const Cost& other) {
    flops += other.flops;
    bytes += other.bytes;
    message_bytes += other.message_bytes;
    messages += other.messages;
    return *this;
  }
};

class Stream {
 public:
  // cpu: `threads` workers, 0 for all cores.
  explicit Stream(Device device, int threads = 1) : device_(device) {
    if (device == Device::cpu) workers_ = std::make_unique<Workers>(threads);
  }
  Device device() const { return device_; }
  void run(const std::function<void()>& body) { workers_->run(body); }  // cpu only
  void count(const Cost& cost) { cost_ += cost; }
  const Cost& cost() const { return cost_; }

 private:
  Device device_;
  std::unique_ptr<Workers> workers_;
  Cost cost_;
};

}  // namespace mt
