// Packing: which texts share a sample of so many tokens.
//   none           each is a sample of its own
//   mffd           modified first fit decreasing, as NeMo RL packs (Johnson, Garey: A 71/60 theorem
//                  for bin packing, J. Complexity 1985)
//   bfd            best fit decreasing, as TRL packs: the longest first, each into the bin with the
//                  least room that suffices
//   knapsack       a bin takes the longest that fits, again and again
//   first_fit_decreasing   the longest first, each into the first bin that has room
//   concatenative  in order, into the last bin or else a new one
//   line           those of a line, as Megatron-LM's --sft has it: what is too much is cut
//   wrapped        one text of all, cut every so many tokens; labels and attention cross its parts
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mt {

enum class Packing : std::uint8_t {
  none,
  mffd,
  bfd,
  knapsack,
  first_fit_decreasing,
  concatenative,
  line,
  wrapped
};

std::vector<std::string> packing_names();
Packing packing_of(const std::string& name);
bool cuts_texts(const std::string& packing);  // so that parts of one may lie in several samples

// Tokens [begin, end) of a text.
struct Piece {
  std::size_t text = 0;
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
  bool operator==(const Piece&) const = default;
};
using Bin = std::vector<Piece>;

// Texts by their lengths, each 1 to `capacity`; of `wrapped`, of any length; `line` is not for it.
std::vector<Bin> pack(Packing how, std::span<const std::int64_t> lengths, std::int64_t capacity);
// Texts of any length, a bin for those of each line: lines[i], which do not descend, is text i's.
std::vector<Bin> pack_lines(std::span<const std::int64_t> lengths,
                            std::span<const std::int64_t> lines, std::int64_t capacity);

}  // namespace mt
