// A BERT of samples that share rows has the losses and gradients that it has where each is padded.
#include <gtest/gtest.h>

#include "data/samples/bert_packs.h"
#include "model/config/model_config.h"
#include "model/families/bert.h"
#include "model/model.h"
#include "tests/support/workbench.h"
#include "tests/train/bert_run.h"
#include "train/run/objective.h"

namespace mt {
namespace {

constexpr std::int64_t kLength = 48, kRows = 4;

ModelConfig small_bert(bool binary_head) {
  ModelConfig c;
  c.family = ModelFamily::bert;
  c.num_layers = 2;
  c.hidden_size = 16;
  c.num_attention_heads = 2;
  c.max_position_embeddings = kLength;
  c.vocab_size = 256;
  c.attention_dropout = c.hidden_dropout = 0;
  c.init_method_std = 0.3;
  c.bert_binary_head = binary_head;
  c.complete();
  return c;
}

// A micro-batch of some samples, in a model with its memory.
class Bench {
 public:
  Bench(bool binary_head, const Samples& samples, const std::vector<std::int64_t>& which,
        std::int64_t texts)
      : model_(small_bert(binary_head), StageRanges{{0, 2, true, true}}),
        bench_({.sequences = std::ssize(which), .seq_length = kLength}),
        objective_(binary_head, texts) {
    model_.table().allocate(Device::cpu, DType::f64, true);
    model_.initialize(7, bench_.stream());
    FieldSpecs specs = samples.fields();
    for (const FieldSpec& own : objective_.fields(samples.fields())) specs.push_back(own);
    const std::int64_t bytes = fields_bytes(specs, std::ssize(which), DType::f64);
    memory_ = Buffer(Device::cpu, static_cast<std::size_t>(bytes));
    batch_ = fields_in(memory_.tensor(DType::u8, {bytes}), specs, std::ssize(which), DType::f64);
    for (std::size_t i = 0; i < which.size(); ++i)
      read(samples, which[i], static_cast<std::int64_t>(i));
    std::vector<double> each;
    for (std::size_t term = 0; term < objective_.terms().size(); ++term)
      each.push_back(1 / objective_.count(term, batch_));
    objective_.weigh(batch_, each);
  }

  // The values of the terms.
  std::vector<double> forward_and_backward() {
    for (Param& row : model_.table().rows()) fill_with(row.grad, [](std::int64_t) { return 0; });
    Step s = bench_.step();
    s.tokens.first_key = batch_[Field::first_key];
    s.tokens.positions = batch_[Field::positions];
    Arena keep{Buffer(Device::cpu, 1 << 16)};
    const Ends ends = objective_.ends(batch_, keep, DType::f64);
    const auto saved = model_.make_saved();
    Wire out, din;
    model_.forward(s, out, {}, batch_, ends, saved.get());
    s.layer.rewind(0);
    model_.backward(s, din, {}, *saved);
    bench_.run_weight_grads();
    std::vector<double> values(objective_.terms().size());
    for (std::size_t term = 0; term < values.size(); ++term)
      objective_.sum_losses(term, {&values[term], DType::f64, {1}}, ends, batch_, bench_.stream());
    return values;
  }
  ParamTable& table() { return model_.table(); }

 private:
  void read(const Samples& samples, std::int64_t k, std::int64_t at) {
    const std::int64_t bytes = fields_bytes(samples.fields(), 1, DType::f32);
    const Buffer memory(Device::cpu, static_cast<std::size_t>(bytes));
    const Fields one =
        fields_in(memory.tensor(DType::u8, {bytes}), samples.fields(), 1, DType::f32);
    samples.get(k, one);
    for (const FieldSpec& spec : samples.fields()) {
      const Tensor to = batch_[spec.field].rows(at * spec.per_sample, (at + 1) * spec.per_sample);
      if (spec.dtype == DType::f32)
        std::ranges::copy(one.span<float>(spec.field), to.as<double>());
      else
        std::ranges::copy(one.span<std::int32_t>(spec.field), to.as<std::int32_t>());
    }
  }

  Bert model_;
  Workbench bench_;
  MaskedModelling objective_;
  Buffer memory_;
  Fields batch_;
};

class PackedSequences : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(WithOrder, PackedSequences, testing::Bool());

TEST_P(PackedSequences, HaveTheLossesAndGradientsOfPaddedOnes) {
  const Scratch scratch;
  write_sentences(scratch.path("text"));
  const IndexedDataset file(scratch.path("text"));
  const WordPieces pieces{{.cls = 1, .sep = 2, .mask = 3, .pad = 4}, std::vector<bool>(256)};
  const BertPacks packs(file, pieces,
                        {.documents = {0, file.documents()},
                         .seq_length = kLength,
                         .mask_prob = 0.3,
                         .short_seq_prob = 0.5,
                         .binary_head = GetParam()});
  std::vector<std::int64_t> rows, samples;
  for (std::int64_t k = 0; k < kRows; ++k) {
    rows.push_back(k);
    for (const std::uint32_t sample : packs.samples_of(k)) samples.push_back(sample);
  }
  ASSERT_GT(std::ssize(samples), 2 * kRows);
  Bench packed(GetParam(), packs, rows, kMostTextsOfRow),
      padded(GetParam(), packs.samples(), samples, 1);
  const std::vector<double> got = packed.forward_and_backward(),
                            expected = padded.forward_and_backward();
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_GT(expected[i], 0.1);
    EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
  }
  for (const Param& row : packed.table().rows()) {
    const Tensor& other = padded.table().at(row.name()).grad;
    EXPECT_GT(largest(other), 0) << row.name();
    EXPECT_TENSORS_NEAR(row.grad, other, 1e-12) << row.name();
  }
}

}  // namespace
}  // namespace mt
