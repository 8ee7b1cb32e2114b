// Heads of tasks on a BERT and on a GPT: gradients are the derivatives of what a criterion makes of
// the scores, and stages make one model.
#include <gtest/gtest.h>

#include <set>

#include "model/config/model_config.h"
#include "model/layers.h"
#include "model/model.h"
#include "model/model_table.h"
#include "ops/ops.h"
#include "tests/support/derivative.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

using Numbers = std::vector<std::int32_t>;

// Cross-entropy of all scores of a sample, which is some sequences.
class Choice : public Criterion {
 public:
  explicit Choice(std::int64_t samples) : samples_(samples) {}
  void judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
             Stream& stream) const override {
    const std::int64_t each = scores.numel() / samples_;
    cross_entropy(loss, scores.reshape({samples_, each}), batch[Field::targets].rows(0, samples_),
                  weight, each, 0, stream);
  }

 private:
  std::int64_t samples_;
};

ModelConfig with_head(ModelConfig c, std::string_view head, std::int64_t labels) {
  c.task_head = head;
  c.num_labels = labels;
  c.attention_dropout = 0.2;
  c.hidden_dropout = 0.3;
  c.complete();
  return c;
}

ModelConfig small_bert() {
  ModelConfig c;
  c.family = ModelFamily::bert;
  c.num_layers = 2;
  c.hidden_size = 8;
  c.num_attention_heads = 2;
  c.max_position_embeddings = 8;
  c.vocab_size = 16;
  c.make_vocab_size_divisible_by = 16;
  c.init_method_std = 0.3;
  return c;
}

ModelConfig small_gpt(bool llama) {
  ModelConfig c = small_bert();
  c.family = ModelFamily::gpt;
  if (!llama) return c;
  c.ffn_hidden_size = 12;
  c.position_embedding_type = "rope";
  c.normalization = "RMSNorm";
  c.swiglu = c.untie_embeddings_and_output_weights = true;
  c.add_bias_linear = false;
  return c;
}

struct Case {
  const char* name;
  ModelConfig config;
  std::int64_t samples;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Two padded sequences of eight tokens.
class HeadBench {
 public:
  HeadBench(const Case& c, const StageRange& range, DType dtype, bool deferring = false)
      : model_(make_model(c.config, StageRanges{range})),
        bench_({.dtype = dtype, .sequences = 2, .seq_length = 8, .deferring = deferring}),
        is_bert_(c.config.family == ModelFamily::bert),
        criterion_(c.samples),
        weight_(dtype, {c.samples}),
        loss_(dtype, {c.samples}),
        scores_(dtype, {2, c.config.num_labels}) {
    model_->table().allocate(Device::cpu, dtype, true);
    model_->initialize(7, bench_.stream());
    fill_with(weight_, [](std::int64_t i) { return 0.5 + static_cast<double>(i); });
  }
  HeadBench(const Case& c, DType dtype, bool deferring = false)
      : HeadBench(c, {0, c.config.num_layers, true, true}, dtype, deferring) {}

  ParamTable& table() { return model_->table(); }
  const HostTensor& losses() const { return loss_; }
  const HostTensor& scores() const { return scores_; }
  double evaluate() {
    Step s = start();
    Wire out;
    model_->forward(s, out, {}, batch(), ends(), nullptr);
    return dot_of(weight_, loss_);
  }
  Wire forward(const Wire& in) {
    Step s = start();
    saved_ = model_->make_saved();
    Wire out;
    model_->forward(s, out, in, batch(), ends(), saved_.get());
    s.layer.rewind(0);
    return out;
  }
  Wire backward(const Wire& dout) {
    Step s = step();
    Wire din;
    model_->backward(s, din, dout, *saved_);
    bench_.run_weight_grads();
    return din;
  }
  void forward_and_backward() {
    fill_with(gradients_of(table()), [](std::int64_t) { return 0; });
    forward({});
    backward({});
  }

 private:
  Ends ends() {
    Ends ends{.loss = loss_, .weight = weight_};
    ends.logits = scores_;
    ends.criterion = &criterion_;
    return ends;
  }
  Fields batch() const {
    Fields batch;
    batch[Field::ids] = ids_;
    batch[Field::types] = types_;
    batch[Field::rows] = is_bert_ ? first_ : last_;
    batch[Field::row_of] = is_bert_ ? row_of_first_ : row_of_last_;
    batch[Field::targets] = targets_;
    return batch;
  }
  Step step() {
    Step s = bench_.step();
    if (is_bert_) s.tokens.first_key = first_key_.view();
    return s;
  }
  Step start() {
    Step s = step();
    for (Arena* arena : {&s.keep, &s.layer, &s.deferred}) arena->rewind(0);
    return s;
  }

  std::unique_ptr<Model> model_;
  Workbench bench_;
  bool is_bert_;
  Choice criterion_;
  HostTensor weight_, loss_, scores_;
  const HostTensor ids_{{16}, Numbers{1, 5, 7, 2, 9, 2, 0, 0, 1, 4, 2, 6, 8, 11, 2, 0}};
  const HostTensor types_{{16}, Numbers{0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0}};
  const HostTensor first_key_{{16}, Numbers{0, 0, 0, 0, 0, 0, 6, 6, 0, 0, 0, 0, 0, 0, 0, 7}};
  const HostTensor first_{{2}, Numbers{0, 8}}, last_{{2}, Numbers{5, 14}};
  const HostTensor targets_{{2}, Numbers{1, 0}};
  const HostTensor row_of_first_{
      {16}, Numbers{0, -1, -1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1, -1}};
  const HostTensor row_of_last_{
      {16}, Numbers{-1, -1, -1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1, -1, 1, -1}};
  std::unique_ptr<Model::Saved> saved_;
};

std::vector<Case> cases() {
  return {{"bert", with_head(small_bert(), kClassificationHead, 3), 2},
          {"bert_of_choices", with_head(small_bert(), kMultichoiceHead, 1), 1},
          {"gpt2", with_head(small_gpt(false), kScoreHead, 3), 2},
          {"llama", with_head(small_gpt(true), kScoreHead, 2), 2}};
}

class TaskHead : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Of, TaskHead, testing::ValuesIn(cases()),
                         [](const auto& which) { return which.param.name; });

TEST_P(TaskHead, BackwardIsTheDerivativeOfTheObjective) {
  HeadBench bench(GetParam(), DType::f64);
  bench.forward_and_backward();
  for (Param& row : bench.table().rows()) {
    // The score of each choice moves by the same.
    if (row.name() == "multichoice_head.bias") continue;
    expect_gradient(
        row.grad, row.value, [&] { return bench.evaluate(); }, 9, row.name());
  }
}

TEST_P(TaskHead, TakesThePlaceOfTheOthers) {
  ModelConfig without = GetParam().config;
  without.task_head = "";
  without.num_labels = 0;
  const ParamTable of_task = model_rows(GetParam().config), plain = model_rows(without);
  std::set<std::string> names;
  for (const Param& row : plain.rows()) names.insert(row.name());
  const std::string head = GetParam().config.task_head;
  for (const Param& row : of_task.rows())
    EXPECT_EQ(names.contains(row.name()), row.place.stack != head) << row.name();
  for (const Param& row : of_task.rows())
    EXPECT_TRUE(row.place.stack != "lm_head" && row.place.stack != "output_layer" &&
                row.place.stack != "binary_head")
        << row.name();
}

TEST_P(TaskHead, DeferredWeightGradientsHaveTheSameBits) {
  HeadBench bench(GetParam(), DType::f32), deferring(GetParam(), DType::f32, true);
  bench.forward_and_backward();
  deferring.forward_and_backward();
  EXPECT_SAME_BITS(gradients_of(deferring.table()), gradients_of(bench.table()));
}

TEST_P(TaskHead, TwoStagesAreTheModel) {
  HeadBench whole(GetParam(), DType::f64), first(GetParam(), {0, 1, true, false}, DType::f64),
      last(GetParam(), {1, 2, false, true}, DType::f64);
  EXPECT_EQ(first.table().count() + last.table().count(), whole.table().count());
  whole.forward_and_backward();
  last.forward(first.forward({}));
  first.backward(last.backward({}));
  EXPECT_TENSORS_NEAR(last.losses().view(), whole.losses().view(), 1e-12);
  EXPECT_TENSORS_NEAR(last.scores().view(), whole.scores().view(), 1e-12);
  for (HeadBench* stage : {&first, &last})
    for (const Param& row : stage->table().rows())
      EXPECT_TENSORS_NEAR(row.grad, whole.table().at(row.name()).grad, 1e-12) << row.name();
}

TEST(TaskHeads, AreRefusedWhereTheyCannotBe) {
  const auto refused = [](ModelConfig c, std::string_view head, std::int64_t labels) {
    c.task_head = head;
    c.num_labels = labels;
    EXPECT_THROW(c.complete(), Error) << head;
  };
  refused(small_bert(), kScoreHead, 2);
  refused(small_gpt(true), kClassificationHead, 2);
  refused(small_bert(), kClassificationHead, 0);
  refused(small_bert(), kMultichoiceHead, 4);
  refused(small_bert(), "", 2);
  ModelConfig no_pooler = small_bert();
  no_pooler.bert_binary_head = false;
  refused(no_pooler, kClassificationHead, 2);
}

}  // namespace
}  // namespace mt
