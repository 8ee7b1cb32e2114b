// ExpertChoices: the experts that training's routers choose for each token, kept as they choose, or
// imposed on them: weights are then those of the router's scores of the imposed experts (Megatron-
// LM's router replay; Ma et al.: arXiv:2510.11370).  A text, a sequence of the run's samples, has a
// number of its own, so whatever ranks share it, and in whatever micro-batch, it finds the same.
// Ranks that are threads of a process share one of these; those that are processes have their own,
// with what they chose.  It is on the host: a GPU's work is not captured with it.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "nn/step.h"

namespace mt {

class ExpertChoices {
 public:
  struct Place {
    std::int64_t text = 0, layer = 0;  // a layer as of Mlp
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  // Each token of a text has its experts here, ascending; -1 for tokens that other processes' ranks
  // have.
  using Experts = std::vector<std::int32_t>;
  using All = std::map<Place, Experts>;

  // keeps: what routers choose, for take_before().  imposed: what they are to choose, if anything;
  // `from` is what errors name.
  ExpertChoices(bool keeps, All imposed, std::string from)
      : keeps_(keeps), imposed_(std::move(imposed)), from_(std::move(from)) {}

  bool imposes() const { return !imposed_.empty(); }
  std::size_t imposed_bytes() const;
  // Keeps what a layer's router chose for this rank's rows: expert: [rows, chosen] i32.
  void keep(Step& s, std::int64_t layer, ConstTensor expert);
  // What is imposed on this rank's rows.  Exit::bad_data where nothing is imposed on one of the
  // texts, or another number of tokens or of experts of each.
  void put(Step& s, std::int64_t layer, Tensor expert) const;
  // Takes out what was kept of texts before this one, by texts and layers.
  All take_before(std::int64_t text);
  // Gives rank 0's `take` what all ranks that have one of these kept of such texts, by texts: a few
  // of them at a time, of which the experts take some MiB, or one that takes more.
  void gather_before(std::int64_t text, Group& ranks, const std::function<void(const All&)>& take);

 private:
  std::int64_t end_of_part(std::int64_t text, std::int64_t most);

  bool keeps_;
  All imposed_;
  std::string from_;
  std::mutex mutex_;
  All kept_;
};

}  // namespace mt
