// MetaGroup: a group on `meta`.  Its collectives only count, on a stream, the messages of ring
// algorithms: all-reduce 2 (n-1)/n of the payload, the other collectives (n-1)/n.  Who wants to
// know which messages, and what is computed while they travel, is told when each begins and when it
// is waited for.
#pragma once

#include <string>
#include <vector>

#include "comm/group.h"

namespace mt {

// What a rank sends by one collective, or to one other rank.
struct Message {
  std::string group;              // MetaGroup::call(); of a group's parts the same
  const char* collective = "";    // "all_reduce", ..., "send"
  const std::vector<int>& ranks;  // among which it travels, by their numbers in the first group
  double bytes = 0;               // that leave this rank
};

class MessageWatch {
 public:
  virtual ~MessageWatch() = default;
  virtual std::size_t begin(const Message& message) = 0;  // returns its number
  virtual void wait(std::size_t number) = 0;
};

class MetaGroup final : public Group {
 public:
  // The first group, of `size` ranks.  A null `watch` is told nothing.
  MetaGroup(int rank, int size, Stream& stream, MessageWatch* watch);
  // Of those with these numbers in the first group.
  MetaGroup(int rank, std::vector<int> ranks, Stream& stream, MessageWatch* watch,
            Carries carries = Carries::numbers);

  void call(std::string name) { name_ = std::move(name); }

  Pending all_reduce(Tensor t, Reduction reduction) override;
  Pending all_gather(Tensor out, ConstTensor in) override;
  Pending reduce_scatter(Tensor out, ConstTensor in) override;
  Pending all_to_all(Tensor out, ConstTensor in) override;
  Pending broadcast(Tensor t, int root) override;
  Pending send(ConstTensor t, int to) override;
  Pending receive(Tensor, int) override { return {}; }
  void barrier() override {}
  using Group::split;
  std::unique_ptr<Group> split(const std::vector<int>& members, Carries carries) override;

 private:
  double ring(const ConstTensor& t) const;
  Pending count(const char* collective, const std::vector<int>& ranks, double bytes);

  std::string name_;
  std::vector<int> ranks_;
  Stream& stream_;
  MessageWatch* watch_;
};

}  // namespace mt
