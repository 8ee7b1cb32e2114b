#include "comm/meta_group.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/peer_copies.h"

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

MetaGroup::MetaGroup(int rank, std::vector<int> ranks, Stream& stream, MessageWatch* watch)
    : Group(rank, static_cast<int>(ranks.size()), Carries::numbers),
      ranks_(std::move(ranks)),
      stream_(stream),
      watch_(watch),
      hosts_(watch == nullptr ? 0 : watch->hosts(ranks_)),
      taken_(std::make_shared<Taken>()) {
  if (size() > 1) own_ = talks_by_ = &taken_->nccl.add(carries());
}

MetaGroup::MetaGroup(const MetaGroup& whole, const std::vector<int>& members, Carries carries)
    : Group(place_in(members, whole.rank()), static_cast<int>(members.size()), carries),
      name_(whole.name_),
      stream_(whole.stream_),
      watch_(whole.watch_),
      taken_(whole.taken_) {
  for (const int member : members)
    ranks_.push_back(whole.ranks_.at(static_cast<std::size_t>(member)));
  if (watch_ != nullptr) hosts_ = watch_->hosts(ranks_);
  if (size() == 1) return;
  own_ = whole.shares(members, carries) ? whole.own_ : &taken_->nccl.add(carries);
  talks_by_ = whole.is_everyone(members) ? whole.own_ : own_;
}

Pending MetaGroup::all_reduce(Tensor t, Reduction) {
  const By by = PeerCopies::is_little(t) && are_peers() ? By::copies : By::collectives;
  return count("all_reduce", by, 2 * ring(t));
}
Pending MetaGroup::all_gather(Tensor out, ConstTensor) {
  return count("all_gather", by(out, By::collectives), ring(out));
}
Pending MetaGroup::reduce_scatter(Tensor out, ConstTensor in) {
  const By how = by(in, By::collectives);
  if (how == By::copies) stream_.count(PeerCopies::cost_of_sum(out, size()), Family::elementwise);
  return count("reduce_scatter", how, ring(in));
}
Pending MetaGroup::all_to_all(Tensor, ConstTensor in) {
  return count("all_to_all", By::messages, ring(in));
}
Pending MetaGroup::broadcast(Tensor t, int) { return count("broadcast", By::collectives, ring(t)); }
Pending MetaGroup::send(ConstTensor t, int to) { return send(t, to, By::messages); }
Pending MetaGroup::pass(Tensor, ConstTensor in, ConstTensor there, int ahead) {
  return send(in, (rank() + ahead) % size(), by(there, By::messages));
}
Pending MetaGroup::send(const ConstTensor& t, int to, By by) {
  const auto number = [&](int rank) { return ranks_[static_cast<std::size_t>(rank)]; };
  return count(by, {.group = name_,
                    .collective = "send",
                    .ranks = 2,
                    .hosts = watch_ == nullptr ? 0 : watch_->hosts({number(rank()), number(to)}),
                    .bytes = static_cast<double>(t.bytes())});
}

bool MetaGroup::are_peers() {
  if (size() == 1 || size() > PeerCopies::kMost || hosts_ != 1) return false;
  talks_by_->collectives = true;
  return true;
}

bool MetaGroup::reach(const Tensor& memory, std::size_t at_once) {
  if (!are_peers()) return false;
  reached_.push_back(memory);
  const std::size_t stage =
      std::max(stage_, PeerCopies::stage_bytes(memory.bytes(), at_once, size()));
  taken_->copies += stage - std::exchange(stage_, stage);
  return true;
}

// Copies within what is reached.
MetaGroup::By MetaGroup::by(const ConstTensor& all, By otherwise) const {
  const auto* const begin = static_cast<const std::byte*>(all.data());
  const bool reached = std::ranges::any_of(reached_, [&](const Tensor& memory) {
    const auto* const first = static_cast<const std::byte*>(memory.data());
    return begin >= first && begin + all.bytes() <= first + memory.bytes();
  });
  return reached ? By::copies : otherwise;
}

std::unique_ptr<Group> MetaGroup::split(const std::vector<int>& members, Carries carries) {
  return std::make_unique<MetaGroup>(*this, members, carries);
}

double MetaGroup::ring(const ConstTensor& t) const {
  return static_cast<double>(t.bytes()) * (size() - 1) / size();
}

Pending MetaGroup::count(const char* collective, By by, double bytes) {
  return count(
      by,
      {.group = name_, .collective = collective, .ranks = size(), .hosts = hosts_, .bytes = bytes});
}

Pending MetaGroup::count(By by, const Message& message) {
  if (size() == 1) return {};
  if (by == By::collectives) own_->collectives = true;
  if (by == By::messages) own_->messages = true;
  stream_.count({.message_bytes = message.bytes, .messages = 1}, Family::communication);
  if (watch_ == nullptr) return {};
  return Pending(std::make_unique<Watched>(*watch_, watch_->begin(message)));
}

std::unique_ptr<Group> make_meta_group(int rank, int size, Stream& stream) {
  return std::make_unique<MetaGroup>(rank, size, stream, nullptr);
}

}  // namespace mt
