// Example: what a line of training data becomes: tokens, and which of them are learnt.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file_part.h"

namespace mt {

struct Example {
  std::vector<std::int32_t> ids;
  std::vector<bool> learnt;  // one a token
  std::string file = {};     // where it stands
  std::int64_t line = 0;     // from 1
  // The prompt alone gives other tokens than the text begins with, so that what a model is asked is
  // not what it has learnt to answer.
  bool prompt_differs = false;
  double value = 0;  // what its line says of it beside: JudgedText's
  // So many of the tokens, in front, are for an encoder to read; those behind are learnt, all.
  std::int64_t source = 0;
  std::vector<FilePart> images = {};     // that the tokens have places for, in their order
  std::vector<std::int64_t> tiles = {};  // of each of these (model/image_tiles.h)
  std::int64_t most_tiles = 0;  // that one of them may have, which may be fewer than the model's
  std::vector<std::int32_t> neighbors = {};  // of a Retro's text, as neighbor_input() has them

  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
  // Tokens that are learnt.  Nothing stands before the first token, so it cannot be.
  std::int64_t targets() const {
    return learnt.empty() ? 0 : std::count(learnt.begin() + 1, learnt.end(), true);
  }
};

}  // namespace mt
