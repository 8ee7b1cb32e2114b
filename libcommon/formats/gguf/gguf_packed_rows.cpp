#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/threads.h"
#include "formats/gguf/gguf_source.h"
#include "kernels/packed_rows.h"

namespace mt {

static std::optional<BlockType> block_type(std::string_view name) {
  constexpr std::pair<std::string_view, BlockType> kTypes[] = {
      {"q4_0", BlockType::q4_0}, {"q4_1", BlockType::q4_1}, {"q5_0", BlockType::q5_0},
      {"q5_1", BlockType::q5_1}, {"q8_0", BlockType::q8_0}, {"q4_k", BlockType::q4_k},
      {"q5_k", BlockType::q5_k}, {"q6_k", BlockType::q6_k}, {"mxfp4", BlockType::mxfp4}};
  const auto* const found = std::ranges::find(kTypes, name, [](const auto& t) { return t.first; });
  return found == std::end(kTypes) ? std::nullopt : std::optional(found->second);
}

std::optional<GgufSource::StoredBlocks> GgufSource::stored_blocks_of(
    const DistTensor& tensor) const {
  const std::optional<BlockType> type = block_type(tensor.dtype_name);
  return type ? std::optional(StoredBlocks{*type}) : std::nullopt;
}

void GgufSource::read_blocks(const Param& row, std::uint8_t* packed) const {
  const std::vector<RowPlaceInFile> places = places_of(row);
  const auto& file = static_cast<const GgufReader&>(*tensors_);
  const PackedRows rows(packed);
  std::int64_t first = 0;
  for (const PackedRows::Run& run : rows.runs()) {
    const std::int64_t bytes = rows.row_bytes(run), begin = std::exchange(first, run.end);
    parallel_for_ordered_errors(run.end - begin, [&](std::int64_t i) {
      const RowPlaceInFile& place = places[static_cast<std::size_t>(begin + i)];
      std::uint8_t* const to = packed + run.offset + i * bytes;
      if (place.tensor == nullptr) return static_cast<void>(std::memset(to, 0, bytes));
      const Bytes blocks = file.blocks_of_row(*place.tensor, place.row);
      std::memcpy(to, blocks.data(), blocks.size());
    });
  }
  // All of a tensor's at once: most rows are shorter than a page.
  std::map<const DistTensor*, std::pair<std::int64_t, std::int64_t>> read;
  for (const RowPlaceInFile& place : places) {
    if (place.tensor == nullptr) continue;
    auto& [begin, end] = read.try_emplace(place.tensor, place.row, place.row + 1).first->second;
    begin = std::min(begin, place.row);
    end = std::max(end, place.row + 1);
  }
  for (const auto& [tensor, span] : read) file.forget_rows(*tensor, span.first, span.second);
}

}  // namespace mt
