// How texts with labels become sequences, and in which order they are read.
#include "post/labels/labelled_samples.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "post/labels/epoch_order.h"
#include "tests/base/scratch.h"
#include "tests/support/host_tensor.h"
#include "text/bert/bert_tokenizer.h"

namespace mt {
namespace {

using Numbers = std::vector<std::int32_t>;

// A tokenizer of a few words: [PAD] 0, [CLS] 2, [SEP] 3, [BOS] 5, a 7, b 8 ... f 12.
class Sequences : public testing::Test {
 protected:
  Sequences() {
    write_file_atomically(scratch_.path("vocab.txt"),
                          "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[BOS]\n[EOS]\na\nb\nc\nd\ne\nf\n",
                          true);
    tokenizer_ = std::make_unique<BertTokenizer>(BertTokenizer::kLowerCaseType,
                                                 scratch_.path("vocab.txt"), 0);
  }

  struct Sequence {
    Numbers ids, types;
    std::int32_t length = 0, label = 0;
  };
  Sequence sequence(const std::string& a, const std::optional<std::string>& b,
                    std::int64_t seq_length, bool is_bert = true, std::int64_t most_of_a = 0) {
    LabelledSet set{.name = "set", .labels = {3}, .uids = {1}};
    const std::int64_t first = set.add_text(a);
    set.pairs.push_back({first, b ? set.add_text(*b) : -1});
    const LabelledSamples samples(
        std::move(set), *tokenizer_,
        {.seq_length = seq_length, .is_bert = is_bert, .most_of_a = most_of_a, .labels = 4});
    const HostTensor ids(DType::i32, {seq_length}), types(DType::i32, {seq_length}),
        positions(DType::i32, {seq_length}), length(DType::i32, {1}), label(DType::i32, {1}),
        mask(DType::f32, {1});
    Fields fields;
    fields[Field::ids] = ids;
    if (is_bert) fields[Field::types] = types;
    fields[Field::positions] = positions;
    fields[Field::lengths] = length;
    fields[Field::labels] = label;
    fields[Field::loss_mask] = mask;
    samples.get(0, fields);
    EXPECT_EQ(element(mask, 0), 1);
    const auto numbers = [](const HostTensor& of) {
      return Numbers(of.span<std::int32_t>().begin(), of.span<std::int32_t>().end());
    };
    return {numbers(ids), numbers(types), length.span<std::int32_t>()[0],
            label.span<std::int32_t>()[0]};
  }

  Scratch scratch_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

// build_tokens_types_paddings_from_ids() of tasks/data_utils.py.
TEST_F(Sequences, OfABertAreMegatrons) {
  const Sequence whole = sequence("a b", "c d e", 10);
  EXPECT_EQ(whole.ids, (Numbers{2, 7, 8, 3, 9, 10, 11, 3, 0, 0}));
  EXPECT_EQ(whole.types, (Numbers{0, 0, 0, 0, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(whole.length, 8);
  EXPECT_EQ(whole.label, 3);
  const Sequence exact = sequence("a b", "c d e", 8);
  EXPECT_EQ(exact.ids, (Numbers{2, 7, 8, 3, 9, 10, 11, 3}));
  const Sequence cut = sequence("a b", "c d e", 7);
  EXPECT_EQ(cut.ids, (Numbers{2, 7, 8, 3, 9, 10, 3}));
  EXPECT_EQ(cut.types, (Numbers{0, 0, 0, 0, 1, 1, 1}));
  const Sequence alone = sequence("a b", {}, 6);
  EXPECT_EQ(alone.ids, (Numbers{2, 7, 8, 3, 0, 0}));
  EXPECT_EQ(alone.types, (Numbers{0, 0, 0, 0, 0, 0}));
  const Sequence alone_cut = sequence("a b c d", {}, 5);
  EXPECT_EQ(alone_cut.ids, (Numbers{2, 7, 8, 9, 3}));
  EXPECT_EQ(alone_cut.types, (Numbers{0, 0, 0, 0, 0}));
  const Sequence first_too_long = sequence("a b c d e", "f", 5);
  EXPECT_EQ(first_too_long.ids, (Numbers{2, 7, 8, 9, 3}));
  EXPECT_EQ(first_too_long.types, (Numbers{0, 0, 0, 0, 1}));
  EXPECT_EQ(sequence("a b c d", "f", 9, true, 2).ids, (Numbers{2, 7, 8, 3, 12, 3, 0, 0, 0}));
}

TEST_F(Sequences, OfAGptAreAsItsTokenizerHasTexts) {
  EXPECT_EQ(sequence("a b", {}, 5, false).ids, (Numbers{7, 8, 0, 0, 0}));
  EXPECT_EQ(sequence("a b", "c", 5, false).ids, (Numbers{7, 8, 9, 0, 0}));
  const Sequence cut = sequence("a b c d e", {}, 4, false);
  EXPECT_EQ(cut.ids, (Numbers{7, 8, 9, 10}));
  EXPECT_EQ(cut.length, 4);
}

// --- Orders -------------------------------------------------------------------------------------

// The samples that each rank reads in an epoch, of this run's sequences.
std::vector<Numbers> read_by_ranks(const EpochOptions& options, std::int64_t epoch) {
  class Nothing final : public Samples {
   public:
    const std::string& name() const override { return name_; }
    std::int64_t size() const override { return 0; }
    const FieldSpecs& fields() const override { return fields_; }
    void get(std::int64_t, const Fields&) const override {}
    std::vector<std::string> lines(std::int64_t, const Tokenizer&) const override { return {}; }
    void write(std::int64_t, const Tokenizer&, JsonWriter&) const override {}
    Indexes indexes() const override { return {}; }

   private:
    std::string name_;
    FieldSpecs fields_;
  } nothing;
  const EpochSamples samples(nothing, options);
  std::vector<Numbers> read(static_cast<std::size_t>(options.ranks));
  const std::int64_t at_once = options.micro_batch_size * options.ranks * options.choices,
                     of_epoch = options.steps() * options.micro_batches * at_once;
  for (std::int64_t n = epoch * of_epoch; n < (epoch + 1) * of_epoch; ++n)
    read[static_cast<std::size_t>(n % at_once / (options.micro_batch_size * options.choices))]
        .push_back(static_cast<std::int32_t>(samples.sequence(n).value_or(-1)));
  return read;
}

// What torch.utils.data.DistributedSampler gives ranks of 7 and of 10 samples after
// set_epoch(1234) and set_epoch(1235), torch 2.15.0.
TEST(EpochOrder, IsDistributedSamplers) {
  using Ranks = std::vector<Numbers>;
  const EpochOptions one{.samples = 7, .seed = 1234};
  EXPECT_EQ(read_by_ranks(one, 0), (Ranks{{6, 4, 3, 1, 0, 5, 2}}));
  EXPECT_EQ(read_by_ranks(one, 1), (Ranks{{6, 5, 4, 0, 3, 2, 1}}));
  const EpochOptions two{.samples = 7, .ranks = 2, .seed = 1234};
  EXPECT_EQ(read_by_ranks(two, 0), (Ranks{{6, 3, 0, 2}, {4, 1, 5, 6}}));
  EXPECT_EQ(read_by_ranks(two, 1), (Ranks{{6, 4, 3, 1}, {5, 0, 2, 6}}));
  const EpochOptions four{.samples = 10, .ranks = 4, .seed = 1234};
  EXPECT_EQ(read_by_ranks(four, 0), (Ranks{{5, 6, 0}, {4, 9, 3}, {8, 1, 5}, {2, 7, 4}}));
  EXPECT_EQ(read_by_ranks(four, 1), (Ranks{{3, 0, 6}, {2, 7, 8}, {4, 1, 3}, {9, 5, 2}}));
}

TEST(EpochOrder, KeepsWhatIsLeftWhereAsked) {
  using Ranks = std::vector<Numbers>;
  EpochOptions options{.samples = 7, .micro_batch_size = 3, .ranks = 2, .seed = 1234};
  EXPECT_EQ(options.steps(), 1);
  EXPECT_EQ(read_by_ranks(options, 0), (Ranks{{6, 4, 3}, {1, 0, 5}}));
  options.keep_last = true;
  EXPECT_EQ(options.steps(), 2);
  EXPECT_EQ(read_by_ranks(options, 0), (Ranks{{6, 4, 3, 2, -1, -1}, {1, 0, 5, 6, -1, -1}}));
}

TEST(EpochOrder, KeepsChoicesTogether) {
  const EpochOptions options{.samples = 3, .choices = 4, .micro_batch_size = 1, .seed = 1234};
  const Numbers read = read_by_ranks(options, 0)[0];
  ASSERT_EQ(read.size(), 12u);
  for (std::size_t i = 0; i < read.size(); ++i)
    EXPECT_EQ(read[i], read[i / 4 * 4] + static_cast<int>(i % 4));
}

TEST(EpochOrder, IsTheSameForEverWhereItDoesNotChange) {
  const EpochOptions options{.samples = 9, .seed = 0, .changes = false};
  EXPECT_EQ(read_by_ranks(options, 5), read_by_ranks(options, 0));
}

}  // namespace
}  // namespace mt
