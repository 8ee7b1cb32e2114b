#include "comm/meta_group.h"

#include <numeric>

namespace mt {
namespace {

class Watched final : public Pending::Operation {
 public:
  Watched(MessageWatch& watch, std::size_t number) : watch_(watch), number_(number) {}
  void wait() override { watch_.wait(number_); }

 private:
  MessageWatch& watch_;
  std::size_t number_;
};

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

MetaGroup::MetaGroup(int rank, int size, Stream& stream, MessageWatch* watch)
    : MetaGroup(rank, all_ranks(size), stream, watch) {}

MetaGroup::MetaGroup(int rank, std::vector<int> ranks, Stream& stream, MessageWatch* watch,
                     Carries carries)
    : Group(rank, static_cast<int>(ranks.size()), carries),
      ranks_(std::move(ranks)),
      stream_(stream),
      watch_(watch) {}

Pending MetaGroup::all_reduce(Tensor t, Reduction) {
  return count("all_reduce", ranks_, 2 * ring(t));
}
Pending MetaGroup::all_gather(Tensor out, ConstTensor) {
  return count("all_gather", ranks_, ring(out));
}
Pending MetaGroup::reduce_scatter(Tensor, ConstTensor in) {
  return count("reduce_scatter", ranks_, ring(in));
}
Pending MetaGroup::all_to_all(Tensor, ConstTensor in) {
  return count("all_to_all", ranks_, ring(in));
}
Pending MetaGroup::broadcast(Tensor t, int) { return count("broadcast", ranks_, ring(t)); }
Pending MetaGroup::send(ConstTensor t, int to) {
  const auto number = [&](int rank) { return ranks_[static_cast<std::size_t>(rank)]; };
  return count("send", {number(rank()), number(to)}, static_cast<double>(t.bytes()));
}

std::unique_ptr<Group> MetaGroup::split(const std::vector<int>& members, Carries carries) {
  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(ranks_.at(static_cast<std::size_t>(member)));
  auto part = std::make_unique<MetaGroup>(place_in(members, rank()), std::move(ranks), stream_,
                                          watch_, carries);
  part->call(name_);
  return part;
}

double MetaGroup::ring(const ConstTensor& t) const {
  return static_cast<double>(t.bytes()) * (size() - 1) / size();
}

Pending MetaGroup::count(const char* collective, const std::vector<int>& ranks, double bytes) {
  if (size() == 1) return {};
  stream_.count({.message_bytes = bytes, .messages = 1}, Family::communication);
  if (watch_ == nullptr) return {};
  const std::size_t number =
      watch_->begin({.group = name_, .collective = collective, .ranks = ranks, .bytes = bytes});
  return Pending(std::make_unique<Watched>(*watch_, number));
}

std::unique_ptr<Group> make_meta_group(int rank, int size, Stream& stream) {
  return std::make_unique<MetaGroup>(rank, size, stream, nullptr);
}

}  // namespace mt
