#include "data/gpt_index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "base/error.h"
#include "data/numpy_random.h"

namespace mt {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxDocuments = std::int64_t{1} << 56;  // of any memory; no size overflows

// How often the split is read and in how many samples that results.
struct Plan {
  std::int64_t tokens_per_epoch = 0, epochs = 1, samples = 0;
  std::int64_t samples_before_last_epoch = 0;  // only with separate_last_epoch
  bool separate_last_epoch = false;
};

std::int64_t count_epochs(const GptIndexOptions& options, std::int64_t tokens, int extra) {
  if (!options.num_samples) return 1;
  std::int64_t wanted;
  if (__builtin_mul_overflow(*options.num_samples, options.seq_length, &wanted) ||
      __builtin_add_overflow(wanted, extra, &wanted))
    fail(Exit::usage, *options.num_samples, " samples of ", options.seq_length,
         " tokens: more than 2^63 tokens");
  return std::max<std::int64_t>(1, wanted / tokens + (wanted % tokens != 0));
}

Plan make_plan(const TokenSequences& data, const GptIndexOptions& options) {
  const std::int64_t S = options.seq_length;
  const int extra = options.extra_token ? 1 : 0;
  Plan plan;
  plan.tokens_per_epoch = data.tokens(options.sequences);
  if (plan.tokens_per_epoch == 0)
    fail(Exit::bad_data, data.name(), ": sequences ", options.sequences.begin, " to ",
         options.sequences.end, " hold no tokens; a split needs at least one");
  plan.epochs = count_epochs(options, plan.tokens_per_epoch, extra);
  std::int64_t tokens, documents;
  if (plan.epochs > kMaxInt32 ||
      __builtin_mul_overflow(plan.epochs, plan.tokens_per_epoch, &tokens) ||
      __builtin_mul_overflow(plan.epochs, options.sequences.size(), &documents) ||
      documents > kMaxDocuments)
    fail(Exit::usage, data.name(), ": ", options.num_samples.value_or(0), " samples need ",
         plan.epochs, " epochs of ", plan.tokens_per_epoch, " tokens; that is too many");
  if (plan.epochs > 1) {
    plan.samples_before_last_epoch = ((plan.epochs - 1) * plan.tokens_per_epoch - extra) / S;
    const std::int64_t last = *options.num_samples - plan.samples_before_last_epoch;
    const std::int64_t per_epoch = (plan.tokens_per_epoch - extra) / S;
    plan.separate_last_epoch =
        last < static_cast<std::int64_t>(0.80 * static_cast<double>(per_epoch));
  }
  if (options.drop_last_partial)
    plan.samples = (tokens - extra) / S;
  else  // in single precision, as upstream counts them
    plan.samples = static_cast<std::int64_t>(
        std::ceil(static_cast<float>(tokens - extra) / static_cast<float>(S)));
  return plan;
}

std::vector<std::int32_t> make_document_index(ItemRange range, const Plan& plan,
                                              RandomState& random) {
  std::vector<std::int32_t> documents(static_cast<std::size_t>(plan.epochs * range.size()));
  const auto per_epoch = static_cast<std::size_t>(range.size());
  for (std::size_t first = 0; first < documents.size(); first += per_epoch)
    std::iota(documents.begin() + static_cast<std::ptrdiff_t>(first),
              documents.begin() + static_cast<std::ptrdiff_t>(first + per_epoch),
              static_cast<std::int32_t>(range.begin));
  const std::size_t together = documents.size() - (plan.separate_last_epoch ? per_epoch : 0);
  random.shuffle(std::span(documents).first(together));
  random.shuffle(std::span(documents).subspan(together));
  return documents;
}

template <class T>
void put_sample_index(IndexWriter& writer, const TokenSequences& data,
                      const GptIndexOptions& options, const std::vector<std::int32_t>& documents,
                      std::int64_t samples) {
  const int extra = options.extra_token ? 1 : 0;
  const std::size_t last = documents.size() - 1;
  std::size_t position = 0;
  std::int64_t offset = 0;
  const auto put_row = [&] {
    const T row[] = {static_cast<T>(position), static_cast<T>(offset)};
    writer.put_all(std::span<const T>(row));
  };
  put_row();
  for (std::int64_t k = 1; k <= samples; ++k) {
    std::int64_t missing = options.seq_length + extra;
    for (;;) {
      const std::int64_t available = data.length(documents[position]) - offset;
      if (missing <= available) {
        offset += missing - extra;
        break;
      }
      missing -= available;
      if (position == last) {  // a partial sample ends with the text's last token
        while (extra > data.length(documents[position])) --position;
        offset = data.length(documents[position]) - extra;
        break;
      }
      ++position;
      offset = 0;
    }
    put_row();
  }
}

template <class T>
void put_shuffle_index(IndexWriter& writer, const Plan& plan, RandomState& random) {
  std::vector<T> order(static_cast<std::size_t>(plan.samples));
  std::iota(order.begin(), order.end(), T(0));
  const auto first = static_cast<std::size_t>(
      plan.separate_last_epoch ? std::min(plan.samples_before_last_epoch, plan.samples)
                               : plan.samples);
  random.shuffle(std::span(order).first(first));
  random.shuffle(std::span(order).subspan(first));
  writer.put_all(std::span<const T>(order));
}

void check_options(const TokenSequences& data, const GptIndexOptions& options) {
  const ItemRange range = options.sequences;
  if (options.seq_length < 1 || options.seq_length >= kMaxInt32)
    fail(Exit::usage, "--seq-length ", options.seq_length, ": expected 1 to ", kMaxInt32 - 1);
  if (options.num_samples && *options.num_samples < 0)
    fail(Exit::usage, *options.num_samples, " samples: expected 0 or more");
  if (range.begin < 0 || range.begin > range.end || range.end > data.sequences())
    fail(Exit::usage, data.name(), ": sequences ", range.begin, " to ", range.end, " of ",
         data.sequences());
  if (range.end > kMaxInt32)
    fail(Exit::bad_data, data.name(), ": ", range.end, " sequences, expected up to ", kMaxInt32);
}

// All that the arrays depend on.
std::string text_of(const TokenSequences& data, const GptIndexOptions& options, const Plan& plan) {
  return concat("GPT index 1 of lengths ", data.lengths_hash(), ", sequences ",
                options.sequences.begin, " to ", options.sequences.end, ", --seq-length ",
                options.seq_length, ", extra tokens ", options.extra_token ? 1 : 0, ", --seed ",
                options.seed, ", epochs ", plan.epochs, ", the last by itself ",
                plan.separate_last_epoch ? "yes" : "no", ", samples ", plan.samples);
}

}  // namespace

GptIndex::GptIndex(const TokenSequences& data, const GptIndexOptions& options,
                   const IndexCache& cache) {
  check_options(data, options);
  const Plan plan = make_plan(data, options);
  samples_ = plan.samples;
  epochs_ = plan.epochs;
  separate_last_epoch_ = plan.separate_last_epoch;
  const std::int64_t documents = plan.epochs * options.sequences.size();
  const bool wide_rows = documents > kMaxInt32;  // lengths are 32 bits in the file
  const bool wide_order =
      plan.samples >= std::int64_t{std::numeric_limits<std::uint32_t>::max()} - 1;
  IndexContent content;
  if (cache.kept()) content.text = text_of(data, options, plan);
  content.arrays = {{4, documents},
                    {wide_rows ? 8U : 4U, 2 * (plan.samples + 1)},
                    {wide_order ? 8U : 4U, plan.samples}};
  content.make = [&](IndexWriter& writer) {
    RandomState random(options.seed);
    std::vector<std::int32_t> order = make_document_index(options.sequences, plan, random);
    writer.put_all(std::span<const std::int32_t>(order));
    writer.next_array();
    if (wide_rows)
      put_sample_index<std::int64_t>(writer, data, options, order, plan.samples);
    else
      put_sample_index<std::int32_t>(writer, data, options, order, plan.samples);
    order = {};  // of many epochs, as large as what follows
    writer.next_array();
    if (wide_order)
      put_shuffle_index<std::int64_t>(writer, plan, random);
    else
      put_shuffle_index<std::uint32_t>(writer, plan, random);
  };
  arrays_ = cache.get(content);
  document_index_ = arrays_.get<std::int32_t>(0);
  if (wide_rows)
    sample_index_ = arrays_.get<std::int64_t>(1);
  else
    sample_index_ = arrays_.get<std::int32_t>(1);
  if (wide_order)
    shuffle_index_ = arrays_.get<std::int64_t>(2);
  else
    shuffle_index_ = arrays_.get<std::uint32_t>(2);
}

SamplePlace GptIndex::sample(std::int64_t row) const {
  return std::visit(
      [&](const auto& rows) {
        const auto at = 2 * static_cast<std::size_t>(row);
        return SamplePlace{static_cast<std::int64_t>(rows[at]),
                           static_cast<std::int64_t>(rows[at + 1])};
      },
      sample_index_);
}

std::int64_t GptIndex::shuffled(std::int64_t drawn) const {
  return std::visit(
      [&](const auto& order) {
        return static_cast<std::int64_t>(order[static_cast<std::size_t>(drawn)]);
      },
      shuffle_index_);
}

}  // namespace mt
