// A torch_dist checkpoint of Megatron (ckpt/megatron_checkpoint.h) made of another checkpoint.
#include <deque>

#include "formats/megatron/core_source.h"
#include "formats/megatron/megatron_common.h"
#include "formats/megatron/rank_layout.h"
#include "formats/megatron/rank_optimizer.h"
#include "formats/model_sink.h"
#include "model/row_checkpoint.h"

namespace mt {
namespace {

constexpr const char* kReshardable = "fully_reshardable";

class CoreSink : public ModelSink {
 public:
  CoreSink(const ModelTarget& target, const ParamTable& table, std::size_t parts)
      : target_(target),
        table_(table),
        save_(target.path, iteration_of(target.source), target.replaces),
        reshardable_(is_reshardable(target)),
        mcore_data_(parts) {
    for (std::size_t part = 0; part < parts; ++part)
      writers_.emplace_back(save_.folder(), 0, static_cast<int>(part));
  }

  void write(std::size_t part_number, const Param& row, const std::string& state,
             ConstTensor value) override {
    const Tensor tensor{const_cast<void*>(value.data()), value.dtype(), value.shape()};
    const bool flat = !state.empty() && target_.source.is_reformulated() && !reshardable_;
    const KeySpelling spelling{.of_state = !state.empty(), .dense_norms = target_.local_spec};
    for (const KeyPart& part : key_parts(row, spelling)) {
      const std::string name = prefix_of(row, state) + part.key;
      const KeyPart place = flat ? reformulated(part, row) : part;
      writers_[part_number].add(name, place.whole, place.offset,
                                tensor.rows(part.begin, part.end).reshape(place.chunk));
      if (flat) mcore_data_[part_number][name] = part.whole;
    }
  }

  std::string finish() override {
    write_extra_states(writers_.front(), target_.config, extra_states());
    CheckpointSave::Content content;
    for (FileHash& file : write_companions(target_.source, save_.folder()))
      content.files.push_back({std::move(file), {}});
    std::map<std::string, Shape> shapes;
    for (const auto& part : mcore_data_) shapes.insert(part.begin(), part.end());
    for (const auto& [key, shape] : shapes) set_original_shape(content.mcore_data, key, shape);
    const KeepTensor keep = [this](ConstTensor tensor) {
      return save_.common_writer().tensor(tensor);
    };
    PyValue common = make_common(target_, "torch_dist", keep);
    if (target_.with_optimizer) common.set_item("optimizer", optimizer(keep));
    if (reshardable_)
      common.set_item("content_metadata",
                      PyValue::dict({{"distrib_optim_sharding_type", kReshardable},
                                     {"distrib_optim_fully_reshardable_mem_efficient", false},
                                     {"singleton_local_shards", false},
                                     {"chained_optim_avoid_prefix", true}}));
    if (target_.common_file)
      content.common = common;
    else
      writers_.front().add_object(kCommonObject, PyValue::list({common}), save_.common_writer());
    for (DistWriter& writer : writers_) content.files.push_back(writer.close());
    content.manifest_extra = manifest_extra_of(target_.source, save_.folder());
    save_.finish(content);
    return save_.folder();
  }

  void publish() override { save_.publish(); }

 private:
  // Whether the distributed optimizer's state gets the form of Megatron's main branch, which does
  // not read that of core_v0.12.
  static bool is_reshardable(const ModelTarget& target) {
    if (!target.with_optimizer) return false;
    const RankOptimizer kind(target.source);
    return kind.distributed && (!target.common_file || target.source.is_reshardable());
  }

  std::map<std::string, std::string> extra_states() const {
    std::map<std::string, std::string> states;
    for (const Param& row : table_.rows())
      if (is_parallel_linear(row)) states[extra_state_key(row)] = target_.source.extra_state(row);
    return states;
  }

  PyValue optimizer(const KeepTensor& keep) const {
    std::vector<PyValue> all =
        optimizers_for(copied_optimizer(target_.source, keep), target_.expert_parallel, table_,
                       target_.source.path());
    for (PyValue& own : all)
      if (reshardable_) own.set_item("param_state_sharding_type", kReshardable);
    return as_chain(all);
  }

  // What stands before the keys of a row's state: experts that are shared out, and the rows beside
  // them, have optimizers of their own.
  std::string prefix_of(const Param& row, const std::string& state) const {
    if (state.empty()) return {};
    if (reshardable_) return state_prefix(state == "fp32_param" ? "param" : state);
    const std::size_t number = optimizer_of(row, target_.expert_parallel);
    return (target_.expert_parallel > 1 ? concat("chained_", number, ".") : "") +
           state_prefix(state);
  }

  ModelTarget target_;
  const ParamTable& table_;
  CheckpointSave save_;
  bool reshardable_;
  std::deque<DistWriter> writers_;
  std::vector<std::map<std::string, Shape>> mcore_data_;  // of each part
};

}  // namespace

std::unique_ptr<ModelSink> make_core_sink(const ModelTarget& target, const ParamTable& table,
                                          std::size_t parts) {
  return std::make_unique<CoreSink>(target, table, parts);
}

}  // namespace mt
