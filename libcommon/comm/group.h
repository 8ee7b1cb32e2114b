// Group: one rank's end of a communicator (DESIGN D7).  Every rank of a group calls the same
// collectives in the same order, and for each pair of ranks sends and receives correspond in order;
// handles may be waited for in any order.  An operation starts when it is called and is complete
// when its handle was waited for; until then its tensors are not touched.  Sums are taken over
// ranks 0, 1, 2, …, so their bits do not depend on who came first.  When one rank fails, the
// others' next call or wait throws Exit::peer_failed.
//
// Each Group belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

enum class Reduction : std::uint8_t { sum, max };

// What a group is for, which says how much of a GPU's memory it is given.
enum class Carries : std::uint8_t {
  tensors,   // large ones, beside what is computed
  numbers,   // few, for which hosts wait at once
  messages,  // between two ranks, by send() and receive() alone
};

class Group {
 public:
  virtual ~Group() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }

  // t = the sum, or the largest, over ranks.
  [[nodiscard]] virtual Pending all_reduce(Tensor t, Reduction reduction) = 0;
  [[nodiscard]] Pending all_reduce(Tensor t) { return all_reduce(t, Reduction::sum); }
  // out: the ranks' `in`, one after another.
  [[nodiscard]] virtual Pending all_gather(Tensor out, ConstTensor in) = 0;
  // out: this rank's part of the sum of `in`.
  [[nodiscard]] virtual Pending reduce_scatter(Tensor out, ConstTensor in) = 0;
  // Part i of `in` goes to rank i; out: the parts for this rank, in the order of ranks.
  [[nodiscard]] virtual Pending all_to_all(Tensor out, ConstTensor in) = 0;
  // in[i] goes to rank i; out[i]: what comes from rank i, as large as that says.  What is empty
  // does not travel.
  [[nodiscard]] virtual Pending exchange(const std::vector<Tensor>& out,
                                         const std::vector<ConstTensor>& in);
  [[nodiscard]] virtual Pending broadcast(Tensor t, int root) = 0;
  [[nodiscard]] virtual Pending send(ConstTensor t, int to) = 0;
  [[nodiscard]] virtual Pending receive(Tensor t, int from) = 0;
  virtual void barrier() = 0;

  // All-gathers, and sums, by steps, beside which parts are computed: of `parts`, one for each
  // rank.  Every rank takes the same step, `ahead` from 1 to size() - 1, in its turn.
  //   gather_step   this rank's own part is there; the rank's so far before this one arrives
  //   scatter_step  the part of the rank so far after this one leaves; out: of the rank so far
  //                 before, that of this one
  [[nodiscard]] Pending gather_step(const Tensor& parts, int ahead);
  [[nodiscard]] Pending scatter_step(const Tensor& out, const ConstTensor& parts, int ahead);

  // `in` goes to the next rank, and the last one's to the first; out: the one's before, which has
  // it at the same place.
  [[nodiscard]] Pending pass_on(const Tensor& out, const ConstTensor& in) {
    return pass(out, in, in, 1);
  }

  // Whether from now on all_gather into `memory`, which is as large on every rank, and
  // reduce_scatter and pass_on of what lies at the same place of it on every rank take nothing of
  // what GPUs compute with.  Of sums of up to `at_once` bytes together that also holds while other
  // work is queued: the addends are added up when they are waited for, or when another sum's take
  // their place.  Every rank calls it in its turn among the collectives; `memory` must outlive the
  // group.
  virtual bool reach(const Tensor& memory, std::size_t at_once);
  bool reach(const Tensor& memory) { return reach(memory, 0); }

  // A group of some of the ranks, this one among them, numbered in this order.  Every rank of this
  // group calls it in its turn among the collectives, and the members name the same list.  They
  // fail together with this group, which must outlive it.  One of all the ranks in their order that
  // carries the same, but messages, may be this one by another name: operations of both have one
  // order, the same on every rank.
  virtual std::unique_ptr<Group> split(const std::vector<int>& members, Carries carries) = 0;
  std::unique_ptr<Group> split(const std::vector<int>& members) {
    return split(members, Carries::tensors);
  }

 protected:
  Group(int rank, int size, Carries carries) : rank_(rank), size_(size), carries_(carries) {}
  static int place_in(const std::vector<int>& members, int rank);  // Exit::internal if not there
  bool is_everyone(const std::vector<int>& members) const;         // in their order
  bool shares(const std::vector<int>& members, Carries carries) const {  // see split()
    return carries == carries_ && carries != Carries::messages && is_everyone(members);
  }
  // `in` goes to the rank `ahead` after this one; out: what comes from that before, which has it at
  // the place that `there` has on this rank.
  virtual Pending pass(Tensor out, ConstTensor in, ConstTensor there, int ahead);
  Carries carries() const { return carries_; }

 private:
  int rank_, size_;
  Carries carries_;
};

// The group of one: collectives do nothing.
std::unique_ptr<Group> make_single_group();

// A group of `size` on `meta`, seen from `rank`: collectives only count, on `stream`, the messages
// of ring algorithms: all-reduce 2 (n-1)/n of the payload, the other collectives (n-1)/n.
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
