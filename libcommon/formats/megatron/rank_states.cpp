// Where the optimizer's state of each row lies in files of the torch format.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "ckpt/strided_copy.h"
#include "formats/megatron/rank_files.h"
#include "formats/megatron/rank_optimizer.h"

namespace mt {

// The rows of an optimizer, in the order in which the rank's model registered them, copies of the
// words among them.
std::vector<ParamRows> RankFilesSource::rows_in(const Chunk& chunk, std::int64_t rank,
                                                std::size_t optimizer) const {
  const std::int64_t expert_rank = rank / counts_.tensor;
  const ParamTable& table = parts_[static_cast<std::size_t>(rank % counts_.tensor)];
  std::map<std::string, ParamRows> named;
  for (const Param& row : table.rows())
    if (chunk.at.has(row) && !row.is_buffer && optimizer_of(row, counts_.expert) == optimizer &&
        expert_rank_of(row, *config_, counts_).value_or(expert_rank) == expert_rank)
      for (const RowTensor& tensor : tensors_of(place_in(chunk, row))) {
        ParamRows& param = named[tensor.name];
        param.rows.push_back(&row);
        param.transposed = tensor.transposed;
      }
  const auto name_words = [&](const RowPlace& copy) {
    for (const RowTensor& tensor : tensors_of(copy))
      named.try_emplace(tensor.name, ParamRows{{&table.rows().front()}});
  };
  if (chunk.at.has_words_copy() && optimizer == 0) name_words(table.rows().front().place);
  if (chunk.at.has_tied_copy() && optimizer == 0) name_words(tied_copy(*config_));
  std::vector<ParamRows> params;
  for (const std::string& name : chunk.names)
    if (const auto found = named.find(name); found != named.end()) params.push_back(found->second);
  return params;
}

// A rank's, each with parameters of its own.
static std::vector<PyValue> rank_optimizers(const PyValue& stored, std::int64_t expert_ranks,
                                            const std::string& where) {
  std::vector<PyValue> optimizers = chained_optimizers(stored, where);
  if (const std::size_t count = optimizer_count(expert_ranks); optimizers.size() != count)
    fail(Exit::bad_data, where, ": optimizer: ", optimizers.size(),
         " with args.expert_model_parallel_size ", expert_ranks, ", expected ", count);
  return optimizers;
}

void RankFilesSource::find_states(const std::string& folder) {
  const std::string& where = files_[0].mapped.path();
  const PyValue* const optimizer = files_[0].reader.value().find("optimizer");
  if (optimizer == nullptr || optimizer->is_none()) return;
  const auto buffer_file = [&](std::int64_t rank, std::int64_t stage) {
    return concat(folder, "/", rank_folder(rank, stage, counts_), "/", kBufferFile);
  };
  const bool distributed = std::filesystem::exists(buffer_file(0, 0));
  std::vector<PyValue> common;
  for (const PyValue& own : rank_optimizers(*optimizer, counts_.expert, where))
    common.push_back(common_optimizer(own, distributed, where));
  common_.set_item("optimizer", as_chain(common));
  rank_states_.resize(files_.size());
  for (std::int64_t stage = 0; stage < counts_.stages; ++stage)
    for (std::int64_t rank = 0; rank < counts_.of_stage(); ++rank) {
      if (distributed) {
        buffers_.emplace_back(buffer_file(rank, stage));
        find_buffers(rank, stage);
      } else {
        find_moments(rank, stage);
      }
    }
  for (const auto& [key, tensor] : rank_states_[0])
    if (std::find(states_.begin(), states_.end(), key.second) == states_.end())
      states_.push_back(key.second);
}

// --- One tensor a parameter ---------------------------------------------------------------------

void RankFilesSource::find_moments(std::int64_t rank, std::int64_t stage) {
  const RankFile& of = file(rank, stage);
  const std::string& where = of.mapped.path();
  const std::vector<PyValue> optimizers =
      rank_optimizers(of.reader.value().at("optimizer", where), counts_.expert, where);
  States& states = rank_states_[number(rank, stage)];
  const auto take = [&](const ParamRows& param, std::size_t i, const std::string& state,
                        const StoredTensor& whole) {
    const Param& row = *param.rows[i];
    const StoredTensor stored =
        param.transposed ? expert_part(whole, i, param.rows.size(), row.local) : whole;
    if (!(stored.shape == row.local) || !is_float(stored.dtype))
      fail(Exit::bad_data, where, ": optimizer: ", state, " of ", row.name(), " is ",
           name_of(stored.dtype), stored.shape, ", expected floating-point numbers ", row.local);
    states.insert_or_assign({row.index, state}, stored);
  };
  for (std::size_t optimizer = 0; optimizer < optimizers.size(); ++optimizer) {
    std::vector<ParamRows> rows;
    for (const Chunk& chunk : chunks_)
      if (chunk.stage == stage)
        for (ParamRows& param : rows_in(chunk, rank, optimizer)) rows.push_back(std::move(param));
    std::vector<RankParam> params;
    for (const ParamRows& param : rows) params.push_back({&param.first()});
    find_rank_states(optimizers[optimizer], params, where);
    for (std::size_t p = 0; p < params.size(); ++p)
      for (const auto& [state, value] : params[p].states)
        if (TorchReader::is_tensor(value) && state != "step")
          for (std::size_t i = 0; i < rows[p].rows.size(); ++i)
            take(rows[p], i, state, of.reader.tensor(value));
  }
}

// --- Flat buffers -------------------------------------------------------------------------------

static StoredTensor slice(const StoredTensor& whole, std::int64_t start, const Shape& shape) {
  const std::size_t size = size_of(whole.dtype);
  return dense(whole.dtype, shape,
               whole.bytes.subspan(static_cast<std::size_t>(start) * size,
                                   static_cast<std::size_t>(shape.numel()) * size));
}

void RankFilesSource::find_buffers(std::int64_t rank, std::int64_t stage) {
  const RankFile& of = buffers_.back();
  const std::string& where = of.mapped.path();
  const std::size_t count = optimizer_count(counts_.expert);
  if (count == 1) return find_buffers(of.reader.value(), 0, rank, stage);
  const std::vector<PyValue>& optimizers = of.reader.value().as_items(where);
  if (optimizers.size() != count)
    fail(Exit::bad_data, where, ": a list of ", optimizers.size(), ", expected ", count,
         " optimizers");
  for (std::size_t i = 0; i < count; ++i)
    if (!optimizers[i].is_none()) find_buffers(optimizers[i], i, rank, stage);
}

void RankFilesSource::find_buffers(const PyValue& stored, std::size_t optimizer, std::int64_t rank,
                                   std::int64_t stage) {
  const RankFile& of = buffers_.back();
  const std::string& where = of.mapped.path();
  const PyValue& args = common_.at("args", where);
  States& states = rank_states_[number(rank, stage)];
  std::size_t buffer = 0;
  for (const Chunk& chunk : chunks_) {
    if (chunk.stage != stage) continue;
    const std::vector<ParamRows> params = rows_in(chunk, rank, optimizer);
    if (params.empty()) continue;
    const UnpaddedLayout layout =
        rank_buffer(buffer_params(params, *config_, chunk.at, counts_.stages),
                    buffer_rules(args, stage, static_cast<std::int64_t>(buffer), where));
    for (const auto& [state, whole] :
         buffer_states(stored, buffer++, of.reader, layout.size, where)) {
      for (std::size_t p = 0; p < params.size(); ++p) {
        const auto& [rows, transposed] = params[p];
        const StoredTensor values = slice(whole, layout.starts[p], {params[p].elements()});
        for (std::size_t i = 0; i < rows.size(); ++i)
          states.insert_or_assign({rows[i]->index, state},
                                  transposed ? expert_part(values, i, rows.size(), rows[i]->local)
                                             : slice(values, 0, rows[i]->local));
      }
    }
  }
}

}  // namespace mt
