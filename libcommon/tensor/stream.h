// Stream: where a rank's operations run, one after another.  On the CPU it holds the rank's worker
// threads, and an operation is done when its function returns; on a GPU it is a queue of the
// current one, and synchronize() waits; on `meta` it adds up what the operations would have cost.
// Not thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/threads.h"
#include "tensor/buffer.h"
#include "tensor/device.h"
#include "tensor/profile.h"

namespace mt {

// What work costs.  FLOPs count a multiplication and an addition as two; bytes are those an
// operation must read or write at least once; messages are what collectives move off a rank.
struct Cost {
  double flops = 0, bytes = 0, message_bytes = 0, messages = 0;
  double code_flops = 0;  // of the FLOPs, those of products of codes of eight bits

  // FLOPs of 16 bits that take as long: one of codes takes half the time.
  double wide_flops() const { return flops - code_flops / 2; }
  Cost& operator+=(const Cost& other) { return add(other, 1); }
  friend Cost operator-(Cost a, const Cost& b) { return a.add(b, -1); }

 private:
  Cost& add(const Cost& other, double sign) {
    flops += sign * other.flops;
    bytes += sign * other.bytes;
    message_bytes += sign * other.message_bytes;
    messages += sign * other.messages;
    code_flops += sign * other.code_flops;
    return *this;
  }
};

class Stream {
 public:
  // cpu: `threads` workers, 0 for all cores.
  explicit Stream(Device device, int threads = 1);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  Device device() const { return device_; }
  void run(const std::function<void()>& body) { workers_->run(body); }  // cpu only
  void synchronize();                                                   // nothing to do but on cuda
  void count(const Cost& cost, Family family) {
    cost_ += cost;
    family_costs_[family] += cost;
  }
  const Cost& cost() const { return cost_; }
  const PerFamily<Cost>& family_costs() const { return family_costs_; }

  // Measures what follows, until it is called with null.
  void measure_with(Profile* profile) { profile_ = profile; }
  bool is_measured() const { return profile_ != nullptr; }

  // For other threads: since when the host has waited for the GPU, if it does.  Whatever is asked
  // of CUDA may wait, so the host does so in every Call, and from one to the next while it queues.
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> waits_since() const;
  // waits_since(), unless the host does something else than to queue what belongs together.
  std::optional<Clock::time_point> queues_since() const;
  class Call {
   public:
    explicit Call(const Stream& stream) : stream_(stream), before_(stream.mark()) {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { stream_.unmark(before_); }

   private:
    const Stream& stream_;
    Clock::rep before_;
  };
  // While it lives the host queues a step's work, or, where that is false, does something else.
  class Queueing {
   public:
    explicit Queueing(Stream& stream, bool queues = true)
        : stream_(stream), before_(stream.queues_.exchange(queues)) {
      stream_.unmark(0);
    }
    Queueing(const Queueing&) = delete;
    Queueing& operator=(const Queueing&) = delete;
    ~Queueing() {
      stream_.queues_ = before_;
      stream_.unmark(0);
    }

   private:
    Stream& stream_;
    bool before_;
  };

  // An operation, from its making to its end.
  class Working {
   public:
    Working(const Stream& stream, Family family) : call_(stream), profile_(stream.profile_) {
      if (profile_ != nullptr) profile_->begin(family);
    }
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;
    ~Working() {
      if (profile_ != nullptr) profile_->end();
    }

   private:
    Call call_;
    Profile* profile_;
  };

  // Opens a second queue of a GPU, for work beside the stream's, which has as much scratch; on meta
  // that is counted.  The CPU has none.
  void open_aside();
  bool has_aside() const { return aside_ != nullptr && profile_ == nullptr; }
  // What `body` queues begins once all that was queued before is done, and may be under way with
  // what is queued behind it, until join().
  void aside(const std::function<void()>& body);
  void join();

  // --- For operations on GPUs. ---

  StreamHandle handle() const { return handle_; }
  void wait(EventHandle event);  // on the host
  // Scratch of the operation that is being queued; the next one that asks may overwrite it.  Makes
  // room where there is not enough, but not once work was captured, which would go on in the old
  // room (Exit::internal): see reserve_work().
  void* work(std::size_t bytes);
  void reserve_work(std::size_t bytes);  // of all queues together
  std::size_t work_bytes() const { return work_.bytes() * queues(); }
  // Work is captured from now on, and with it what is to happen on the host at each launch of it;
  // null: no more.
  using AtLaunch = std::vector<std::function<void()>>;
  void note_capture(AtLaunch* noted) {
    captured_ = true;
    at_launch_ = noted;
  }
  // Notes that what is queued next depends on what the host has read of the device's, or written
  // for it: together with that, it cannot be captured.  How often that was so.
  void note_host_read() { ++host_reads_; }
  std::int64_t host_reads() const { return host_reads_; }
  // With the work that is being queued: at once, unless it is captured.
  void at_launch(std::function<void()> body) {
    at_launch_ != nullptr ? at_launch_->push_back(std::move(body)) : body();
  }
  // What operations keep from one call to the next, theirs alone.
  struct Kept {
    virtual ~Kept() = default;
  };
  std::unique_ptr<Kept>& kept() { return kept_; }

 private:
  struct Aside;

  std::size_t queues() const { return aside_ != nullptr ? 2 : 1; }
  void make_room(Buffer& work, std::size_t bytes);
  Clock::rep mark() const;               // the host waits from now on; since when it did before
  void unmark(Clock::rep before) const;  // now it does as before, or has come on in its queueing

  Device device_;
  std::unique_ptr<Workers> workers_;
  Cost cost_;
  PerFamily<Cost> family_costs_ = {};
  Profile* profile_ = nullptr;
  StreamHandle handle_ = nullptr;                    // of the queue that work goes to
  mutable std::atomic<Clock::rep> waits_since_ = 0;  // 0: it does not
  std::atomic<bool> queues_ = false;
  Buffer work_;  // likewise
  std::unique_ptr<Aside> aside_;
  bool captured_ = false;
  std::int64_t host_reads_ = 0;
  AtLaunch* at_launch_ = nullptr;
  std::unique_ptr<Kept> kept_;
};

}  // namespace mt
