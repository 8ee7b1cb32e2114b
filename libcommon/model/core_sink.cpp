// A torch_dist checkpoint of Megatron (ckpt/megatron_checkpoint.h) made of another checkpoint.
#include <deque>

#include "model/core_source.h"
#include "model/gpt_checkpoint.h"
#include "model/megatron_common.h"
#include "model/model_sink.h"

namespace mt {
namespace {

class CoreSink : public ModelSink {
 public:
  CoreSink(const ModelTarget& target, std::size_t parts)
      : target_(target), save_(target.path, iteration_of(target.source)), mcore_data_(parts) {
    for (std::size_t part = 0; part < parts; ++part)
      writers_.emplace_back(save_.folder(), 0, static_cast<int>(part));
  }

  void write(std::size_t part, const Param& row, const std::string& state,
             ConstTensor value) override {
    const Tensor tensor{const_cast<void*>(value.data()), value.dtype(), value.shape()};
    if (state.empty() || !target_.source.is_reformulated())
      return write_row(writers_[part], row, state_prefix(state), tensor);
    const std::int64_t numel = row.shape.numel();
    writers_[part].add(state_prefix(state) + row.key, reformulated(row, row.layers, 1, 1, numel),
                       reformulated(row, row.layer.value_or(0), 0, 0, 0),
                       tensor.reshape(reformulated(row, 1, 1, 1, numel)));
    mcore_data_[part][state_prefix(state) + row.key] = row.key_shape();
  }

  void publish() override {
    write_extra_states(writers_.front(), target_.config);
    CheckpointSave::Content content;
    for (FileHash& file : write_companions(target_.source, save_.folder()))
      content.files.push_back({std::move(file), {}});
    for (DistWriter& writer : writers_) content.files.push_back(writer.close());
    std::map<std::string, Shape> shapes;
    for (const auto& part : mcore_data_) shapes.insert(part.begin(), part.end());
    for (const auto& [key, shape] : shapes) set_original_shape(content.mcore_data, key, shape);
    const KeepTensor keep = [this](ConstTensor tensor) {
      return save_.common_writer().tensor(tensor);
    };
    content.common = make_common(target_, "torch_dist", keep);
    if (target_.with_optimizer)
      content.common.set_item("optimizer", copied_optimizer(target_.source, keep));
    content.manifest_extra = target_.source.manifest_extra();
    save_.publish(content);
  }

 private:
  ModelTarget target_;
  CheckpointSave save_;
  std::deque<DistWriter> writers_;
  std::vector<std::map<std::string, Shape>> mcore_data_;  // of each part
};

}  // namespace

std::unique_ptr<ModelSink> make_core_sink(const ModelTarget& target, std::size_t parts) {
  return std::make_unique<CoreSink>(target, parts);
}

}  // namespace mt
