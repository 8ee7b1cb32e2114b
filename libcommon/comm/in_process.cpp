#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "comm/group.h"

namespace mt {

// What the ranks share.  A collective has a number; ranks post their tensors under it, meet, each
// works on its own share of the result, and meet again, after which the entry is forgotten.
struct InProcess::Hub {
  struct Entry {
    std::vector<Tensor> out;
    std::vector<ConstTensor> in;
    int posted = 0, done = 0, left = 0;
  };
  struct Message {
    ConstTensor tensor;
    bool taken = false;
  };

  explicit Hub(int ranks) : size(ranks) {}

  // Waits for `ready` under the lock; throws if the group was aborted.
  template <class Ready>
  void await(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    changed.wait(lock, [&] { return !aborted.empty() || ready(); });
    if (!aborted.empty()) fail(Exit::peer_failed, aborted);
  }

  void post(std::uint64_t number, int rank, Tensor out, ConstTensor in) {
    const std::lock_guard lock(mutex);
    Entry& entry = entries[number];
    entry.out.resize(static_cast<std::size_t>(size));
    entry.in.resize(static_cast<std::size_t>(size));
    entry.out[static_cast<std::size_t>(rank)] = out;
    entry.in[static_cast<std::size_t>(rank)] = in;
    ++entry.posted;
    changed.notify_all();
  }

  // Runs work(entry) once all have posted, and returns once all have worked.
  template <class Work>
  void finish(std::uint64_t number, const Work& work) {
    std::unique_lock lock(mutex);
    Entry& entry = entries[number];  // a map's elements stay where they are
    await(lock, [&] { return entry.posted == size; });
    lock.unlock();
    work(entry);
    lock.lock();
    ++entry.done;
    changed.notify_all();
    await(lock, [&] { return entry.done == size; });
    if (++entry.left == size) entries.erase(number);
  }

  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, Entry> entries;
  std::map<std::pair<int, int>, std::vector<Message*>>
      mailboxes;        // (from, to): sent, not yet taken
  std::string aborted;  // why; empty: not aborted
};

namespace {

// Rank r's part of `count` elements, as even as possible.
std::pair<std::int64_t, std::int64_t> share(std::int64_t count, int rank, int size) {
  return {count * rank / size, count * (rank + 1) / size};
}

// result(i) = sum over ranks of in[rank][i], for i in [begin, end), in the order of ranks.
template <class T, class Store>
void sum_over_ranks(const std::vector<ConstTensor>& in, std::int64_t begin, std::int64_t end,
                    const Store& store) {
  for (std::int64_t i = begin; i < end; ++i) {
    T sum = in[0].as<T>()[i];
    for (std::size_t rank = 1; rank < in.size(); ++rank) sum += in[rank].as<T>()[i];
    store(i, sum);
  }
}

void check_equal(const char* collective, std::int64_t a, std::int64_t b) {
  if (a != b)
    fail(Exit::internal, collective, ": ", a, " elements on one rank, ", b, " on another");
}

class InProcessGroup : public Group {
 public:
  using Hub = InProcess::Hub;
  InProcessGroup(Hub& hub, int rank) : Group(rank, hub.size), hub_(hub) {}

  Pending all_reduce(Tensor t) override {
    return start(t, t, [rank = rank(), size = size()](const Hub::Entry& entry) {
      const std::int64_t count = entry.in[0].numel();
      for (const ConstTensor& in : entry.in) check_equal("all_reduce", in.numel(), count);
      const auto [begin, end] = share(count, rank, size);
      with_float_type(entry.in[0].dtype(), [&, begin = begin, end = end]<class T>() {
        sum_over_ranks<T>(entry.in, begin, end, [&](std::int64_t i, T sum) {
          for (const Tensor& out : entry.out) out.as<T>()[i] = sum;
        });
      });
    });
  }

  Pending all_gather(Tensor out, ConstTensor in) override {
    return start(out, in, [out](const Hub::Entry& entry) {
      auto* to = static_cast<std::byte*>(out.data());
      check_equal("all_gather", out.numel(),
                  entry.in[0].numel() * static_cast<std::int64_t>(entry.in.size()));
      for (const ConstTensor& part : entry.in) {
        std::memcpy(to, part.data(), part.bytes());
        to += part.bytes();
      }
    });
  }

  Pending reduce_scatter(Tensor out, ConstTensor in) override {
    return start(out, in, [out, rank = rank(), size = size()](const Hub::Entry& entry) {
      const std::int64_t count = out.numel(), begin = count * rank;
      for (const ConstTensor& part : entry.in)
        check_equal("reduce_scatter", part.numel(), count * size);
      with_float_type(out.dtype(), [&]<class T>() {
        sum_over_ranks<T>(entry.in, begin, begin + count,
                          [&](std::int64_t i, T sum) { out.as<T>()[i - begin] = sum; });
      });
    });
  }

  Pending broadcast(Tensor t, int root) override {
    return start(t, t, [t, root, rank = rank()](const Hub::Entry& entry) {
      const ConstTensor& from = entry.in[static_cast<std::size_t>(root)];
      check_equal("broadcast", t.numel(), from.numel());
      if (rank != root) std::memcpy(t.data(), from.data(), t.bytes());
    });
  }

  // The receiver copies straight out of the sender's tensor, whose wait() ends when that is done.
  Pending send(ConstTensor t, int to) override {
    auto message = std::make_shared<Hub::Message>(Hub::Message{t});
    {
      const std::lock_guard lock(hub_.mutex);
      hub_.mailboxes[{rank(), to}].push_back(message.get());
      hub_.changed.notify_all();
    }
    return Pending([this, message] {
      std::unique_lock lock(hub_.mutex);
      hub_.await(lock, [&] { return message->taken; });
    });
  }

  Pending receive(Tensor t, int from) override {
    return Pending([this, t, from] {
      std::unique_lock lock(hub_.mutex);
      auto& mailbox = hub_.mailboxes[{from, rank()}];
      hub_.await(lock, [&] { return !mailbox.empty(); });
      Hub::Message* message = mailbox.front();
      check_equal("receive", t.numel(), message->tensor.numel());
      std::memcpy(t.data(), message->tensor.data(), t.bytes());
      mailbox.erase(mailbox.begin());
      message->taken = true;
      hub_.changed.notify_all();
    });
  }

  void barrier() override {
    start({}, {}, [](const Hub::Entry&) {}).wait();
  }

 private:
  template <class Work>
  Pending start(Tensor out, ConstTensor in, const Work& work) {
    const std::uint64_t number = next_++;
    hub_.post(number, rank(), out, in);
    return Pending([this, number, work] { hub_.finish(number, work); });
  }

  Hub& hub_;
  std::uint64_t next_ = 0;  // this rank's next collective
};

}  // namespace

InProcess::InProcess(int size) : hub_(std::make_unique<Hub>(size)) {}
InProcess::~InProcess() = default;

std::unique_ptr<Group> InProcess::make(int rank) {
  return std::make_unique<InProcessGroup>(*hub_, rank);
}

void InProcess::abort(const std::string& why) {
  const std::lock_guard lock(hub_->mutex);
  if (hub_->aborted.empty()) hub_->aborted = why;
  hub_->changed.notify_all();
}

}  // namespace mt
