#include "comm/nccl_group.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/nccl_memory.h"
#include "comm/peer_copies.h"
#include "comm/process_groups.h"

namespace mt {
namespace {

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

// What work() calls, at once.
template <class Work>
ncclResult_t together(const Work& work) {
  const ncclResult_t begun = ncclGroupStart();
  if (begun != ncclSuccess) return begun;
  const ncclResult_t result = work(), ended = ncclGroupEnd();
  return result != ncclSuccess ? result : ended;
}

// What a group shares with those that are the same by other names.
struct Communicator {
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  ~Communicator() {
    if (handle != nullptr) ncclCommDestroy(handle);
    device::destroy_stream(stream);
  }
  void abort() noexcept {  // nothing waits for other ranks any more
    if (handle != nullptr) ncclCommAbort(std::exchange(handle, nullptr));
  }
  ncclComm_t handle = nullptr;
  StreamHandle stream = device::make_stream(device::Priority::high);
};

ncclConfig_t settings(Carries carries) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (const int most = most_channels(carries); most > 0) {
    config.minCTAs = 1;
    config.maxCTAs = most;
  }
  return config;
}

class NcclGroup : public Group {
 public:
  // The group of all ranks, from NCCL's id.
  NcclGroup(const ncclUniqueId& id, int rank, int size, std::shared_ptr<ProcessGroups> process)
      : NcclGroup(rank, size, Carries::numbers, std::move(process), "all") {
    ncclConfig_t config = settings(carries());
    begin("start", {},
          [&] { return ncclCommInitRankConfig(&shared_->handle, size, id, rank, &config); });
  }
  // A group of some members of another, whose split number `number` this is.
  NcclGroup(NcclGroup& whole, const std::vector<int>& members, Carries carries, int place,
            int number)
      : NcclGroup(place, static_cast<int>(members.size()), carries, whole.process_,
                  concat(whole.begun_.group, ".", number, ":", members.front())) {
    if (whole.is_everyone(members)) talks_by_ = &whole;
    if (whole.shares(members, carries)) {
      shared_ = whole.shared_;
      return;
    }
    ncclConfig_t config = settings(carries);
    whole.begin("split", {}, [&] {
      return ncclCommSplit(whole.comm(), members.front(), place, &shared_->handle, &config);
    });
    if (carries == Carries::messages) connect();
  }
  NcclGroup(const NcclGroup&) = delete;
  ~NcclGroup() override;

  Pending all_reduce(Tensor t, Reduction reduction) override {
    PeerCopies* const peers = peers_for(t);
    return queue("all_reduce", t, t, [&](void* out, const void* in) {
      if (peers != nullptr) {
        peers->all_reduce(out, t.numel(), t.dtype(), reduction, stream());
        return ncclSuccess;
      }
      return ncclAllReduce(in, out, count(t), number_type(t.dtype()), number_op(reduction), comm(),
                           stream());
    });
  }
  Pending all_gather(Tensor out, ConstTensor in) override {
    return queue("all_gather", out, in, [&](void* to, const void* from) {
      if (copies_ && copies_->reaches(out)) {
        copies_->all_gather(out, in, stream());
        return ncclSuccess;
      }
      return ncclAllGather(from, to, in.bytes(), ncclUint8, comm(), stream());
    });
  }
  Pending reduce_scatter(Tensor out, ConstTensor in) override {
    const bool by_copies = copies_ && copies_->reaches(in);
    if (by_copies)
      process_->compute.count(PeerCopies::cost_of_sum(out, size()), Family::elementwise);
    if (by_copies && copies_->addend_bytes(in) <= copies_->room()) {
      const Place place = take_place(copies_->addend_bytes(in));
      const auto bring = [&](void*, const void*) {
        copies_->bring_addends(in, place.begin, stream());
        return ncclSuccess;
      };
      const auto add_up = [this, out, in, at = place.begin] {
        copies_->add_up(out, in, at, process_->compute.handle());
      };
      return queue("reduce_scatter", out, in, bring, {place, add_up});
    }
    if (by_copies) take_place(copies_->room());
    return queue("reduce_scatter", out, in, [&](void* to, const void* from) {
      if (by_copies) {
        copies_->reduce_scatter(out, in, stream());
        return ncclSuccess;
      }
      return ncclReduceScatter(from, to, count(out), number_type(out.dtype()), ncclSum, comm(),
                               stream());
    });
  }
  Pending all_to_all(Tensor out, ConstTensor in) override {
    const std::size_t part = in.bytes() / static_cast<std::size_t>(size());
    return queue("all_to_all", out, in, [&](void* to, const void* from) {
      return together([&] {
        ncclResult_t result = ncclSuccess;
        for (int rank = 0; rank < size() && result == ncclSuccess; ++rank) {
          const std::size_t at = static_cast<std::size_t>(rank) * part;
          result = ncclSend(static_cast<const std::byte*>(from) + at, part, ncclUint8, rank, comm(),
                            stream());
          if (result != ncclSuccess) break;
          result =
              ncclRecv(static_cast<std::byte*>(to) + at, part, ncclUint8, rank, comm(), stream());
        }
        return result;
      });
    });
  }
  Pending exchange(const std::vector<Tensor>& out, const std::vector<ConstTensor>& in) override {
    ConstTensor any;
    for (std::size_t rank = 0; rank < in.size(); ++rank)
      if (const ConstTensor& some = in[rank].bytes() > 0 ? in[rank] : ConstTensor(out[rank]);
          some.bytes() > 0)
        any = some;
    return queue("exchange", {}, any, [&](void*, const void*) {
      return together([&] {
        ncclResult_t result = ncclSuccess;
        for (std::size_t i = 0; i < in.size() && result == ncclSuccess; ++i) {
          const int rank = static_cast<int>(i);
          if (in[i].bytes() > 0)
            result = ncclSend(in[i].data(), in[i].bytes(), ncclUint8, rank, comm(), stream());
          if (result == ncclSuccess && out[i].bytes() > 0)
            result = ncclRecv(out[i].data(), out[i].bytes(), ncclUint8, rank, comm(), stream());
        }
        return result;
      });
    });
  }
  Pending broadcast(Tensor t, int root) override {
    return queue("broadcast", t, t, [&](void* to, const void* from) {
      return ncclBroadcast(from, to, t.bytes(), ncclUint8, root, comm(), stream());
    });
  }
  Pending send(ConstTensor t, int to) override {
    return queue("message", {}, t, [&](void*, const void* from) {
      return ncclSend(from, t.bytes(), ncclUint8, to, comm(), stream());
    });
  }
  Pending receive(Tensor t, int from) override {
    return queue("message", t, {}, [&](void* to, const void*) {
      return ncclRecv(to, t.bytes(), ncclUint8, from, comm(), stream());
    });
  }
  Pending pass(Tensor out, ConstTensor in, ConstTensor there, int ahead) override {
    const int after = (rank() + ahead) % size(), before = (rank() - ahead + size()) % size();
    return queue("pass", out, in, [&](void* to, const void* from) {
      if (copies_ && copies_->reaches(there)) {
        copies_->pass(out, there, ahead, stream());
        return ncclSuccess;
      }
      return together([&] {
        const ncclResult_t sent = ncclSend(from, in.bytes(), ncclUint8, after, comm(), stream());
        if (sent != ncclSuccess) return sent;
        return ncclRecv(to, out.bytes(), ncclUint8, before, comm(), stream());
      });
    });
  }
  bool reach(const Tensor& memory, std::size_t at_once) override {
    const ProcessGroups::Call call(*process_);
    make_copies();
    return copies_->reach(memory, at_once);
  }
  void barrier() override {
    std::int32_t nothing = 0;
    all_reduce({&nothing, DType::i32, {1}}, Reduction::sum).wait();
  }

  std::unique_ptr<Group> split(const std::vector<int>& members, Carries carries) override {
    const int place = place_in(members, rank()), number = ++splits_;
    if (members.size() > 1)
      return std::make_unique<NcclGroup>(*this, members, carries, place, number);
    ncclComm_t none = nullptr;
    begin("split", {},
          [&] { return ncclCommSplit(comm(), NCCL_SPLIT_NOCOLOR, place, &none, nullptr); });
    return make_single_group();
  }

 private:
  class Queued;

  NcclGroup(int rank, int size, Carries carries, std::shared_ptr<ProcessGroups> process,
            std::string name)
      : Group(rank, size, carries), process_(std::move(process)) {
    begun_.group = std::move(name);
    begun_.ranks = size;
    process_->add(&begun_);
  }

  // A first message's host waits for the other's, which may wait for another pair's.
  void connect() {
    make_room(2);
    auto* const bytes = static_cast<std::byte*>(stage_.data());
    begin("connect", {}, [&] {
      return together([&] {
        const ncclResult_t sent = ncclSend(bytes, 1, ncclUint8, 1 - rank(), comm(), stream());
        if (sent != ncclSuccess) return sent;
        return ncclRecv(bytes + 1, 1, ncclUint8, 1 - rank(), comm(), stream());
      });
    });
  }

  // Calls NCCL for an operation with this tensor.
  template <class Work>
  void begin(const char* name, const ConstTensor& tensor, const Work& work) {
    process_->compute.at_launch([this, name, elements = tensor.numel(), dtype = tensor.dtype()] {
      process_->note(&begun_, name, elements, dtype);
    });
    const ProcessGroups::Call call(*process_);
    check(work(), rank(), size(), name);
  }

  void make_copies() {
    if (copies_) return;
    const ProcessGroups::Call call(*process_);
    only_nccl_ = true;  // while ranks tell one another of their memory
    copies_ = std::make_unique<PeerCopies>(*talks_by_);
    only_nccl_ = false;
  }
  // The copies among peers that sum such a tensor up, or null.
  PeerCopies* peers_for(const Tensor& t) {
    if (only_nccl_ || !PeerCopies::is_little(t)) return nullptr;
    make_copies();
    return copies_->reduces(t) ? copies_.get() : nullptr;
  }

  ncclComm_t comm() const { return shared_->handle; }
  StreamHandle stream() const { return shared_->stream; }
  static std::size_t count(const ConstTensor& t) { return static_cast<std::size_t>(t.numel()); }

  // No rank's memory goes before the others have let go of it.
  void end() noexcept {
    if (!copies_) return;
    const ProcessGroups::Call call(*process_);
    copies_->let_go(stream());
    only_nccl_ = true;
    try {
      talks_by_->barrier();
    } catch (const std::exception&) {  // they have gone, too
    }
    copies_.reset();
  }

  // Nothing waits for other ranks any more.
  void give_up() noexcept {
    if (copies_) copies_->give_up({stream(), process_->compute.handle()});
    shared_->abort();
  }

  EventHandle take_event() {
    if (events_.empty()) return device::make_event();
    const EventHandle event = events_.back();
    events_.pop_back();
    return event;
  }

  // What makes a sum of other ranks' addends that copies brought, and where these lie.
  struct Place {
    std::size_t begin = 0, end = 0;  // bytes of the copies' room
  };
  struct AddUp {
    Place place = {};
    std::function<void()> queue = {};  // empty: it is no such sum
  };
  // What work(out, in) queues; the tensors' memory is a GPU's then.  What adds up is queued behind
  // what waits for it.
  template <class Work>
  Pending queue(const char* name, Tensor out, ConstTensor in, const Work& work, AddUp add_up = {});
  // For a sum's addends: behind the last one's, or first.  Sums whose addends lie there are ended.
  Place take_place(std::size_t bytes);

  void make_room(std::size_t bytes) {
    if (stage_.bytes() >= bytes) return;
    const ProcessGroups::Call call(*process_);
    device::synchronize(stream());
    stage_ = Buffer(Device::cuda, bytes);
  }

  std::shared_ptr<ProcessGroups> process_;
  std::shared_ptr<Communicator> shared_ = std::make_shared<Communicator>();
  NcclGroup* talks_by_ = this;  // of the same ranks, with less memory of its own
  ProcessGroups::Begun begun_;
  int splits_ = 0;
  std::vector<EventHandle> events_;  // not in use
  std::vector<Queued*> queued_;      // not waited for
  std::size_t placed_ = 0;           // where the last sum's place ends
  Buffer stage_;                     // where host tensors pass through the GPU
  std::unique_ptr<PeerCopies> copies_;
  bool only_nccl_ = false;
};

class NcclGroup::Queued : public Pending::Operation {
 public:
  Queued(NcclGroup& group, bool of_host, AddUp add_up)
      : group_(&group), of_host_(of_host), add_up_(std::move(add_up)) {
    device::record(event_, group.stream());
    group.queued_.push_back(this);
  }
  Queued(const Queued&) = delete;
  ~Queued() override {
    if (group_ != nullptr) abandon();
  }
  void wait() override {
    if (group_ == nullptr) fail(Exit::internal, "waiting for an operation of a group that is gone");
    end();
    leave();
  }
  // What follows in the stream has it complete.
  void end() {
    if (std::exchange(ended_, true)) return;
    Stream& compute = group_->process_->compute;
    if (of_host_) return compute.wait(event_);
    {
      const Stream::Working working(compute, Family::communication);
      device::wait(event_, compute.handle());
    }
    if (!add_up_.queue) return;
    const Stream::Working working(compute, Family::elementwise);
    add_up_.queue();
  }
  bool sums_at(const Place& place) const {
    return add_up_.queue && add_up_.place.begin < place.end && place.begin < add_up_.place.end;
  }
  void abandon() {
    group_->process_->gave_up = true;
    leave().give_up();
  }

 private:
  NcclGroup& leave() {
    NcclGroup& group = *std::exchange(group_, nullptr);
    std::erase(group.queued_, this);
    group.events_.push_back(event_);
    return group;
  }

  NcclGroup* group_;  // null: it is over
  EventHandle event_ = group_->take_event();
  bool of_host_, ended_ = false;
  AddUp add_up_;
};

NcclGroup::Place NcclGroup::take_place(std::size_t bytes) {
  constexpr std::size_t kAlignment = 16;
  const std::size_t begin = placed_ + bytes <= copies_->room() ? placed_ : 0;
  const Place place{begin, begin + bytes};
  for (Queued* const queued : queued_)
    if (queued->sums_at(place)) queued->end();
  placed_ = (place.end + kAlignment - 1) / kAlignment * kAlignment;
  return place;
}

NcclGroup::~NcclGroup() {
  while (!queued_.empty()) queued_.back()->abandon();
  if (process_->gave_up)
    give_up();
  else
    end();
  for (const EventHandle event : events_) device::destroy_event(event);
  {
    const ProcessGroups::Call call(*process_);
    shared_.reset();  // NCCL's ranks part together
  }
  process_->remove(&begun_);
}

// A host tensor's place on the GPU: what comes out before what goes in, which it may be.
template <class Work>
Pending NcclGroup::queue(const char* name, Tensor out, ConstTensor in, const Work& work,
                         AddUp add_up) {
  const std::size_t out_bytes = out ? out.bytes() : 0, in_bytes = in ? in.bytes() : 0;
  if (out_bytes + in_bytes == 0) return {};
  void* to = out.data();
  const void* from = in.data();
  const bool of_host = (in ? in : ConstTensor(out)).device() == Device::cpu;
  const ProcessGroups::Call call(*process_);  // CUDA copies to and from host memory while we wait
  if (of_host) {
    const bool same = out_bytes == in_bytes && to == from;
    const std::size_t behind = same ? 0 : (out_bytes + 255) / 256 * 256;
    make_room(behind + in_bytes);
    to = stage_.data();
    void* const sent = static_cast<std::byte*>(to) + behind;
    if (in_bytes > 0) device::copy(sent, from, in_bytes, stream());
    from = sent;
  } else {
    const EventHandle ready = take_event();
    device::record(ready, process_->compute.handle());
    device::wait(ready, stream());
    events_.push_back(ready);
  }
  begin(name, in ? in : ConstTensor(out), [&] { return work(to, from); });
  if (of_host && out_bytes > 0) device::copy(out.data(), to, out_bytes, stream());
  return Pending(std::make_unique<Queued>(*this, of_host, std::move(add_up)));
}

// Unless it was asked for in NCCL's own way, ranks do not share GPUs.
void check_gpus(Rendezvous& ranks) {
  const char* const shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (shared != nullptr && std::string_view(shared) == "1") return;
  int device = 0;
  cudaDeviceProp properties = {};
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaGetDeviceProperties(&properties, device) != cudaSuccess)
    fail(Exit::unavailable, "rank ", ranks.rank(), " of ", ranks.size(),
         ": CUDA: ", cudaGetErrorString(cudaGetLastError()));
  check_own_gpus(ranks, std::as_bytes(std::span(&properties.uuid, 1)));
}

}  // namespace

std::unique_ptr<Group> make_nccl_group(Rendezvous& ranks, Stream& compute) {
  // Through multicast of NVLink's switches only where it is asked for.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  const int rank = ranks.rank(), size = ranks.size();
  check_gpus(ranks);
  ncclUniqueId id = {};
  if (rank == 0) check(ncclGetUniqueId(&id), rank, size, "start");
  const std::vector<std::byte> shared = ranks.broadcast(std::as_bytes(std::span(&id, 1)));
  std::memcpy(&id, shared.data(), sizeof(id));
  return std::make_unique<NcclGroup>(id, rank, size,
                                     std::make_shared<ProcessGroups>(ranks, compute));
}

}  // namespace mt
