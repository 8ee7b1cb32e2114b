// Where the optimizer's state of each row lies in files of the torch format.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "ckpt/strided_copy.h"
#include "model/model_rows.h"
#include "model/rank_files.h"
#include "model/rank_layout.h"
#include "model/rank_optimizer.h"

namespace mt {

// In the order in which the rank's model registered them; at the end a copy of tied embeddings.
std::vector<const Param*> RankFilesSource::rows_in(const Chunk& chunk,
                                                   std::int64_t tensor_rank) const {
  const ParamTable& table = parts_[static_cast<std::size_t>(tensor_rank)];
  std::map<std::string, const Param*> named;
  for (const Param& row : table.rows())
    if (&chunk_of(row) == &chunk) {
      const std::string name =
          chunk_name(row, layer_in(row.name) - chunk.first_layer, config_, counts_);
      named[name] = named[local_spec_name(name)] = &row;
    }
  std::vector<const Param*> rows;
  for (const std::string& name : chunk.names)
    if (const auto found = named.find(name); found != named.end())
      rows.push_back(found->second);
    else if (name == kTiedCopy)
      rows.push_back(&table.rows().front());
  return rows;
}

void RankFilesSource::find_states(const std::string& folder) {
  const std::string& where = files_[0].mapped.path();
  const PyValue* const optimizer = files_[0].reader.value().find("optimizer");
  if (optimizer == nullptr || optimizer->is_none()) return;
  const auto buffer_file = [&](std::int64_t rank, std::int64_t stage) {
    return concat(folder, "/", rank_folder(rank, stage, counts_), "/", kBufferFile);
  };
  const bool distributed = std::filesystem::exists(buffer_file(0, 0));
  common_.set_item("optimizer", common_optimizer(*optimizer, distributed, where));
  rank_states_.resize(files_.size());
  for (std::int64_t stage = 0; stage < counts_.stages; ++stage)
    for (std::int64_t rank = 0; rank < counts_.tensor; ++rank) {
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

void RankFilesSource::find_moments(std::int64_t tensor_rank, std::int64_t stage) {
  const RankFile& of = file(tensor_rank, stage);
  const std::string& where = of.mapped.path();
  std::vector<RankParam> params;
  for (const Chunk& chunk : chunks_)
    if (chunk.stage == stage)
      for (const Param* row : rows_in(chunk, tensor_rank)) params.push_back({row});
  find_rank_states(of.reader.value().at("optimizer", where), params, where);
  for (const RankParam& param : params)
    for (const auto& [state, value] : param.states) {
      if (!TorchReader::is_tensor(value) || state == "step") continue;
      const StoredTensor stored = of.reader.tensor(value);
      if (!(stored.shape == param.row->local) || !is_float(stored.dtype))
        fail(Exit::bad_data, where, ": optimizer: ", state, " of ", param.row->name, " is ",
             name_of(stored.dtype), stored.shape, ", expected floating-point numbers ",
             param.row->local);
      rank_states_[number(tensor_rank, stage)].insert_or_assign({param.row->index, state}, stored);
    }
}

// --- Flat buffers -------------------------------------------------------------------------------

// The one buffer of chunk `number` of a rank: {(dtype, dtype): {...}}.
static const PyValue& buffer_of(const PyValue& file, std::size_t number, const std::string& where) {
  if (!file.is(PyValue::Kind::dict))
    fail(Exit::bad_data, where, ": is ", name_of(file.kind()),
         ", expected the dict of one optimizer");
  const std::vector<PyValue>& entries = file.entries(where);
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
    if (!(entries[i] == PyValue(number))) continue;
    const std::vector<PyValue>& types = entries[i + 1].entries(where);
    if (types.size() != 2)
      fail(Exit::bad_data, where, ": buffer ", number, ": ", types.size() / 2,
           " pairs of types, expected 1");
    return types[1];
  }
  fail(Exit::bad_data, where, ": has no buffer ", number);
}

static StoredTensor slice(const StoredTensor& whole, std::int64_t start, const Shape& shape) {
  const std::size_t size = size_of(whole.dtype);
  return dense(whole.dtype, shape,
               whole.bytes.subspan(static_cast<std::size_t>(start) * size,
                                   static_cast<std::size_t>(shape.numel()) * size));
}

void RankFilesSource::find_buffers(std::int64_t tensor_rank, std::int64_t stage) {
  const RankFile& of = buffers_.back();
  const std::string& where = of.mapped.path();
  const PyValue& args = common_.at("args", where);
  States& states = rank_states_[number(tensor_rank, stage)];
  std::size_t buffer = 0;
  for (const Chunk& chunk : chunks_) {
    if (chunk.stage != stage) continue;
    const std::vector<const Param*> rows = rows_in(chunk, tensor_rank);
    if (rows.empty()) continue;
    const UnpaddedLayout layout =
        rank_buffer(buffer_params(rows, config_, counts_.stages),
                    buffer_rules(args, stage, static_cast<std::int64_t>(buffer), where));
    const PyValue& stored = buffer_of(of.reader.value(), buffer++, where);
    for (const auto& [name, state] :
         {std::pair("param", "fp32_param"), {"exp_avg", "exp_avg"}, {"exp_avg_sq", "exp_avg_sq"}}) {
      const StoredTensor whole = of.reader.tensor(stored.at(name, where));
      if (whole.shape.rank() != 1 || whole.shape[0] != layout.size || !whole.contiguous())
        fail(Exit::bad_data, where, ": ", name, " is ", whole.shape, ", expected [", layout.size,
             "]: was it written with other buckets than args say?");
      for (std::size_t i = 0; i < rows.size(); ++i)
        states.insert_or_assign({rows[i]->index, state},
                                slice(whole, layout.starts[i], rows[i]->local));
    }
  }
}

}  // namespace mt
