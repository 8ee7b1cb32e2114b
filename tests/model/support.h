// One micro-batch run through a model or a stage of it, for tests.
#pragma once

#include <vector>

#include "model/families/gpt.h"
#include "nn/probe.h"
#include "tests/model/tiny_models.h"
#include "tests/support/workbench.h"

namespace mt {

// A model, its memory, and a micro-batch of two sequences of eight tokens.
class ModelBench {
 public:
  static constexpr std::int64_t kSequences = 2, kLength = 8, kTokens = kSequences * kLength;

  ModelBench(const ModelConfig& config, const StageRange& range, DType dtype,
             bool deferring = false)
      : model_(config, StageRanges{range}),
        bench_({.dtype = dtype,
                .sequences = kSequences,
                .seq_length = kLength,
                .deferring = deferring}),
        row_weight_(dtype, {kTokens}),
        loss_(dtype, {kTokens}),
        depths_(config.mtp_num_layers),
        further_ids_(DType::i32, {depths_ * kTokens}),
        further_labels_(DType::i32, {depths_ * kTokens}),
        further_weight_(dtype, {depths_ * kTokens}),
        further_loss_(dtype, {depths_ * kTokens}) {
    model_.table().allocate(Device::cpu, dtype, true);
    model_.initialize(7, bench_.stream());
    fill_with(row_weight_, [](std::int64_t i) { return 0.02 * static_cast<double>(1 + i % 5); });
    for (std::int64_t i = 0; i < kTokens; ++i) {
      ids_.view().as<std::int32_t>()[i] = static_cast<std::int32_t>(i * i % 23);
      labels_.view().as<std::int32_t>()[i] = static_cast<std::int32_t>((5 * i + 3) % 24);
    }
  }
  ModelBench(const ModelConfig& config, DType dtype, bool deferring = false)
      : ModelBench(config, {0, config.num_layers, true, true}, dtype, deferring) {}

  Gpt& model() { return model_; }
  ParamTable& table() { return model_.table(); }
  HostTensor& ids() { return ids_; }
  HostTensor& labels() { return labels_; }
  HostTensor& row_weight() { return row_weight_; }
  const HostTensor& loss() const { return loss_; }
  void set_probe(NonFiniteProbe* probe) { probe_ = probe; }

  // The objective's value, where the model is whole or its last stage.
  double objective() const {
    return dot_of(row_weight_, loss_) +
           (depths_ > 0 ? dot_of(further_weight_, further_loss_) : 0.0);
  }

  // Without gradients: nothing is saved.
  double evaluate() {
    Step s = start();
    Wire out;
    model_.forward(s, out, {}, batch(), ends(), nullptr);
    return objective();
  }

  // What is handed on stays valid until the next call.
  Wire forward(const Wire& in) {
    Step s = start();
    saved_ = model_.make_saved();
    Wire out;
    model_.forward(s, out, in, batch(), ends(), saved_.get());
    s.layer.rewind(0);
    return out;
  }
  Wire backward(const Wire& dout) {
    Step s = bench_.step();
    s.probe = probe_;
    Wire din;
    model_.backward(s, din, dout, *saved_);
    bench_.run_weight_grads();
    return din;
  }
  // Of a whole model, from zero gradients.
  void forward_and_backward() {
    for (const auto& rows : table().flat_rows())  // whose kinds may be several
      if (rows.gradients) fill_with(rows.gradients, [](std::int64_t) { return 0; });
    forward({});
    backward({});
  }

 private:
  Fields batch() const {
    Fields batch;
    batch[Field::ids] = ids_;
    batch[Field::labels] = labels_;
    if (depths_ == 0) return batch;
    batch[Field::further_ids] = further_ids_;
    batch[Field::further_labels] = further_labels_;
    batch[Field::further_weight] = further_weight_;
    return batch;
  }
  Ends ends() const {
    Ends ends{.loss = loss_, .weight = row_weight_};
    if (depths_ > 0) ends.further_loss = further_loss_;
    return ends;
  }
  // What stands further on in each sequence, zeros behind it.
  void look_ahead() {
    const auto token = [](const HostTensor& of, std::int64_t i) {
      return of.view().as<std::int32_t>()[i];
    };
    for (std::int64_t i = 0; i < depths_ * kTokens; ++i) {
      const std::int64_t by = i / kTokens + 1, at = i % kTokens;
      const bool inside = at % kLength + by < kLength;
      further_ids_.view().as<std::int32_t>()[i] = inside ? token(ids_, at + by) : 0;
      further_labels_.view().as<std::int32_t>()[i] = inside ? token(labels_, at + by) : 0;
    }
    fill_with(further_weight_, [&](std::int64_t i) {
      const std::int64_t by = i / kTokens + 1, at = i % kTokens;
      return at % kLength + by < kLength ? 0.4 * element(row_weight_.view(), at + by) : 0;
    });
  }
  Step start() {
    look_ahead();
    Step s = bench_.step();
    s.probe = probe_;
    s.keep.rewind(0);
    s.layer.rewind(0);
    s.deferred.rewind(0);
    return s;
  }

  Gpt model_;
  Workbench bench_;
  HostTensor ids_{DType::i32, {kTokens}}, labels_{DType::i32, {kTokens}}, row_weight_, loss_;
  std::int64_t depths_;  // of further tokens
  HostTensor further_ids_, further_labels_, further_weight_, further_loss_;
  std::unique_ptr<Model::Saved> saved_;
  NonFiniteProbe* probe_ = nullptr;
};

}  // namespace mt
