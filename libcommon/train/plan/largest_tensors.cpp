#include "train/plan/largest_tensors.h"

#include <algorithm>

#include "model/keys.h"
#include "optim/optimizer.h"
#include "train/run/executor.h"

namespace mt {
namespace {

class Collection {
 public:
  void add(const std::string& what, const ConstTensor& tensor) {
    if (tensor.numel() == 0) return;
    const std::string key = concat(what, ' ', name_of(tensor.dtype()), tensor.shape());
    LargeTensor& kind = kinds_[key];
    kind = {what, tensor.dtype(), tensor.shape(), kind.count + 1};
  }

  std::vector<LargeTensor> largest(std::size_t most) const {
    std::vector<LargeTensor> all;
    for (const auto& [key, kind] : kinds_) all.push_back(kind);
    std::ranges::stable_sort(all, std::greater(), &LargeTensor::bytes);
    all.resize(std::min(all.size(), most));
    return all;
  }

 private:
  std::map<std::string, LargeTensor> kinds_;
};

}  // namespace

void TensorNames::look(const Param& module, const char* what, ConstTensor tensor, Stream&) {
  names_.emplace(tensor.data(), concat(key_of(module), ": ", what));
}

std::string TensorNames::of(const ConstTensor& tensor) const {
  const auto found = names_.find(tensor.data());
  return found == names_.end() ? "" : found->second;
}

std::vector<LargeTensor> largest_tensors(const ParamTable& table, const Optimizer& optimizer,
                                         const Executor& executor, const TensorNames& names,
                                         std::size_t most) {
  Collection all;
  for (const Param& row : table.rows()) {
    if (optimizer.has_whole_values()) all.add(key_of(row) + ": value", row.value);
    if (row.grad && optimizer.has_own_gradients()) all.add(key_of(row) + ": gradient", row.grad);
  }
  for (const SharedBuffer& buffer : optimizer.buffers()) {
    if (buffer.shards_values()) all.add("values while they are used", buffer.flat().values);
    if (buffer.shards_gradients())
      all.add("gradients until they are summed", buffer.flat().gradients);
    for (const OwnedRange& part : buffer.owned(buffer.sharers().rank())) {
      const std::string key = key_of(table.rows()[part.param]);
      if (buffer.shards_values()) all.add(key + ": value", buffer.value(part));
      if (buffer.shards_gradients()) all.add(key + ": gradient", buffer.gradient(part));
    }
  }
  for (const Optimizer::Piece& piece : optimizer.pieces()) {
    for (std::size_t i = 0; i < piece.state.size(); ++i)
      all.add(concat(key_of(*piece.row), ": ", Optimizer::state_names(piece.rule)[i]),
              piece.state[i]);
    if (piece.has_master)
      all.add(concat(key_of(*piece.row), ": main value in ", name_of(piece.master.dtype())),
              piece.master);
  }
  for (const Executor::Held& held : executor.at_peak()) {
    // Addresses outside `keep` are used again and again.
    const bool kept = std::string_view(held.arena) == "keep";
    const std::string name = kept ? names.of(held.tensor) : "";
    all.add(!name.empty() ? name + ", kept"
            : kept        ? "kept for the backward"
                          : concat("scratch in the arena `", held.arena, "`"),
            held.tensor);
  }
  return all.largest(most);
}

std::string description(const LargeTensor& tensor) {
  return concat(tensor.count, " of ", name_of(tensor.dtype), ' ', tensor.shape, ": ", tensor.what);
}

}  // namespace mt
