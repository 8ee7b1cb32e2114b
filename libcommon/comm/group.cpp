#include "comm/group.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <vector>

namespace mt {

int Group::place_in(const std::vector<int>& members, int rank) {
  const auto found = std::find(members.begin(), members.end(), rank);
  if (found == members.end()) fail(Exit::internal, "rank ", rank, " is no member of its group");
  return static_cast<int>(found - members.begin());
}

bool Group::is_everyone(const std::vector<int>& members) const {
  std::vector<int> everyone(static_cast<std::size_t>(size_));
  std::iota(everyone.begin(), everyone.end(), 0);
  return members == everyone;
}

bool Group::reach(const Tensor&, std::size_t) { return false; }

namespace {

class All final : public Pending::Operation {
 public:
  explicit All(std::vector<Pending> operations) : operations_(std::move(operations)) {}
  void wait() override {
    for (Pending& operation : operations_) operation.wait();
  }

 private:
  std::vector<Pending> operations_;
};

// A rank's part of a tensor that holds one part for each rank.
template <class AnyTensor>
AnyTensor part_of(const AnyTensor& parts, int rank, int ranks) {
  const std::int64_t count = parts.numel() / ranks;
  return parts.reshape({parts.numel()}).rows(rank * count, (rank + 1) * count);
}

}  // namespace

Pending Group::gather_step(const Tensor& parts, int ahead) {
  const Tensor arriving = part_of(parts, (rank_ - ahead + size_) % size_, size_);
  return pass(arriving, part_of(parts, rank_, size_), arriving, ahead);
}

Pending Group::scatter_step(const Tensor& out, const ConstTensor& parts, int ahead) {
  return pass(out, part_of(parts, (rank_ + ahead) % size_, size_), part_of(parts, rank_, size_),
              ahead);
}

Pending Group::pass(Tensor out, ConstTensor in, ConstTensor, int ahead) {
  std::vector<Pending> both;
  both.push_back(send(in, (rank_ + ahead) % size_));
  both.push_back(receive(out, (rank_ - ahead + size_) % size_));
  return Pending(std::make_unique<All>(std::move(both)));
}

// A rank's own part is copied at once, in host memory.
Pending Group::exchange(const std::vector<Tensor>& out, const std::vector<ConstTensor>& in) {
  std::vector<Pending> all;
  for (std::size_t other = 0; other < in.size(); ++other) {
    const int rank = static_cast<int>(other);
    if (rank == rank_) {
      if (in[other].bytes() > 0 && in[other].device() == Device::cpu)
        std::memcpy(out[other].data(), in[other].data(), in[other].bytes());
      continue;
    }
    if (in[other].bytes() > 0) all.push_back(send(in[other], rank));
    if (out[other].bytes() > 0) all.push_back(receive(out[other], rank));
  }
  return Pending(std::make_unique<All>(std::move(all)));
}

namespace {

class SingleGroup : public Group {
 public:
  SingleGroup() : Group(0, 1, Carries::tensors) {}
  Pending all_reduce(Tensor, Reduction) override { return {}; }
  Pending all_gather(Tensor out, ConstTensor in) override { return copy(out, in); }
  Pending all_to_all(Tensor out, ConstTensor in) override { return copy(out, in); }
  Pending reduce_scatter(Tensor out, ConstTensor in) override { return copy(out, in); }
  Pending pass(Tensor out, ConstTensor in, ConstTensor, int) override { return copy(out, in); }
  Pending broadcast(Tensor, int) override { return {}; }
  Pending send(ConstTensor, int) override { fail(Exit::internal, "send in a group of one"); }
  Pending receive(Tensor, int) override { fail(Exit::internal, "receive in a group of one"); }
  void barrier() override {}
  std::unique_ptr<Group> split(const std::vector<int>&, Carries) override {
    return make_single_group();
  }

 private:
  static Pending copy(Tensor out, ConstTensor in) {
    if (out.device() == Device::meta || out.data() == in.data() || out.numel() == 0) return {};
    if (out.device() == Device::cuda) fail(Exit::internal, "a copy on a GPU in a group of one");
    std::memcpy(out.data(), in.data(), out.bytes());
    return {};
  }
};

}  // namespace

std::unique_ptr<Group> make_single_group() { return std::make_unique<SingleGroup>(); }

// Not merely told that another rank failed.
static bool is_own(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return known == nullptr || known->code() != Exit::peer_failed;
}

void run_ranks(int size, const std::function<void(Group&)>& body) {
  if (size == 1) return body(*make_single_group());
  InProcess process(size);
  std::mutex mutex;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));  // each rank its own
  std::exception_ptr* first = nullptr;
  bool first_is_own = false;
  const auto rank_thread = [&](int rank) {
    try {
      body(*process.make(rank));
    } catch (const std::exception& error) {
      std::exception_ptr& mine = errors[static_cast<std::size_t>(rank)];
      mine = std::current_exception();
      {
        const std::lock_guard lock(mutex);
        if (first == nullptr || (is_own(error) && !first_is_own)) {
          first = &mine;
          first_is_own = is_own(error);
        }
      }
      process.abort(concat("rank ", rank, " failed: ", error.what()));
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < size; ++rank) threads.emplace_back(rank_thread, rank);
  } catch (const std::system_error&) {  // those that started wait for one that did not
    process.abort("not all ranks could start");
    for (std::thread& thread : threads) thread.join();
    fail(Exit::out_of_memory, "rank ", threads.size(), " of ", size, ": cannot start its thread");
  }
  for (std::thread& thread : threads) thread.join();
  if (first != nullptr) std::rethrow_exception(*first);
}

}  // namespace mt
