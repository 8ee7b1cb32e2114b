#include "retro/stage_blocks.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/folder.h"

namespace mt {

constexpr std::int64_t kAtATime = 4096;  // items

// Calls use(some) for parts of these items.
template <class Use>
static void in_parts(ItemRange items, const RunContext& context, const Use& use) {
  for (std::int64_t begin = items.begin; begin < items.end; begin += kAtATime) {
    context.checkpoint();
    use(ItemRange{begin, std::min(begin + kAtATime, items.end)});
  }
}

template <Hdf5Number T>
StageBlocks<T>::StageBlocks(StageFiles& files, StageLayout layout)
    : files_(files),
      layout_(std::move(layout)),
      blocks_(retro_blocks(layout_.items, layout_.block_size)) {}

template <Hdf5Number T>
void StageBlocks<T>::make(const StageShare& share, const RunContext& context, Progress& progress,
                          StageCounts& counts, const StageRows<T>& rows) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const RetroBlock& block = blocks_[i];
    if (!share.has(i)) {
      ++counts.left;
      continue;
    }
    if (files_.has(layout_.file(block), made_of(block), context.log)) {
      ++counts.found;
      progress.add(static_cast<std::uint64_t>(block.items.size()));
      continue;
    }
    make_folder(files_.path(layout_.folder));
    Hdf5Writer writer(files_.path(layout_.file(block)), true);
    writer.begin(layout_.array, {kHdf5Type<T>, block.items.size(), layout_.columns});
    in_parts(block.items, context, [&](ItemRange some) {
      writer.append(std::span<const T>(rows(some)));
      progress.add(static_cast<std::uint64_t>(some.size()));
    });
    files_.commit(writer, layout_.file(block), made_of(block));
    ++counts.made;
  }
}

template <Hdf5Number T>
std::int64_t compare_blocks(const std::string& folder, const StageLayout& layout,
                            std::int64_t every, const RunContext& context, Progress& progress,
                            const StageRows<T>& rows) {
  const std::vector<RetroBlock> blocks = retro_blocks(layout.items, layout.block_size);
  std::int64_t compared = 0;
  for (std::size_t i = 0; i < blocks.size(); i += static_cast<std::size_t>(every)) {
    const RetroBlock& block = blocks[i];
    const std::string path = folder + "/" + layout.file(block);
    if (!std::filesystem::exists(path)) continue;
    const Hdf5Reader reader(path);
    const std::int64_t count = reader.rows(layout.array, kHdf5Type<T>, layout.columns);
    if (count != block.items.size())
      fail(Exit::bad_data, path, ": ", layout.array, ": has ", count, " rows, expected ",
           block.items.size());
    in_parts(block.items, context, [&](ItemRange some) {
      const std::vector<T> now = rows(some);
      const std::vector<T> then =
          reader.read<T>(layout.array, some.begin - block.items.begin, some.size());
      const auto [a, b] = std::ranges::mismatch(now, then);
      if (a != now.end())
        fail(Exit::difference, path, ": ", layout.array, ": row ",
             some.begin - block.items.begin + (a - now.begin()) / layout.columns, ": has ", +*b,
             ", and ", +*a, " is made now");
      progress.add(static_cast<std::uint64_t>(some.size()));
    });
    ++compared;
  }
  return compared;
}

template <Hdf5Number T>
std::int64_t StageBlocks<T>::rows_of(double share, const RetroBlock& block) {
  return static_cast<std::int64_t>(share * static_cast<double>(block.items.size()));
}

template <Hdf5Number T>
std::int64_t StageBlocks<T>::rows(double share) const {
  std::int64_t all = 0;
  for (const RetroBlock& block : blocks_) all += rows_of(share, block);
  return all;
}

template <Hdf5Number T>
void StageBlocks<T>::read(double share, const RunContext& context,
                          const std::function<void(std::vector<T>, std::int64_t)>& use) const {
  for (const RetroBlock& block : blocks_) {
    const Hdf5Reader reader(files_.path(layout_.file(block)));
    reader.rows(layout_.array, kHdf5Type<T>, layout_.columns);
    in_parts({0, rows_of(share, block)}, context, [&](ItemRange some) {
      use(reader.read<T>(layout_.array, some.begin, some.size()), block.items.begin + some.begin);
    });
  }
}

template <Hdf5Number T>
void StageBlocks<T>::refuse_others() const {
  std::vector<std::string> names;
  for (const RetroBlock& block : blocks_) names.push_back(block.file);
  files_.refuse_others(layout_.folder, names);
}

template class StageBlocks<float>;
template class StageBlocks<std::uint8_t>;
template class StageBlocks<std::int64_t>;
template std::int64_t compare_blocks(const std::string&, const StageLayout&, std::int64_t,
                                     const RunContext&, Progress&, const StageRows<float>&);
template std::int64_t compare_blocks(const std::string&, const StageLayout&, std::int64_t,
                                     const RunContext&, Progress&, const StageRows<std::int64_t>&);

}  // namespace mt
