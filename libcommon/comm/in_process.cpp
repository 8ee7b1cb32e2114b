#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "comm/group.h"

namespace mt {
namespace {

// Something that several ranks do together: each joins with its tensors.
struct Exchange {
  explicit Exchange(int parties)
      : out(static_cast<std::size_t>(parties)), in(static_cast<std::size_t>(parties)) {}
  std::vector<Tensor> out;
  std::vector<ConstTensor> in;
  std::size_t joined = 0;
  enum class State { open, running, done } state = State::open;
};

// Which exchange a rank means: its own count of a group's names it.  A message from one rank to
// another has two parties; a collective has all.
struct Place {
  static constexpr int kAll = -1;
  int group = 0;
  int from = kAll, to = kAll;
  std::uint64_t number = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

}  // namespace

struct InProcess::Hub {
  explicit Hub(int ranks) : size(ranks) {}

  // Joins an exchange; the last to join does the work(out, in) of all, outside the lock.
  template <class Work>
  std::shared_ptr<Exchange> join(const Place& place, int parties, int party, Tensor out,
                                 ConstTensor in, const Work& work) {
    std::unique_lock lock(mutex);
    if (!aborted.empty()) fail(Exit::peer_failed, aborted);
    std::shared_ptr<Exchange>& found = open[place];
    if (!found) found = std::make_shared<Exchange>(parties);
    std::shared_ptr<Exchange> exchange = found;
    exchange->out[static_cast<std::size_t>(party)] = out;
    exchange->in[static_cast<std::size_t>(party)] = in;
    if (++exchange->joined < exchange->in.size()) return exchange;
    open.erase(place);
    exchange->state = Exchange::State::running;
    lock.unlock();
    try {
      work(exchange->out, exchange->in);
    } catch (const std::exception& error) {
      end(*exchange, Exchange::State::open, error.what());
      throw;
    }
    end(*exchange, Exchange::State::done, {});
    return exchange;
  }

  void end(Exchange& exchange, Exchange::State state, const std::string& why) {
    const std::lock_guard lock(mutex);
    exchange.state = state;
    if (aborted.empty()) aborted = why;
    changed.notify_all();
  }

  void wait(const Exchange& exchange) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] {
      return exchange.state == Exchange::State::done ||
             (!aborted.empty() && exchange.state != Exchange::State::running);
    });
    if (!aborted.empty()) fail(Exit::peer_failed, aborted);
  }

  void leave(const Exchange& exchange, int rank) {
    std::unique_lock lock(mutex);
    if (aborted.empty()) aborted = concat("rank ", rank, " left an unfinished operation");
    changed.notify_all();
    changed.wait(lock, [&] { return exchange.state != Exchange::State::running; });
  }

  // The number of a group that the members split off another at its so manyth collective.
  int group_of(int parent, std::uint64_t number, const std::vector<int>& members) {
    const std::lock_guard lock(mutex);
    const int next = static_cast<int>(groups.size()) + 1;  // 0: all ranks
    return groups.try_emplace({parent, number, members}, next).first->second;
  }

  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Place, std::shared_ptr<Exchange>> open;  // not all have joined
  std::map<std::tuple<int, std::uint64_t, std::vector<int>>, int> groups;
  std::string aborted;  // why; empty: not aborted
};

namespace {

using Hub = InProcess::Hub;
using Outputs = std::vector<Tensor>;
using Inputs = std::vector<ConstTensor>;

class Joined : public Pending::Operation {
 public:
  Joined(Hub& hub, int rank, std::shared_ptr<Exchange> exchange)
      : hub_(hub), rank_(rank), exchange_(std::move(exchange)) {}
  Joined(const Joined&) = delete;
  ~Joined() override {
    if (!waited_) hub_.leave(*exchange_, rank_);
  }
  void wait() override {
    waited_ = true;
    hub_.wait(*exchange_);
  }

 private:
  Hub& hub_;
  int rank_;
  std::shared_ptr<Exchange> exchange_;
  bool waited_ = false;
};

// store(begin, count, results) for consecutive blocks of what elements [begin, end) of the ranks
// reduce to.
template <class T, class Store>
void reduce_ranks(Reduction reduction, const Inputs& in, std::int64_t begin, std::int64_t end,
                  const Store& store) {
  constexpr std::int64_t kBlock = 2048;
  T result[kBlock];
  for (std::int64_t i = begin; i < end; i += kBlock) {
    const std::int64_t count = std::min(kBlock, end - i);
    std::copy_n(in[0].as<T>() + i, count, result);
    for (std::size_t rank = 1; rank < in.size(); ++rank) {
      const T* x = in[rank].as<T>() + i;
      if (reduction == Reduction::sum)
        for (std::int64_t j = 0; j < count; ++j) result[j] += x[j];
      else
        for (std::int64_t j = 0; j < count; ++j) result[j] = std::max(result[j], x[j]);
    }
    store(i, count, result);
  }
}

void check_like(const char* operation, const ConstTensor& tensor, DType dtype, std::int64_t count) {
  if (tensor.numel() != count || tensor.dtype() != dtype)
    fail(Exit::internal, operation, ": ", tensor.numel(), " elements of ", name_of(tensor.dtype()),
         " on one rank do not go with ", count, " of ", name_of(dtype), " on another");
}

template <class Tensors>
void check_all(const char* operation, const Tensors& tensors, DType dtype, std::int64_t count) {
  for (const ConstTensor& tensor : tensors) check_like(operation, tensor, dtype, count);
}

void copy(Tensor out, std::int64_t at, const ConstTensor& in) {  // to element `at` of out
  if (in.numel() == 0) return;                                   // it may have no address
  std::memmove(
      static_cast<std::byte*>(out.data()) + static_cast<std::size_t>(at) * size_of(out.dtype()),
      in.data(), in.bytes());
}

void all_reduce_all(const Outputs& out, const Inputs& in, Reduction reduction) {
  const DType dtype = in[0].dtype();
  check_all("all_reduce", in, dtype, in[0].numel());
  with_float_type(dtype, [&]<class T>() {
    reduce_ranks<T>(reduction, in, 0, in[0].numel(),
                    [&](std::int64_t i, std::int64_t count, const T* result) {
                      for (const Tensor& t : out) std::copy_n(result, count, t.as<T>() + i);
                    });
  });
}

void all_gather_all(const Outputs& out, const Inputs& in) {
  const std::int64_t count = in[0].numel(), ranks = std::ssize(in);
  check_all("all_gather", in, in[0].dtype(), count);
  check_all("all_gather", out, in[0].dtype(), count * ranks);
  for (const Tensor& to : out)
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      copy(to, rank * count, in[static_cast<std::size_t>(rank)]);
}

void reduce_scatter_all(const Outputs& out, const Inputs& in) {
  const std::int64_t count = out[0].numel(), ranks = std::ssize(out);
  check_all("reduce_scatter", out, in[0].dtype(), count);
  check_all("reduce_scatter", in, in[0].dtype(), count * ranks);
  with_float_type(in[0].dtype(), [&]<class T>() {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t begin = rank * count;
      T* to = out[static_cast<std::size_t>(rank)].as<T>();
      reduce_ranks<T>(Reduction::sum, in, begin, begin + count,
                      [&](std::int64_t i, std::int64_t some, const T* sum) {
                        std::copy_n(sum, some, to + (i - begin));
                      });
    }
  });
}

void all_to_all_all(const Outputs& out, const Inputs& in) {
  const std::int64_t ranks = std::ssize(in), count = in[0].numel() / ranks;
  check_all("all_to_all", in, in[0].dtype(), count * ranks);
  check_all("all_to_all", out, in[0].dtype(), count * ranks);
  for (std::int64_t to = 0; to < ranks; ++to)
    for (std::int64_t from = 0; from < ranks; ++from) {
      const ConstTensor all = in[static_cast<std::size_t>(from)];
      copy(out[static_cast<std::size_t>(to)], from * count,
           all.reshape({ranks, count}).rows(to, to + 1));
    }
}

void broadcast_all(const Outputs& out, const Inputs& in, int root) {
  const ConstTensor& from = in[static_cast<std::size_t>(root)];
  check_all("broadcast", out, from.dtype(), from.numel());
  for (const Tensor& to : out) copy(to, 0, from);
}

class InProcessGroup : public Group {
 public:
  InProcessGroup(Hub& hub, int number, int rank, int size, int rank_of_all, Carries carries)
      : Group(rank, size, carries),
        hub_(hub),
        number_(number),
        rank_of_all_(rank_of_all),
        turns_(std::make_shared<Turns>()) {}

  Pending all_reduce(Tensor t, Reduction reduction) override {
    return collective(t, t, [reduction](const Outputs& out, const Inputs& in) {
      all_reduce_all(out, in, reduction);
    });
  }
  Pending all_gather(Tensor out, ConstTensor in) override {
    return collective(out, in, all_gather_all);
  }
  Pending reduce_scatter(Tensor out, ConstTensor in) override {
    return collective(out, in, reduce_scatter_all);
  }
  Pending all_to_all(Tensor out, ConstTensor in) override {
    return collective(out, in, all_to_all_all);
  }
  Pending broadcast(Tensor t, int root) override {
    return collective(
        t, t, [root](const Outputs& out, const Inputs& in) { broadcast_all(out, in, root); });
  }
  Pending send(ConstTensor t, int to) override { return message(rank(), to, 0, {}, t); }
  Pending receive(Tensor t, int from) override { return message(from, rank(), 1, t, {}); }
  void barrier() override {
    collective({}, {}, [](const Outputs&, const Inputs&) {}).wait();
  }
  std::unique_ptr<Group> split(const std::vector<int>& members, Carries carries) override {
    if (shares(members, carries)) return std::make_unique<InProcessGroup>(*this);
    const int place = place_in(members, rank());
    const int number = hub_.group_of(number_, turns_->collectives++, members);
    if (members.size() == 1) return make_single_group();
    return std::make_unique<InProcessGroup>(hub_, number, place, static_cast<int>(members.size()),
                                            rank_of_all_, carries);
  }

 private:
  struct Turns {
    std::uint64_t collectives = 0;                          // that this rank joined
    std::map<std::pair<int, int>, std::uint64_t> messages;  // that it sent or received: (from, to)
  };

  template <class Work>
  Pending join(const Place& place, int parties, int party, Tensor out, ConstTensor in,
               const Work& work) {
    return Pending(std::make_unique<Joined>(hub_, rank_of_all_,
                                            hub_.join(place, parties, party, out, in, work)));
  }
  template <class Work>
  Pending collective(Tensor out, ConstTensor in, const Work& work) {
    return join({.group = number_, .number = turns_->collectives++}, size(), rank(), out, in, work);
  }
  // The sender is party 0, the receiver party 1.
  Pending message(int from, int to, int party, Tensor out, ConstTensor in) {
    const std::uint64_t number = turns_->messages[{from, to}]++;
    return join({number_, from, to, number}, 2, party, out, in,
                [](const Outputs& o, const Inputs& i) {
                  check_like("receive", o[1], i[0].dtype(), i[0].numel());
                  copy(o[1], 0, i[0]);
                });
  }

  Hub& hub_;
  int number_;                    // of the group
  int rank_of_all_;               // among all that share the hub
  std::shared_ptr<Turns> turns_;  // of the group, whatever its name
};

}  // namespace

InProcess::InProcess(int size) : hub_(std::make_unique<Hub>(size)) {}
InProcess::~InProcess() = default;

std::unique_ptr<Group> InProcess::make(int rank) {
  return std::make_unique<InProcessGroup>(*hub_, 0, rank, hub_->size, rank, Carries::numbers);
}

void InProcess::abort(const std::string& why) {
  const std::lock_guard lock(hub_->mutex);
  if (hub_->aborted.empty()) hub_->aborted = why;
  hub_->changed.notify_all();
}

}  // namespace mt
