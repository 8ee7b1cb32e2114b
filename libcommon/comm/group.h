// Group: one rank's end of a communicator (DESIGN D7).  Every rank of a group calls the same
// collectives in the same order, and for each pair of ranks sends and receives correspond in order;
// handles may be waited for in any order.  An operation starts when it is called and is complete
// when its handle was waited for; until then its tensors are not touched.  Sums are taken over
// ranks 0, 1, 2, …, so their bits do not depend on who came first.  When one rank fails, the
// others' next call or wait throws Exit::peer_failed.
//
// Each Group belongs to one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// A collective or message under way.  Wait for it exactly once.  Dropping it before, as an
// exception does, aborts the group, and returns when nobody works on its tensors any more.
class Pending {
 public:
  struct Operation {
    virtual ~Operation() = default;
    virtual void wait() = 0;
  };
  Pending() = default;  // complete
  explicit Pending(std::unique_ptr<Operation> operation) : operation_(std::move(operation)) {}
  void wait() {
    if (const auto operation = std::exchange(operation_, nullptr)) operation->wait();
  }

 private:
  std::unique_ptr<Operation> operation_;
};

class Group {
 public:
  virtual ~Group() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }

  [[nodiscard]] virtual Pending all_reduce(Tensor t) = 0;  // t = sum over ranks
  // out: the ranks' `in`, one after another.
  [[nodiscard]] virtual Pending all_gather(Tensor out, ConstTensor in) = 0;
  // out: this rank's part of the sum of `in`.
  [[nodiscard]] virtual Pending reduce_scatter(Tensor out, ConstTensor in) = 0;
  [[nodiscard]] virtual Pending broadcast(Tensor t, int root) = 0;
  [[nodiscard]] virtual Pending send(ConstTensor t, int to) = 0;
  [[nodiscard]] virtual Pending receive(Tensor t, int from) = 0;
  virtual void barrier() = 0;

 protected:
  Group(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_, size_;
};

// The group of one: collectives do nothing.
std::unique_ptr<Group> make_single_group();

// A group of `size` on `meta`, seen from `rank`: collectives only count, on `stream`, the messages
// of ring algorithms: all-reduce 2 (n-1)/n of the payload, all-gather and reduce-scatter (n-1)/n.
std::unique_ptr<Group> make_meta_group(int rank, int size, Stream& stream);

// Ranks as threads of this process, over host memory; who joins an operation last carries it out.
// make() gives rank r's end; abort() makes every later call and wait of every rank throw, `why` in
// its text.
class InProcess {
 public:
  struct Hub;  // what the ranks share
  explicit InProcess(int size);
  ~InProcess();
  std::unique_ptr<Group> make(int rank);
  void abort(const std::string& why);

 private:
  std::unique_ptr<Hub> hub_;
};

// Runs body(group) on `size` threads, one a rank, and returns when all have ended.  A rank that
// throws aborts the others; the first exception that is not such an abort is thrown here.  The only
// rank of a group of one runs in the calling thread.
void run_ranks(int size, const std::function<void(Group&)>& body);

}  // namespace mt
