// GPUs, where there are none.
#include "base/error.h"
#include "tensor/device.h"

namespace mt::device {

[[noreturn]] static void no_gpu() {
  fail(Exit::unavailable, "this program computes on the CPU only");
}

int count() { return 0; }
std::string without_code() { return {}; }
std::string without_bf16() { return {}; }
std::string without_fp8() { return {}; }
void check_code() {}
std::string version() { return "CUDA: built without"; }
void* allocate(std::size_t) { no_gpu(); }
void release(void*) noexcept {}
void* allocate_pinned(std::size_t) { no_gpu(); }
void release_pinned(void*) noexcept {}
std::size_t total_memory() { no_gpu(); }
bool is_pinned(const void*) { no_gpu(); }
std::size_t free_memory() { no_gpu(); }
void use(int) { no_gpu(); }
StreamHandle make_stream(Priority) { no_gpu(); }
void destroy_stream(StreamHandle) noexcept {}
void synchronize(StreamHandle) { no_gpu(); }
void copy(void*, const void*, std::size_t, StreamHandle) { no_gpu(); }
void set_zero(void*, std::size_t, StreamHandle) { no_gpu(); }
EventHandle make_event() { no_gpu(); }
void destroy_event(EventHandle) noexcept {}
void record(EventHandle, StreamHandle) { no_gpu(); }
void wait(EventHandle) { no_gpu(); }
void wait(EventHandle, StreamHandle) { no_gpu(); }
EventHandle make_timer() { no_gpu(); }
double seconds_between(EventHandle, EventHandle) { no_gpu(); }
void begin_capture(StreamHandle) { no_gpu(); }
GraphHandle end_capture(StreamHandle) { no_gpu(); }
void launch(GraphHandle, StreamHandle) { no_gpu(); }
void destroy_graph(GraphHandle) noexcept {}
void push_range(const char*) {}
void pop_range() noexcept {}
void start_profiler() {}
void stop_profiler() noexcept {}

}  // namespace mt::device
