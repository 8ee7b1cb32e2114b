// MetaGroup: a group on `meta`.  Its collectives only count, on a stream, the messages of ring
// algorithms: all-reduce 2 (n-1)/n of the payload, the other collectives (n-1)/n.  Who wants to
// know which messages, and what is computed while they travel, is told when each begins and when it
// is waited for.  What NCCL and copies among GPUs would take of a GPU's memory is counted too.
#pragma once

#include <string>
#include <vector>

#include "comm/group.h"
#include "comm/nccl_memory.h"

namespace mt {

// What a rank sends by one collective, or to one other rank.
struct Message {
  std::string group;            // MetaGroup::call(); of a group's parts the same
  const char* collective = "";  // "all_reduce", ..., "send"
  int ranks = 0, hosts = 1;     // among which it travels
  double bytes = 0;             // that leave this rank
};

class MessageWatch {
 public:
  virtual ~MessageWatch() = default;
  virtual std::size_t begin(const Message& message) = 0;  // returns its number
  virtual void wait(std::size_t number) = 0;
  // Which ranks lie on, by their numbers in the first group; those of a host stand together.
  virtual int hosts(const std::vector<int>& ranks) const = 0;
};

class MetaGroup final : public Group {
 public:
  // The first group, of `size` ranks.  A null `watch` is told nothing.
  MetaGroup(int rank, int size, Stream& stream, MessageWatch* watch);
  // The first group where its ranks have these numbers.
  MetaGroup(int rank, std::vector<int> ranks, Stream& stream, MessageWatch* watch);
  // The group that split() makes of another.
  MetaGroup(const MetaGroup& whole, const std::vector<int>& members, Carries carries);

  void call(std::string name) { name_ = std::move(name); }
  // It also carries collectives that are not counted here, whose memory is.
  void carries_others() {
    if (own_ != nullptr) own_->collectives = true;
  }

  Pending all_reduce(Tensor t, Reduction reduction) override;
  Pending all_gather(Tensor out, ConstTensor in) override;
  Pending reduce_scatter(Tensor out, ConstTensor in) override;
  Pending all_to_all(Tensor out, ConstTensor in) override;
  Pending broadcast(Tensor t, int root) override;
  Pending send(ConstTensor t, int to) override;
  Pending receive(Tensor, int) override { return {}; }
  Pending pass(Tensor out, ConstTensor in, ConstTensor there, int ahead) override;
  void barrier() override {}
  using Group::reach;
  bool reach(const Tensor& memory, std::size_t at_once) override;
  using Group::split;
  std::unique_ptr<Group> split(const std::vector<int>& members, Carries carries) override;

  // Bytes of a GPU that all groups split from the first one take so far.
  std::size_t nccl_bytes() const { return taken_->nccl.bytes(); }
  std::size_t copies_bytes() const { return taken_->copies; }

 private:
  struct Taken {
    NcclMemory nccl;
    std::size_t copies = 0;
  };
  enum class By : std::uint8_t { collectives, messages, copies };

  double ring(const ConstTensor& t) const;
  bool are_peers();  // whether they reach one another's memory, of which they then tell
  Pending send(const ConstTensor& t, int to, By by);
  Pending count(const char* collective, By by, double bytes);
  Pending count(By by, const Message& message);
  By by(const ConstTensor& all, By otherwise) const;

  std::string name_;
  std::vector<int> ranks_;
  Stream& stream_;
  MessageWatch* watch_;
  int hosts_ = 0;  // 0: nobody says
  std::shared_ptr<Taken> taken_;
  // Null: of one rank.  By the second, ranks tell one another of memory that they reach.
  NcclMemory::Communicator *own_ = nullptr, *talks_by_ = nullptr;
  std::vector<Tensor> reached_;
  std::size_t stage_ = 0;  // bytes
};

}  // namespace mt
