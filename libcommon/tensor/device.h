// The memory and the streams of GPUs.  Two libraries define these functions: mt_device_cuda with
// the CUDA runtime, for the programs that compute, and mt_device_none, in which there is no GPU,
// for the others and for builds without CUDA.  All are of the calling thread's current GPU.
#pragma once

#include <cstddef>
#include <string>

#include "base/error.h"

struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace mt {

using StreamHandle = CUstream_st*;    // cudaStream_t
using EventHandle = CUevent_st*;      // cudaEvent_t
using GraphHandle = CUgraphExec_st*;  // cudaGraphExec_t

namespace device {

int count();  // GPUs that can be used
// Makes one of them, from 0, the calling thread's; Exit::unavailable if there are not so many, or
// if this build has no code for it.
void use(int gpu);
// A line that says why the current GPU computes nothing of this build, or nothing in bf16, and what
// helps; empty where it does, and where there is no GPU.
std::string without_code();
std::string without_bf16();
std::string without_fp8();  // likewise, products of eight bits
// Exit::unavailable, with that line, where this build has no code for the current GPU.
void check_code();
// A line for --version: what CUDA the program was built with and for, and what this machine has.
std::string version();
// Zeros.  Exit::unavailable where there is no GPU, Exit::out_of_memory if it has not so many left.
void* allocate(std::size_t bytes);
void release(void* memory) noexcept;
// Host memory that copies read and write without the host's help.
void* allocate_pinned(std::size_t bytes);
void release_pinned(void* memory) noexcept;
bool is_pinned(const void* memory);
std::size_t total_memory();  // bytes of the current GPU
std::size_t free_memory();   // ... of which nobody has any

enum class Priority { normal, high };
StreamHandle make_stream(Priority priority = Priority::normal);
void destroy_stream(StreamHandle stream) noexcept;
void synchronize(StreamHandle stream);  // until all that was queued is done
// Between a GPU and the host, or within either, in the stream's order: pinned memory is read and
// written when its turn comes, other host memory is read before this returns.
void copy(void* to, const void* from, std::size_t bytes, StreamHandle stream);
void set_zero(void* memory, std::size_t bytes, StreamHandle stream);

// An event happens when all that was queued before its last record() is done.
EventHandle make_event();
void destroy_event(EventHandle event) noexcept;
void record(EventHandle event, StreamHandle stream);
void wait(EventHandle event);  // on the host
void wait(EventHandle event, StreamHandle stream);

// An event that also says when it happened, and the time from one such event to a later one.
EventHandle make_timer();
double seconds_between(EventHandle first, EventHandle second);

// What is queued between the two is not run but noted, and run by each launch.
void begin_capture(StreamHandle stream);
GraphHandle end_capture(StreamHandle stream);
void launch(GraphHandle graph, StreamHandle stream);
void destroy_graph(GraphHandle graph) noexcept;

// For NVIDIA's profilers: a name for what the host does until pop_range(); and what a profiler that
// was told to wait looks at.
void push_range(const char* name);
void pop_range() noexcept;
void start_profiler();
void stop_profiler() noexcept;

}  // namespace device

// A range from its making to its end, of the words put one after another.
class NamedRange {
 public:
  template <class... Parts>
  explicit NamedRange(const Parts&... parts) {
    if constexpr (sizeof...(Parts) == 1)
      device::push_range(parts...);
    else
      device::push_range(concat(parts...).c_str());
  }
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;
  ~NamedRange() { device::pop_range(); }
};

}  // namespace mt
