#include "comm/nccl_group.h"

#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "comm/peer_copies.h"

namespace mt {
namespace {

using Timeout = Rendezvous::Milliseconds;

void check(ncclResult_t result, int rank, int size, const char* what) {
  if (result == ncclSuccess) return;
  fail(Exit::peer_failed, "rank ", rank, " of ", size, ": NCCL: ", what, ": ",
       ncclGetErrorString(result), ": ", ncclGetLastError(nullptr));
}

ncclDataType_t number_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    default:
      fail(Exit::internal, "NCCL: no sums of ", name_of(dtype));
  }
}

ncclRedOp_t number_op(Reduction reduction) {
  return reduction == Reduction::sum ? ncclSum : ncclMax;
}

// What the groups of a process share.  A GPU that waits for another's part waits for ever if that
// does not come; a thread tells the other ranks when the host has waited too long.
class Process {
 public:
  Process(Rendezvous& ranks, Stream& stream, Timeout timeout)
      : compute(stream), ranks_(ranks), timeout_(timeout), watch_([this] { watch(); }) {}
  Process(const Process&) = delete;
  ~Process() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    watch_.join();
  }

  Stream& compute;
  bool gave_up = false;  // an operation, after which no group ends in an orderly way

  // The last operation that was queued.
  void note(const char* operation, const ConstTensor& tensor, int ranks) {
    const std::lock_guard lock(mutex_);
    operation_ = operation;
    elements_ = tensor.numel();
    dtype_ = tensor.dtype();
    members_ = ranks;
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::seconds(1), [&] { return ended_; })) {
      const auto since = compute.waits_since();
      if (!since || Stream::Clock::now() - *since < timeout_) continue;
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout_).count();
      ranks_.abort(concat("its GPU has not come to an end for ", seconds,
                          " s; the last operation among ranks: ", operation_, " of ", elements_,
                          " ", name_of(dtype_), " among ", members_),
                   Exit::peer_failed);
      return;
    }
  }

  Rendezvous& ranks_;
  Timeout timeout_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool ended_ = false;
  const char* operation_ = "none";
  std::int64_t elements_ = 0;
  DType dtype_ = DType::f32;
  int members_ = 0;
  std::thread watch_;
};

class NcclGroup : public Group {
 public:
  NcclGroup(ncclComm_t comm, int rank, int size, std::shared_ptr<Process> process)
      : Group(rank, size),
        process_(std::move(process)),
        comm_(comm),
        stream_(device::make_stream(device::Priority::high)) {
    if (size == 2) connect();
  }
  NcclGroup(const NcclGroup&) = delete;
  ~NcclGroup() override {
    if (process_->gave_up)
      give_up();
    else
      ncclCommDestroy(comm_);
    for (const EventHandle event : events_) device::destroy_event(event);
    device::destroy_stream(stream_);
  }

  Pending all_reduce(Tensor t, Reduction reduction) override {
    return queue("all_reduce", t, t, [&](void* out, const void* in) {
      return ncclAllReduce(in, out, count(t), number_type(t.dtype()), number_op(reduction), comm_,
                           stream_);
    });
  }
  Pending all_gather(Tensor out, ConstTensor in) override {
    return queue("all_gather", out, in, [&](void* to, const void* from) {
      if (copies_ && copies_->reaches(out)) {
        copies_->all_gather(out, in, stream_);
        return ncclSuccess;
      }
      return ncclAllGather(from, to, in.bytes(), ncclUint8, comm_, stream_);
    });
  }
  Pending reduce_scatter(Tensor out, ConstTensor in) override {
    return queue("reduce_scatter", out, in, [&](void* to, const void* from) {
      if (copies_ && copies_->reaches(in)) {
        copies_->reduce_scatter(out, in, stream_);
        return ncclSuccess;
      }
      return ncclReduceScatter(from, to, count(out), number_type(out.dtype()), ncclSum, comm_,
                               stream_);
    });
  }
  Pending all_to_all(Tensor out, ConstTensor in) override {
    const std::size_t part = in.bytes() / static_cast<std::size_t>(size());
    return queue("all_to_all", out, in, [&](void* to, const void* from) {
      ncclResult_t result = ncclGroupStart();
      for (int rank = 0; rank < size() && result == ncclSuccess; ++rank) {
        const std::size_t at = static_cast<std::size_t>(rank) * part;
        result = ncclSend(static_cast<const std::byte*>(from) + at, part, ncclUint8, rank, comm_,
                          stream_);
        if (result != ncclSuccess) break;
        result = ncclRecv(static_cast<std::byte*>(to) + at, part, ncclUint8, rank, comm_, stream_);
      }
      const ncclResult_t ended = ncclGroupEnd();
      return result != ncclSuccess ? result : ended;
    });
  }
  Pending broadcast(Tensor t, int root) override {
    return queue("broadcast", t, t, [&](void* to, const void* from) {
      return ncclBroadcast(from, to, t.bytes(), ncclUint8, root, comm_, stream_);
    });
  }
  Pending send(ConstTensor t, int to) override {
    return queue("send", {}, t, [&](void*, const void* from) {
      return ncclSend(from, t.bytes(), ncclUint8, to, comm_, stream_);
    });
  }
  Pending receive(Tensor t, int from) override {
    return queue("receive", t, {}, [&](void* to, const void*) {
      return ncclRecv(to, t.bytes(), ncclUint8, from, comm_, stream_);
    });
  }
  bool reach(const Tensor& memory) override {
    if (!copies_) copies_ = std::make_unique<PeerCopies>(*this);
    return copies_->reach(memory);
  }
  void barrier() override {
    std::int32_t nothing = 0;
    all_reduce({&nothing, DType::i32, {1}}, Reduction::sum).wait();
  }

  std::unique_ptr<Group> split(const std::vector<int>& members) override {
    const int place = place_in(members, rank());
    const bool alone = members.size() == 1;
    ncclComm_t part = nullptr;
    check(ncclCommSplit(comm_, alone ? NCCL_SPLIT_NOCOLOR : members.front(), place, &part, nullptr),
          rank(), size(), "split");
    if (alone) return make_single_group();
    return std::make_unique<NcclGroup>(part, place, static_cast<int>(members.size()), process_);
  }

 private:
  class Queued;

  // Of two ranks: a first message's host waits for the other's, which may wait for another pair's.
  void connect() {
    make_room(2);
    auto* const bytes = static_cast<std::byte*>(stage_.data());
    check(ncclGroupStart(), rank(), size(), "connect");
    check(ncclSend(bytes, 1, ncclUint8, 1 - rank(), comm_, stream_), rank(), size(), "connect");
    check(ncclRecv(bytes + 1, 1, ncclUint8, 1 - rank(), comm_, stream_), rank(), size(), "connect");
    check(ncclGroupEnd(), rank(), size(), "connect");
  }

  static std::size_t count(const ConstTensor& t) { return static_cast<std::size_t>(t.numel()); }

  // Nothing waits for other ranks any more.
  void give_up() noexcept {
    if (copies_) copies_->give_up();
    ncclCommAbort(std::exchange(comm_, nullptr));
  }

  EventHandle take_event() {
    if (events_.empty()) return device::make_event();
    const EventHandle event = events_.back();
    events_.pop_back();
    return event;
  }

  // What work(out, in) queues; the tensors' memory is a GPU's then.
  template <class Work>
  Pending queue(const char* name, Tensor out, ConstTensor in, const Work& work);

  void make_room(std::size_t bytes) {
    if (stage_.bytes() >= bytes) return;
    device::synchronize(stream_);
    stage_ = Buffer(Device::cuda, bytes);
  }

  std::shared_ptr<Process> process_;
  ncclComm_t comm_;
  StreamHandle stream_;
  std::vector<EventHandle> events_;  // not in use
  Buffer stage_;                     // where host tensors pass through the GPU
  std::unique_ptr<PeerCopies> copies_;
};

class NcclGroup::Queued : public Pending::Operation {
 public:
  Queued(NcclGroup& group, bool of_host) : group_(group), of_host_(of_host) {
    device::record(event_, group.stream_);
  }
  Queued(const Queued&) = delete;
  ~Queued() override {
    if (!waited_) {
      group_.process_->gave_up = true;
      group_.give_up();
    }
    group_.events_.push_back(event_);
  }
  void wait() override {
    waited_ = true;
    Stream& compute = group_.process_->compute;
    if (of_host_) return compute.wait(event_);
    const Stream::Working working(compute, Family::communication);
    device::wait(event_, compute.handle());
  }

 private:
  NcclGroup& group_;
  EventHandle event_ = group_.take_event();
  bool of_host_, waited_ = false;
};

// A host tensor's place on the GPU: what comes out before what goes in, which it may be.
template <class Work>
Pending NcclGroup::queue(const char* name, Tensor out, ConstTensor in, const Work& work) {
  const std::size_t out_bytes = out ? out.bytes() : 0, in_bytes = in ? in.bytes() : 0;
  if (out_bytes + in_bytes == 0) return {};
  void* to = out.data();
  const void* from = in.data();
  const bool of_host = (in ? in : ConstTensor(out)).device() == Device::cpu;
  if (of_host) {
    const bool same = out_bytes == in_bytes && to == from;
    const std::size_t behind = same ? 0 : (out_bytes + 255) / 256 * 256;
    make_room(behind + in_bytes);
    to = stage_.data();
    void* const sent = static_cast<std::byte*>(to) + behind;
    if (in_bytes > 0) device::copy(sent, from, in_bytes, stream_);
    from = sent;
  } else {
    const EventHandle ready = take_event();
    device::record(ready, process_->compute.handle());
    device::wait(ready, stream_);
    events_.push_back(ready);
  }
  process_->note(name, in ? in : ConstTensor(out), size());
  check(work(to, from), rank(), size(), name);
  if (of_host && out_bytes > 0) device::copy(out.data(), to, out_bytes, stream_);
  return Pending(std::make_unique<Queued>(*this, of_host));
}

}  // namespace

std::unique_ptr<Group> make_nccl_group(Rendezvous& ranks, Stream& compute,
                                       Rendezvous::Milliseconds timeout) {
  // Through multicast of NVLink's switches only where it is asked for.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  const int rank = ranks.rank(), size = ranks.size();
  ncclUniqueId id = {};
  if (rank == 0) check(ncclGetUniqueId(&id), rank, size, "start");
  const std::vector<std::byte> shared = ranks.broadcast(std::as_bytes(std::span(&id, 1)));
  std::memcpy(&id, shared.data(), sizeof(id));
  ncclComm_t comm = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  check(ncclCommInitRankConfig(&comm, size, id, rank, &config), rank, size, "start");
  return std::make_unique<NcclGroup>(comm, rank, size,
                                     std::make_shared<Process>(ranks, compute, timeout));
}

}  // namespace mt
