// ProcessGroups: what the groups of a process share whose operations are queued on a GPU.  It knows
// what each has begun, and tells the ranks' Rendezvous, so that who does not come to an operation
// is named.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "comm/rendezvous.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace mt {

class ProcessGroups {
 public:
  // What a group has begun; of the last operation, what goes in or, if nothing does, comes out.
  struct Begun {
    std::string group;
    int ranks = 1;
    std::uint64_t count = 0;
    const char* operation = "nothing";
    std::int64_t elements = 0;
    DType dtype = DType::u8;

    std::string text() const;  // "all_reduce of 4096 bfloat16 among 8"
  };

  ProcessGroups(Rendezvous& ranks, Stream& stream);
  ProcessGroups(const ProcessGroups&) = delete;
  ~ProcessGroups() { ranks_.follow({}); }

  Stream& compute;       // behind which operations are queued
  bool gave_up = false;  // an operation, after which no group ends in an orderly way

  // Knows of what a group has begun, until it is removed.
  void add(const Begun* group);
  void remove(const Begun* group);
  void note(Begun* group, const char* operation, std::int64_t elements, DType dtype);

  // While it lives the host may wait for other ranks.
  class Call {
   public:
    explicit Call(ProcessGroups& process) : process_(process), outer_(process.calls_since_) {
      if (outer_ == 0) process_.calls_since_ = Stream::Clock::now().time_since_epoch().count();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { process_.calls_since_ = outer_; }

   private:
    ProcessGroups& process_;
    Stream::Clock::rep outer_;
  };

 private:
  Rendezvous::Progress progress();

  Rendezvous& ranks_;
  std::atomic<Stream::Clock::rep> calls_since_ = 0;  // 0: it does not
  std::mutex mutex_;
  std::vector<const Begun*> groups_;  // and what they have begun, under the mutex
  const Begun* latest_ = nullptr;     // of them, which has begun something last; under it too
};

}  // namespace mt
