#include "model/core_source.h"

#include <algorithm>
#include <filesystem>

#include "model/gpt_checkpoint.h"

namespace mt {

constexpr std::string_view kState = "optimizer.state.";

std::string state_prefix(const std::string& state) {
  return state.empty() ? "" : concat(kState, state, ".");
}

PyValue with_vocabulary(const PyValue& args, std::optional<std::int64_t> given,
                        const std::string& where) {
  const PyValue* stored = args.find("vocab_size");
  if (stored != nullptr && !stored->is_none() && !given) return args;
  PyValue known = PyValue::dict();
  const std::vector<PyValue>& entries = args.entries(where);
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
    if (!(entries[i] == PyValue("vocab_size"))) known.set_item(entries[i], entries[i + 1]);
  known.set_item("vocab_size", given ? PyValue(*given) : args.at("padded_vocab_size", where));
  return known;
}

CoreSource::CoreSource(const std::string& folder, const ModelSourceOptions& options)
    : checkpoint_(folder, {.while_reading = options.check_while_reading}) {
  path_ = folder;
  format_ = "torch_dist";
  const std::string where = folder + ": common.pt";
  const PyValue& args = checkpoint_.common().at("args", where);
  config_ = gpt_config_of(with_vocabulary(args, options.vocab_size, where), where);
  dtype_ = dtype_of_args(args, where);
  manifest_extra_ = checkpoint_.manifest_extra();
  if (std::filesystem::is_directory(folder + "/tokenizer"))
    companions_ = companions_in(folder + "/tokenizer");
  for (const auto& [key, tensor] : checkpoint_.tensors().tensors()) {
    if (!key.starts_with(kState)) continue;
    is_reformulated_ = is_reformulated_ || tensor.original_shape;
    const std::string rest = key.substr(kState.size()), name = rest.substr(0, rest.find('.'));
    if (std::find(states_.begin(), states_.end(), name) == states_.end()) states_.push_back(name);
  }
}

DType CoreSource::dtype_of(const Param& row, const std::string& state) const {
  return *checkpoint_.tensors().at(state_prefix(state) + row.key).dtype;
}

void CoreSource::read(const Param& row, const std::string& state, Tensor out) const {
  read_row(checkpoint_.tensors(), row, state_prefix(state), out);
}

std::optional<MappedTensor> CoreSource::view(const Param& row, const std::string& state) const {
  const DistReader& tensors = checkpoint_.tensors();
  const std::string key = state_prefix(state) + row.key;
  if (!(tensors.at(key).own_shape() == row.key_shape())) return {};
  Shape offset = origin_of(row.shape.rank()), shape = row.shape;
  if (row.layer) {
    offset = offset.with_front(*row.layer);
    shape = shape.with_front(1);
  }
  std::optional<MappedTensor> found = tensors.view(key, offset, shape);
  if (found) found->tensor = found->tensor.reshape(row.shape);
  return found;
}

void CoreSource::check_all_used(const ParamTable& table) const {
  mt::check_all_used(checkpoint_.tensors(), table);
}

}  // namespace mt
