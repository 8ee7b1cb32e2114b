#include "comm/peer_copies.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "kernels/driver.h"

namespace mt {
namespace {

void check(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    fail(Exit::internal, "CUDA: ", what, ": error ", static_cast<int>(result));
}

CUdeviceptr address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

void write(std::uint32_t* count, std::uint32_t value, StreamHandle stream) {
  check(cuda::of_driver<&cuStreamWriteValue32>("cuStreamWriteValue32")(
            stream, address(count), value, CU_STREAM_WRITE_VALUE_DEFAULT),
        "cuStreamWriteValue32");
}

void wait(const std::uint32_t* count, std::uint32_t value, StreamHandle stream) {
  check(cuda::of_driver<&cuStreamWaitValue32>("cuStreamWaitValue32")(stream, address(count), value,
                                                                     CU_STREAM_WAIT_VALUE_GEQ),
        "cuStreamWaitValue32");
}

// What a process tells the others of its memory: CUDA's name of the allocation that it is in, where
// it begins there, and what it begins with.
struct Name {
  cudaIpcMemHandle_t allocation;
  std::uint64_t offset, first;
};

std::uint64_t first_of(const void* memory) {
  std::uint64_t first = 0;
  cuda::check(cudaMemcpy(&first, memory, sizeof(first), cudaMemcpyDefault));
  return first;
}

Name name_of(void* memory) {
  Name name{};
  CUdeviceptr begin = 0;
  check(cuda::of_driver<&cuMemGetAddressRange>("cuMemGetAddressRange")(&begin, nullptr,
                                                                       address(memory)),
        "cuMemGetAddressRange");
  name.offset = address(memory) - begin;
  name.first = first_of(memory);
  // Where there are no names, the others find nothing under this one.
  if (cudaIpcGetMemHandle(&name.allocation, memory) != cudaSuccess) cudaGetLastError();
  return name;
}

}  // namespace

PeerCopies::PeerCopies(Group& ranks) : ranks_(ranks), own_counts_(Device::cuda, sizeof(Counts)) {
  std::random_device random;
  const std::uint64_t mark = std::uint64_t{random()} << 32 | random();
  cuda::check(cudaMemcpy(own_counts_.data(), &mark, sizeof(mark), cudaMemcpyDefault));
  together_ =
      ranks.size() <= kMost && map(own_counts_.tensor(DType::u8, {sizeof(Counts)}), counts_);
}

PeerCopies::~PeerCopies() { close(); }

std::vector<int> PeerCopies::peers() const {
  std::vector<int> peers;
  for (int i = 1; i < ranks_.size(); ++i) peers.push_back((ranks_.rank() + i) % ranks_.size());
  return peers;
}

// Whether every rank has mapped every other's.
bool PeerCopies::map(const Tensor& memory, Region& region) const {
  const std::int64_t size = ranks_.size();
  std::vector<Name> names(static_cast<std::size_t>(size));
  const Name own = name_of(memory.data());
  constexpr std::int64_t kBytes = sizeof(Name);
  ranks_.all_gather({names.data(), DType::u8, {size * kBytes}}, {&own, DType::u8, {kBytes}}).wait();
  region = {static_cast<std::byte*>(memory.data()), memory.bytes(),
            std::vector<Mapped>(names.size())};
  // Where GPUs only seem to reach one another, users say so to NCCL.
  const char* const disabled = std::getenv("NCCL_P2P_DISABLE");
  std::int32_t failed = disabled != nullptr && std::strcmp(disabled, "0") != 0;
  for (const int peer : peers()) {
    const Name& name = names[static_cast<std::size_t>(peer)];
    Mapped& mapped = region.of[static_cast<std::size_t>(peer)];
    if (cudaIpcOpenMemHandle(&mapped.allocation, name.allocation, cudaIpcMemLazyEnablePeerAccess) !=
        cudaSuccess) {
      cudaGetLastError();
      failed = 1;
      continue;
    }
    mapped.memory = static_cast<std::byte*>(mapped.allocation) + name.offset;
    if (first_of(mapped.memory) != name.first) failed = 1;  // of another host
  }
  ranks_.all_reduce({&failed, DType::i32, {1}}, Reduction::max).wait();
  if (failed) close(region);
  return !failed;
}

void PeerCopies::close(Region& region) const noexcept {
  for (Mapped& mapped : region.of)
    if (void* const allocation = std::exchange(mapped, {}).allocation)
      cudaIpcCloseMemHandle(allocation);
}

void PeerCopies::close() noexcept {
  for (Region& region : regions_) close(region);
  close(counts_);
}

bool PeerCopies::reach(const Tensor& memory, std::size_t at_once) {
  Region region;
  if (!together_ || memory.bytes() == 0 || !map(memory, region)) return false;
  regions_.push_back(std::move(region));
  const std::size_t stage = stage_bytes(memory.bytes(), at_once, ranks_.size());
  if (stage > stage_.bytes()) stage_ = Buffer(Device::cuda, stage);
  return true;
}

const PeerCopies::Region* PeerCopies::region_of(const ConstTensor& part) const {
  const auto* const begin = static_cast<const std::byte*>(part.data());
  const auto it = std::ranges::find_if(regions_, [&](const Region& r) {
    return begin >= r.own && begin + part.bytes() <= r.own + r.bytes;
  });
  return it == regions_.end() ? nullptr : &*it;
}

const std::byte* PeerCopies::of_peer(int peer, const ConstTensor& part) const {
  const Region& region = *region_of(part);
  return region.of[static_cast<std::size_t>(peer)].memory +
         (static_cast<const std::byte*>(part.data()) - region.own);
}

PeerCopies::Counts* PeerCopies::counts_of(int rank) const {
  const bool own = rank == ranks_.rank();
  return reinterpret_cast<Counts*>(own ? counts_.own
                                       : counts_.of[static_cast<std::size_t>(rank)].memory);
}

// Queues copy(), which reads the memory of some ranks once they have queued theirs, and lets
// nothing follow before the readers have read this rank's.
template <class Copy>
void PeerCopies::exchange(const std::vector<int>& readers, const std::vector<int>& sources,
                          StreamHandle stream, const Copy& copy) {
  cudaStreamCaptureStatus capturing;
  cuda::check(cudaStreamIsCapturing(stream, &capturing));
  if (capturing != cudaStreamCaptureStatusNone)
    fail(Exit::internal, "copies among GPUs cannot be captured: each has its own number");
  ++operations_;
  const int rank = ranks_.rank();
  Counts* const own = counts_of(rank);
  for (const int peer : readers) write(&counts_of(peer)->ready[rank], operations_, stream);
  for (const int peer : sources) wait(&own->ready[peer], operations_, stream);
  copy();
  for (const int peer : sources) write(&counts_of(peer)->read[rank], operations_, stream);
  for (const int peer : readers) wait(&own->read[peer], operations_, stream);
}

void PeerCopies::pass(const Tensor& out, const ConstTensor& there, int ahead, StreamHandle stream) {
  const int rank = ranks_.rank(), size = ranks_.size(), before = (rank - ahead + size) % size;
  exchange({(rank + ahead) % size}, {before}, stream,
           [&] { device::copy(out.data(), of_peer(before, there), out.bytes(), stream); });
}

void PeerCopies::all_gather(const Tensor& out, const ConstTensor& in, StreamHandle stream) {
  const std::size_t part = in.bytes();
  const auto begin = [&](int rank) { return static_cast<std::size_t>(rank) * part; };
  auto* const all = static_cast<std::byte*>(out.data());
  std::byte* const own = all + begin(ranks_.rank());
  if (own != in.data()) device::copy(own, in.data(), part, stream);
  exchange(peers(), peers(), stream, [&] {
    for (const int peer : peers())
      device::copy(all + begin(peer), of_peer(peer, out) + begin(peer), part, stream);
  });
}

void PeerCopies::copy_addends(const ConstTensor& own, std::size_t at, StreamHandle stream) const {
  auto* to = static_cast<std::byte*>(stage_.data()) + at;
  for (const int peer : peers()) {
    device::copy(to, of_peer(peer, own), own.bytes(), stream);
    to += own.bytes();
  }
}

void PeerCopies::sum(const Tensor& out, const ConstTensor& own, std::size_t at,
                     StreamHandle stream) const {
  const auto of = [&]<class T>(T* y) {
    cuda::Addends<T> addends{.of = {}, .ranks = ranks_.size()};
    addends.of[ranks_.rank()] = static_cast<const T*>(own.data());
    const auto* staged = static_cast<const std::byte*>(stage_.data()) + at;
    for (const int peer : peers()) {
      addends.of[peer] = reinterpret_cast<const T*>(staged);
      staged += own.bytes();
    }
    cuda::sum_of_ranks(y, addends, own.numel(), stream);
  };
  if (out.dtype() == DType::f32) return of(static_cast<float*>(out.data()));
  if (out.dtype() == DType::bf16) return of(static_cast<__nv_bfloat16*>(out.data()));
  if (out.dtype() == DType::f16) return of(static_cast<__half*>(out.data()));
  fail(Exit::internal, "no sums of ", name_of(out.dtype()), " by copies");
}

// Rank r's part of what it adds to the ranks' parts.
static ConstTensor part_of(const ConstTensor& in, int rank, int ranks) {
  const ConstTensor all = in.reshape({in.numel()});
  const std::int64_t part = all.numel() / ranks;
  return all.rows(rank * part, (rank + 1) * part);
}

void PeerCopies::reduce_scatter(const Tensor& out, const ConstTensor& in, StreamHandle stream) {
  const ConstTensor own = part_of(in, ranks_.rank(), ranks_.size());
  const std::int64_t part = own.numel(),
                     room = static_cast<std::int64_t>(stage_.bytes() / size_of(out.dtype())) /
                            (ranks_.size() - 1);
  const Tensor sums = out.reshape({part});
  exchange(peers(), peers(), stream, [&] {
    for (std::int64_t begin = 0; begin < part; begin += room) {
      const std::int64_t end = std::min(begin + room, part);
      copy_addends(own.rows(begin, end), 0, stream);
      sum(sums.rows(begin, end), own.rows(begin, end), 0, stream);
    }
  });
}

void PeerCopies::bring_addends(const ConstTensor& in, std::size_t at, StreamHandle stream) {
  exchange(peers(), peers(), stream,
           [&] { copy_addends(part_of(in, ranks_.rank(), ranks_.size()), at, stream); });
}

void PeerCopies::add_up(const Tensor& out, const ConstTensor& in, std::size_t at,
                        StreamHandle stream) const {
  sum(out, part_of(in, ranks_.rank(), ranks_.size()), at, stream);
}

void PeerCopies::all_reduce(void* t, std::int64_t count, DType dtype, Reduction reduction,
                            StreamHandle stream) {
  cuda::PeerMailboxes boxes{.of = {}, .rank = ranks_.rank(), .ranks = ranks_.size()};
  for (int rank = 0; rank < ranks_.size(); ++rank) boxes.of[rank] = &counts_of(rank)->mailbox;
  const auto of = [&]<class T>(T* numbers) {
    cuda::peer_reduce(numbers, count, reduction == Reduction::max, boxes, stream);
  };
  if (dtype == DType::f32) return of(static_cast<float*>(t));
  if (dtype == DType::f64) return of(static_cast<double*>(t));
  if (dtype == DType::bf16) return of(static_cast<__nv_bfloat16*>(t));
  if (dtype == DType::f16) return of(static_cast<__half*>(t));
  if (dtype == DType::i32) return of(static_cast<std::int32_t*>(t));
  fail(Exit::internal, "no sums of ", name_of(dtype), " in one step");
}

void PeerCopies::let_go(StreamHandle stream) noexcept {
  cudaStreamSynchronize(stream);
  close();
}

void PeerCopies::give_up(std::initializer_list<StreamHandle> waiting) noexcept {
  if (std::exchange(gave_up_, true)) return;
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return;
  Counts* const own = reinterpret_cast<Counts*>(own_counts_.data());
  constexpr int kFar = 0x40;  // of each byte: more than there will be
  const auto busy = [](StreamHandle s) { return cudaStreamQuery(s) == cudaErrorNotReady; };
  // Again and again, as a rank's next number may come after it.
  for (int left = 100; left > 0; --left) {
    cudaMemsetAsync(own->ready, kFar, sizeof(own->ready), stream);
    cudaMemsetAsync(own->read, kFar, sizeof(own->read), stream);
    cudaMemsetAsync(own->mailbox.arrived, kFar, sizeof(own->mailbox.arrived), stream);
    cudaStreamSynchronize(stream);
    if (std::ranges::none_of(waiting, busy)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  cudaStreamDestroy(stream);
}

}  // namespace mt
