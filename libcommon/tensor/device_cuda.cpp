#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdlib>

#include "base/error.h"
#include "tensor/device.h"
#include "tensor/gpu_code.h"

namespace mt::device {

static void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail(Exit::internal, "CUDA: ", what, ": ", cudaGetErrorString(error));
}

// CUDA puts work of all streams into so many queues, whose first piece holds up the others: of few
// queues a message that a later stage has not taken yet holds up the one that this stage waits
// for, round the pipeline.  Megatron-LM's scripts ask for one, for an order that nothing here
// needs.
static void open_queues() {
  static const int once = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  static_cast<void>(once);
}

int count() {
  open_queues();
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void use(int gpu) {
  if (const int gpus = count(); gpu >= gpus)
    fail(Exit::unavailable, "GPU ", gpu, ": CUDA can use ", gpus, " here, from 0");
  check(cudaSetDevice(gpu), "cudaSetDevice");
  check_code();
}

static Gpu gpu(int number) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, number), "cudaGetDeviceProperties");
  return {properties.name, properties.major * 10 + properties.minor};
}

static Gpu current_gpu() {
  int number = 0;
  check(cudaGetDevice(&number), "cudaGetDevice");
  return gpu(number);
}

std::string without_code() { return count() == 0 ? "" : mt::without_code(current_gpu(), MT_GPUS); }

std::string without_bf16() { return count() == 0 ? "" : mt::without_bf16(current_gpu(), MT_GPUS); }

std::string without_fp8() { return count() == 0 ? "" : mt::without_fp8(current_gpu()); }

void check_code() {
  if (const std::string why = without_code(); !why.empty()) fail(Exit::unavailable, why);
}

// 13000 is 13.0.
static std::string in_words(int version) {
  return concat(version / 1000, ".", version % 1000 / 10);
}

std::string version() {
  std::string text =
      concat("CUDA: built with ", in_words(CUDART_VERSION), " for ", mt::in_words(MT_GPUS), "; ");
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return text + "no driver here";
  text += concat("driver for ", in_words(driver), ", ", count(), " GPUs");
  for (int i = 0; i < count(); ++i) {
    const auto [name, capability] = gpu(i);
    text += concat(i == 0 ? ": " : ", ", name, " (", capability,
                   code_for(capability, MT_GPUS) == 0 ? ", no code for it)" : ")");
  }
  return text;
}

void* allocate(std::size_t bytes) {
  if (count() == 0) fail(Exit::unavailable, "no GPU that CUDA can use; --device cpu needs none");
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation)
    fail(Exit::out_of_memory, "out of GPU memory: ", bytes, " bytes asked for");
  check(error, "cudaMalloc");
  set_zero(memory, bytes, nullptr);
  synchronize(nullptr);
  return memory;
}

void release(void* memory) noexcept { cudaFree(memory); }

void* allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaMallocHost(&memory, bytes) != cudaSuccess)
    fail(Exit::out_of_memory, "out of host memory: ", bytes, " pinned bytes asked for");
  return memory;
}

void release_pinned(void* memory) noexcept { cudaFreeHost(memory); }

bool is_pinned(const void* memory) {
  cudaPointerAttributes attributes = {};
  check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeHost;
}

static std::pair<std::size_t, std::size_t> free_and_total() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {free, total};
}
std::size_t total_memory() { return free_and_total().second; }
std::size_t free_memory() { return free_and_total().first; }

StreamHandle make_stream(Priority priority) {
  if (count() == 0) fail(Exit::unavailable, "no GPU that CUDA can use; --device cpu needs none");
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     priority == Priority::high ? highest : lowest),
        "cudaStreamCreate");
  return stream;
}

void destroy_stream(StreamHandle stream) noexcept { cudaStreamDestroy(stream); }

void synchronize(StreamHandle stream) {
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

void copy(void* to, const void* from, std::size_t bytes, StreamHandle stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

void set_zero(void* memory, std::size_t bytes, StreamHandle stream) {
  check(cudaMemsetAsync(memory, 0, bytes, stream), "cudaMemsetAsync");
}

EventHandle make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  return event;
}

void destroy_event(EventHandle event) noexcept { cudaEventDestroy(event); }

void record(EventHandle event, StreamHandle stream) {
  check(cudaEventRecord(event, stream), "cudaEventRecord");
}

void wait(EventHandle event) { check(cudaEventSynchronize(event), "cudaEventSynchronize"); }

void wait(EventHandle event, StreamHandle stream) {
  check(cudaStreamWaitEvent(stream, event), "cudaStreamWaitEvent");
}

EventHandle make_timer() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return event;
}

double seconds_between(EventHandle first, EventHandle second) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, first, second), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

void begin_capture(StreamHandle stream) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

GraphHandle end_capture(StreamHandle stream) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(error, "cudaGraphInstantiate");
  return executable;
}

void launch(GraphHandle graph, StreamHandle stream) {
  check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
}

void destroy_graph(GraphHandle graph) noexcept { cudaGraphExecDestroy(graph); }

void push_range(const char* name) { nvtxRangePushA(name); }
void pop_range() noexcept { nvtxRangePop(); }
void start_profiler() { check(cudaProfilerStart(), "cudaProfilerStart"); }
void stop_profiler() noexcept { cudaProfilerStop(); }

}  // namespace mt::device
