// Which rows of a model lie in blocks, and these.
#include <algorithm>
#include <cstring>
#include <map>

#include "base/threads.h"
#include "formats/hugging_face/hugging_face_source.h"
#include "formats/hugging_face/packed_tensors.h"
#include "kernels/packed_rows.h"

namespace mt {

// Whether rows stay as they are, wherever they come to lie.
static bool moves_rows(const Transform& transform) {
  return std::ranges::all_of(transform, [](const Rearrange& step) {
    return step.kind == Rearrange::Kind::rows || step.kind == Rearrange::Kind::sort ||
           step.kind == Rearrange::Kind::swap || step.kind == Rearrange::Kind::exchange;
  });
}

// Rows of the vocabulary behind the file's are of its type, too, and of no tensor.
std::vector<HuggingFaceSource::RowPlaceInFile> HuggingFaceSource::places_of(
    const Param& row) const {
  if (row.shape.rank() != 2) return {};
  std::vector<RowPlaceInFile> places(static_cast<std::size_t>(row.shape[0]));
  std::vector<std::int32_t> numbers(places.size());
  for (const ForeignName& name : names_of(row)) {
    const DistTensor& tensor = stored(row, name);
    const std::optional<StoredBlocks> blocks = stored_blocks_of(tensor);
    const Shape theirs = tensor.shape;
    if (!blocks || theirs.rank() != (name.parts > 0 ? 3 : 2)) return {};
    Transform transform = name.transform;
    if (blocks->of_columns) {
      if (transform.empty() || transform.back().kind != Rearrange::Kind::transpose) return {};
      transform.pop_back();
    }
    if (!moves_rows(transform)) return {};
    const std::int64_t count = theirs[blocks->of_columns ? -1 : -2], first = name.part * count;
    std::vector<std::int32_t> own(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<std::int32_t>(i);
    std::ranges::fill(numbers, -1);
    const auto ours = row.is_vocabulary() ? count : row.shape[0];
    if (ours > row.shape[0]) return {};
    apply_inverse(transform, {numbers.data(), DType::i32, {ours, 1}},
                  {own.data(), DType::i32, {count, 1}});
    for (std::size_t i = 0; i < places.size(); ++i)
      if (numbers[i] >= 0 || row.is_vocabulary())
        places[i] = {numbers[i] >= 0 ? &tensor : nullptr, first + numbers[i], blocks->type};
  }
  const bool all = std::ranges::all_of(places, [](const auto& p) { return p.type.has_value(); });
  return all ? places : std::vector<RowPlaceInFile>();
}

std::vector<BlockType> HuggingFaceSource::block_types(const Param& row) const {
  std::vector<BlockType> types;
  for (const RowPlaceInFile& place : places_of(row)) types.push_back(*place.type);
  return types;
}

std::optional<HuggingFaceSource::StoredBlocks> HuggingFaceSource::stored_blocks_of(
    const DistTensor& tensor) const {
  const auto* const packed = dynamic_cast<const PackedTensors*>(tensors_.get());
  const PackedWeight* const weight = packed != nullptr ? packed->find_packed(tensor.key) : nullptr;
  if (weight == nullptr || !weight->block) return {};
  return StoredBlocks{*weight->block, weight->of_columns};
}

// Some rows of a tensor at a time, as those that are stored by columns are read together.
void HuggingFaceSource::read_blocks(const Param& row, std::uint8_t* packed) const {
  constexpr std::int64_t kTogether = 64;
  const std::vector<RowPlaceInFile> places = places_of(row);
  const PackedRows rows(packed);
  std::map<const DistTensor*, std::vector<std::uint8_t*>> to;  // where its rows go
  std::int64_t first = 0;
  for (const PackedRows::Run& run : rows.runs()) {
    for (std::int64_t i = first; i < run.end; ++i) {
      const RowPlaceInFile& place = places[static_cast<std::size_t>(i)];
      std::uint8_t* const at = packed + run.offset + (i - first) * rows.row_bytes(run);
      if (place.tensor == nullptr) {
        std::memset(at, 0, static_cast<std::size_t>(rows.row_bytes(run)));
        continue;
      }
      auto& all = to[place.tensor];
      all.resize(static_cast<std::size_t>(place.tensor->shape.numel() / rows.cols()));
      all[static_cast<std::size_t>(place.row)] = at;
    }
    first = run.end;
  }
  for (const auto& [tensor, all] : to) {
    const PackedWeight& weight =
        *static_cast<const PackedTensors&>(*tensors_).find_packed(tensor->key);
    const std::int64_t bytes = PackedRows::row_bytes(*weight.block, rows.cols());
    parallel_for_ordered_errors((std::ssize(all) + kTogether - 1) / kTogether, [&](std::int64_t i) {
      const std::int64_t begin = i * kTogether, end = std::min(std::ssize(all), begin + kTogether);
      std::vector<std::uint8_t> blocks(static_cast<std::size_t>((end - begin) * bytes));
      weight.blocks(begin, end, blocks.data());
      for (std::int64_t r = begin; r < end; ++r)
        if (std::uint8_t* const at = all[static_cast<std::size_t>(r)])
          std::memcpy(at, blocks.data() + (r - begin) * bytes, static_cast<std::size_t>(bytes));
    });
  }
}

}  // namespace mt
