// Masks and samples that Megatron-LM's rules gave for short texts.
#include "data/samples/masking.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "data/samples/bert_dataset.h"
#include "data/samples/ict_dataset.h"
#include "data/samples/t5_dataset.h"
#include "tensor/buffer.h"
#include "tests/data/support.h"

namespace mt {
namespace {

using Tokens = std::vector<std::int32_t>;

// 300 tokens, of which 12, 15 and 16 continue words.
WordPieces pieces() {
  WordPieces result{{.cls = 101, .sep = 102, .mask = 103, .pad = 0, .bos = 200, .eos = 201},
                    std::vector<bool>(300)};
  for (const std::size_t id : {12U, 15U, 16U}) result.continues_word[id] = true;
  for (std::int32_t id = 250; id < 300; ++id) result.special.extra.push_back(id);
  return result;
}

Tokens counting(std::int32_t first, std::int32_t last) {
  Tokens tokens(static_cast<std::size_t>(last - first + 1));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

struct Masked {
  Tokens positions, labels, values;
  double next = 0;
};

Masked masked(std::uint32_t seed) {
  const WordPieces vocabulary = pieces();
  Tokens tokens = counting(10, 29);
  tokens.insert(tokens.begin(), 101);
  tokens.push_back(102);
  RandomState random(seed);
  Masked result;
  for (const MaskedSpan& span : Masking(vocabulary, {}).mask(tokens, 64, random))
    for (const auto& token : span.tokens) {
      result.positions.push_back(token.position);
      result.labels.push_back(token.label);
      result.values.push_back(tokens[static_cast<std::size_t>(token.position)]);
    }
  // Upstream shuffles the words once more.
  random.skip_shuffle(17);
  result.next = random.random();
  return result;
}

TEST(Masking, WordsAreMasked) {
  const Masked a = masked(1234), b = masked(1235), c = masked(1236);
  EXPECT_EQ(a.positions, (Tokens{18, 19, 20}));
  EXPECT_EQ(a.labels, (Tokens{27, 28, 29}));
  EXPECT_EQ(a.values, (Tokens{103, 103, 103}));
  EXPECT_EQ(a.next, 0.11744338969245627);
  EXPECT_EQ(b.positions, (Tokens{2, 3, 4}));
  EXPECT_EQ(b.values, (Tokens{11, 103, 103}));
  EXPECT_EQ(b.next, 0.46682462786773327);
  EXPECT_EQ(c.positions, (Tokens{1, 10, 19}));
  EXPECT_EQ(c.values, (Tokens{103, 92, 103}));
  EXPECT_EQ(c.next, 0.055408208786883906);
}

// A file of one document of sentences, and its title.
struct Sample {
  Scratch scratch;
  WordPieces vocabulary = pieces();
  std::string prefix = scratch.path("sentences");

  explicit Sample(const Documents& sentences) { write(prefix, sentences); }
  static void write(const std::string& to, const Documents& sentences) {
    IndexedDatasetWriter writer(to, TokenType::u16, {});
    Tokens tokens, lengths;
    for (const auto& sentence : sentences) {
      tokens.insert(tokens.end(), sentence.begin(), sentence.end());
      lengths.push_back(static_cast<std::int32_t>(sentence.size()));
    }
    writer.add_document(tokens, lengths);
    writer.finish();
    writer.commit({});
  }
};

// The fields of a sample; those that it does not bring are empty.
class FieldsOf {
 public:
  FieldsOf(const Samples& samples, std::int64_t k)
      : block_(Device::cpu,
               static_cast<std::size_t>(fields_bytes(samples.fields(), 1, DType::f32))) {
    const auto bytes = static_cast<std::int64_t>(block_.bytes());
    fields_ = fields_in(block_.tensor(DType::u8, {bytes}), samples.fields(), 1, DType::f32);
    samples.get(k, fields_);
  }
  Tokens ints(Field field) const { return all<std::int32_t>(field); }
  std::vector<float> reals(Field field) const { return all<float>(field); }

 private:
  template <class T>
  std::vector<T> all(Field field) const {
    const auto span = fields_.span<T>(field);
    return {span.begin(), span.end()};
  }
  Buffer block_;
  Fields fields_;
};

const Documents kSentences = {{10, 11, 12, 13}, {14, 15, 16, 17, 18}, {19, 20, 21}};

Tokens bert_text(std::uint32_t seed, Tokens* labels = nullptr, bool* is_random = nullptr) {
  const Sample sample(kSentences);
  const IndexedDataset data(sample.prefix);
  const BertDataset dataset(
      data, sample.vocabulary,
      {.documents = {0, 1}, .seq_length = 16, .seed = seed, .short_seq_prob = 0});
  Tokens text(16), types(16), own(16), padding(16), loss(16);
  const auto facts = dataset.get(0, {text, types, own, padding, loss});
  EXPECT_FALSE(facts.truncated);
  if (is_random != nullptr) *is_random = facts.is_random;
  if (labels != nullptr) *labels = own;
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(loss[i], own[i] >= 0 ? 1 : 0);
    EXPECT_EQ(padding[i], i < 15 ? 1 : 0);
  }
  return text;
}

TEST(Masking, BertsSamples) {
  Tokens labels;
  bool is_random = false;
  const Tokens first = bert_text(1234, &labels, &is_random);
  EXPECT_TRUE(is_random);
  EXPECT_EQ(first, (Tokens{101, 19, 20, 21, 102, 10, 11, 12, 13, 14, 15, 16, 17, 103, 102, 0}));
  EXPECT_EQ(labels[13], 18);
  EXPECT_EQ(bert_text(1235, &labels, &is_random)[9], 103);
  EXPECT_FALSE(is_random);
  EXPECT_EQ(labels[9], 18);
  EXPECT_EQ(bert_text(1236, &labels)[1], 92);
  EXPECT_EQ(labels[1], 10);
}

// What training reads says the same as what Megatron-LM's sample does.
TEST(Masking, BertsFields) {
  const Sample sample(kSentences);
  const IndexedDataset data(sample.prefix);
  for (const bool binary_head : {true, false}) {
    const BertDataset dataset(data, sample.vocabulary,
                              {.documents = {0, 1},
                               .seq_length = 20,
                               .num_samples = 40,
                               .mask_prob = 0.3,
                               .short_seq_prob = 0.5,
                               .binary_head = binary_head});
    std::int64_t guessed = 0;
    for (std::int64_t k = 0; k < 40; ++k) {
      Tokens text(20), types(20), labels(20), padding(20), loss(20);
      const auto facts = dataset.get(k, {text, types, labels, padding, loss});
      const FieldsOf fields(dataset, k);
      const auto length = static_cast<std::int32_t>(std::ranges::count(padding, 1));
      EXPECT_EQ(fields.ints(Field::ids), text);
      EXPECT_EQ(fields.ints(Field::positions), counting(0, 19));
      EXPECT_EQ(fields.ints(Field::lengths), Tokens{length});
      const Tokens places = fields.ints(Field::masked), originals = fields.ints(Field::labels);
      ASSERT_EQ(places.size(), 6U);
      Tokens found(20, -1);
      for (std::size_t i = 0; i < places.size(); ++i) {
        if (fields.reals(Field::loss_mask)[i] == 0) continue;
        EXPECT_TRUE(i == 0 || places[i - 1] < places[i]);
        found[static_cast<std::size_t>(places[i])] = originals[i];
        ++guessed;
      }
      EXPECT_EQ(found, labels);
      EXPECT_EQ(fields.ints(Field::types), binary_head ? types : Tokens{});
      EXPECT_EQ(fields.ints(Field::order), binary_head ? Tokens{facts.is_random} : Tokens{});
      EXPECT_EQ(fields.reals(Field::order_mask), std::vector<float>(binary_head ? 1 : 0, 1.0F));
    }
    EXPECT_GT(guessed, 40);
  }
}

// Masks are drawn anew in every epoch, of the same sentences.
TEST(Masking, EpochsDiffer) {
  const Sample sample(kSentences);
  const IndexedDataset data(sample.prefix);
  const BertDataset dataset(data, sample.vocabulary,
                            {.documents = {0, 1},
                             .seq_length = 20,
                             .num_samples = 8,
                             .short_seq_prob = 0,
                             .binary_head = false});
  ASSERT_EQ(dataset.size(), 8);
  std::set<Tokens> masks;
  for (std::int64_t k = 0; k < 8; ++k) masks.insert(FieldsOf(dataset, k).ints(Field::masked));
  EXPECT_GT(masks.size(), 3U);
}

struct T5Texts {
  Tokens encoder, decoder, labels;
};

T5Texts t5_texts(std::int32_t last, std::int64_t seq_length, std::int64_t decoder_length,
                 const WordPieces& vocabulary = pieces()) {
  const Sample sample({counting(10, last)});
  const IndexedDataset data(sample.prefix);
  const T5Dataset dataset(data, vocabulary,
                          {.documents = {0, 1},
                           .seq_length = seq_length,
                           .decoder_seq_length = decoder_length,
                           .short_seq_prob = 0});
  const auto S = static_cast<std::size_t>(seq_length), D = static_cast<std::size_t>(decoder_length);
  T5Texts texts{Tokens(S), Tokens(D), Tokens(D)};
  Tokens loss(D), encoder_mask(S), decoder_mask(D);
  dataset.get(0, {texts.encoder, texts.decoder, texts.labels, loss, encoder_mask, decoder_mask});
  for (std::size_t i = 0; i < D; ++i) {
    EXPECT_EQ(loss[i], texts.labels[i] >= 0 ? 1 : 0);
    EXPECT_EQ(decoder_mask[i], loss[i]);
  }
  for (std::size_t i = 0; i < S; ++i) EXPECT_EQ(encoder_mask[i], texts.encoder[i] > 0 ? 1 : 0);
  return texts;
}

void keep(Tokens& tokens, std::size_t count) {
  for (std::size_t i = count; i < tokens.size(); ++i) EXPECT_LE(tokens[i], 0);
  tokens.resize(count);
}

TEST(Masking, T5sSamples) {
  T5Texts texts = t5_texts(49, 66, 20);
  keep(texts.decoder, 10);
  keep(texts.labels, 10);
  EXPECT_EQ(texts.decoder, (Tokens{200, 250, 21, 22, 251, 27, 28, 29, 252, 49}));
  EXPECT_EQ(texts.labels, (Tokens{250, 21, 22, 251, 27, 28, 29, 252, 49, 201}));
  Tokens expected = counting(10, 20);
  expected.push_back(250);
  for (std::int32_t token = 23; token <= 26; ++token) expected.push_back(token);
  expected.push_back(251);
  for (std::int32_t token = 30; token <= 48; ++token) expected.push_back(token);
  expected.push_back(252);
  keep(texts.encoder, expected.size());
  EXPECT_EQ(texts.encoder, expected);
}

TEST(Masking, T5sFields) {
  const Sample sample({counting(10, 49)});
  const IndexedDataset data(sample.prefix);
  const T5Dataset dataset(
      data, sample.vocabulary,
      {.documents = {0, 1}, .seq_length = 66, .decoder_seq_length = 20, .num_samples = 20});
  for (std::int64_t k = 0; k < 20; ++k) {
    Tokens encoder(66), encoder_mask(66), decoder(20), labels(20), loss(20), decoder_mask(20);
    dataset.get(k, {encoder, decoder, labels, loss, encoder_mask, decoder_mask});
    const FieldsOf fields(dataset, k);
    EXPECT_EQ(fields.ints(Field::encoder_ids), encoder);
    EXPECT_EQ(fields.ints(Field::encoder_positions), counting(0, 65));
    EXPECT_EQ(fields.ints(Field::encoder_lengths),
              Tokens{static_cast<std::int32_t>(std::ranges::count(encoder_mask, 1))});
    EXPECT_EQ(fields.ints(Field::ids), decoder);
    EXPECT_EQ(fields.ints(Field::positions), counting(0, 19));
    EXPECT_EQ(fields.reals(Field::loss_mask), std::vector<float>(loss.begin(), loss.end()));
    std::ranges::replace(labels, -1, 0);
    EXPECT_EQ(fields.ints(Field::labels), labels);
  }
}

TEST(Masking, T5NeedsRoomAndSentinels) {
  WordPieces few = pieces();
  few.special.extra.resize(2);
  EXPECT_EQ(code_of([&] { t5_texts(49, 66, 20, few); }), Exit::bad_config);
  few.special.extra.clear();
  EXPECT_EQ(code_of([&] { t5_texts(49, 66, 20, few); }), Exit::bad_config);
  EXPECT_EQ(code_of([&] { t5_texts(49, 66, 9); }), Exit::bad_config);
  EXPECT_EQ(code_of([&] { t5_texts(300, 500, 90); }), Exit::bad_data) << "no such token";
}

TEST(Masking, IctsSamplesAreASentenceAndItsBlock) {
  const Sample sample(kSentences), title({{50, 51}});
  const IndexedDataset data(sample.prefix), titles(title.prefix);
  int stays = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    const IctDataset dataset(data, titles, sample.vocabulary,
                             {.documents = {0, 1}, .seq_length = 20, .seed = seed});
    ASSERT_EQ(dataset.size(), 1);
    Tokens query(20), query_mask(20), context(20), context_mask(20);
    const auto facts = dataset.get(0, {query, query_mask, context, context_mask});
    EXPECT_EQ(facts.sentences, (ItemRange{0, 3}));
    const auto length = static_cast<std::size_t>(std::ranges::count(query_mask, 1));
    Tokens sentence(query.begin() + 1, query.begin() + static_cast<std::ptrdiff_t>(length) - 1);
    Tokens whole = {101, 50, 51, 102}, less = whole;
    bool known = false;
    for (const Tokens& one : kSentences) {
      known |= one == sentence;
      whole.insert(whole.end(), one.begin(), one.end());
      if (one != sentence) less.insert(less.end(), one.begin(), one.end());
    }
    EXPECT_TRUE(known);
    EXPECT_EQ(query.front(), 101);
    EXPECT_EQ(query[length - 1], 102);
    for (Tokens* context_like : {&whole, &less}) {
      context_like->push_back(102);
      context_like->resize(20);
    }
    stays += context == whole ? 1 : 0;
    EXPECT_TRUE(context == whole || context == less) << seed;
  }
  EXPECT_NEAR(stays, 40, 18);  // a tenth: three standard deviations
}

}  // namespace
}  // namespace mt
