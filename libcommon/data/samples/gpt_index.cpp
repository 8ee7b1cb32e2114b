#include "data/samples/gpt_index.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "data/samples/numpy_random.h"
#include "data/samples/token_sequences.h"

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

// A place of the document index, with the length of the sequence: what shuffles them together then
// reads the lengths in order.
struct Entry {
  std::int32_t sequence, length;
};

// Memory for that many, not yet written.
template <class T>
struct Elements {
  explicit Elements(std::int64_t count)
      : memory(std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count))),
        all(memory.get(), static_cast<std::size_t>(count)) {}
  std::unique_ptr<T[]> memory;
  std::span<T> all;
};

std::size_t shuffled_together(const GptIndexOptions& options, const Plan& plan) {
  const std::int64_t epochs = plan.epochs - (plan.separate_last_epoch ? 1 : 0);
  return static_cast<std::size_t>(epochs * options.sequences.size());
}

Elements<Entry> make_entries(const TokenSequences& data, const GptIndexOptions& options,
                             const Plan& plan) {
  const ItemRange range = options.sequences;
  Elements<Entry> entries(plan.epochs * range.size());
  const auto per_epoch = static_cast<std::size_t>(range.size());
  for (std::size_t i = 0; i < per_epoch; ++i) {
    const std::int64_t sequence = range.begin + static_cast<std::int64_t>(i);
    entries.all[i] = {static_cast<std::int32_t>(sequence),
                      static_cast<std::int32_t>(data.length(sequence))};
  }
  for (std::size_t at = per_epoch; at < entries.all.size(); at += per_epoch)
    std::ranges::copy(entries.all.first(per_epoch), entries.all.begin() + std::ptrdiff_t(at));
  RandomState random(options.seed);
  const std::size_t together = shuffled_together(options, plan);
  random.shuffle(entries.all.first(together));
  random.shuffle(entries.all.subspan(together));
  return entries;
}

// Puts elements one after another, many at a time.
template <class T>
class Putter {
 public:
  explicit Putter(IndexWriter& writer) : writer_(writer) {}
  void put(T element) {
    block_[size_++] = element;
    if (size_ == block_.size()) flush();
  }
  void flush() { writer_.put_all(std::span<const T>(block_).first(std::exchange(size_, 0))); }

 private:
  IndexWriter& writer_;
  std::array<T, 4096> block_;
  std::size_t size_ = 0;
};

void put_document_index(IndexWriter& writer, std::span<const Entry> entries) {
  Putter<std::int32_t> out(writer);
  for (const Entry& entry : entries) out.put(entry.sequence);
  out.flush();
}

template <class T>
void put_sample_index(IndexWriter& writer, const GptIndexOptions& options,
                      std::span<const Entry> entries, std::int64_t samples) {
  const int extra = options.extra_token ? 1 : 0;
  std::size_t position = 0;
  std::int64_t offset = 0;
  Putter<std::array<T, 2>> out(writer);
  const auto put_row = [&] { out.put({static_cast<T>(position), static_cast<T>(offset)}); };
  put_row();
  for (std::int64_t k = 1; k <= samples; ++k) {
    std::int64_t missing = options.seq_length + extra;
    for (;;) {
      const std::int64_t available = entries[position].length - offset;
      if (missing <= available) {
        offset += missing - extra;
        break;
      }
      missing -= available;
      if (position == entries.size() - 1) {  // a partial sample ends with the text's last token
        while (extra > entries[position].length) --position;
        offset = entries[position].length - extra;
        break;
      }
      ++position;
      offset = 0;
    }
    put_row();
  }
  out.flush();
}

// What comes after the document index in the stream of random numbers.
template <class T>
Elements<T> make_shuffle_index(const GptIndexOptions& options, const Plan& plan) {
  Elements<T> order(plan.samples);
  std::iota(order.all.begin(), order.all.end(), T(0));
  RandomState random(options.seed);
  const std::size_t together = shuffled_together(options, plan);
  random.skip_shuffle(together);
  random.skip_shuffle(static_cast<std::size_t>(plan.epochs * options.sequences.size()) - together);
  const auto first = static_cast<std::size_t>(
      plan.separate_last_epoch ? std::min(plan.samples_before_last_epoch, plan.samples)
                               : plan.samples);
  random.shuffle(order.all.first(first));
  random.shuffle(order.all.subspan(first));
  return order;
}

// All three arrays.  The shuffle index is made beside the other two.
template <class Row, class Order>
void put_arrays(IndexWriter& writer, const TokenSequences& data, const GptIndexOptions& options,
                const Plan& plan) {
  expect_memory(
      static_cast<std::uint64_t>(plan.epochs * options.sequences.size()) * sizeof(Entry) +
          static_cast<std::uint64_t>(plan.samples) * sizeof(Order),
      concat(data.name(), ": the order of ", plan.samples, " samples in ", plan.epochs, " epochs"));
  std::optional<Elements<Order>> order;
  parallel_for(2, [&](std::int64_t task) {
    if (task == 1) {
      order = make_shuffle_index<Order>(options, plan);
      return;
    }
    const Elements<Entry> entries = make_entries(data, options, plan);
    put_document_index(writer, entries.all);
    writer.next_array();
    put_sample_index<Row>(writer, options, entries.all, plan.samples);
  });
  writer.next_array();
  writer.put_all(std::span<const Order>(order->all));
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

std::vector<ArrayShape> shapes_of(const GptIndexOptions& options, const Plan& plan) {
  const std::int64_t documents = plan.epochs * options.sequences.size();
  const bool wide_rows = documents > kMaxInt32;  // lengths are 32 bits in the file
  const bool wide_order =
      plan.samples >= std::int64_t{std::numeric_limits<std::uint32_t>::max()} - 1;
  return {{4, documents},
          {wide_rows ? 8U : 4U, 2 * (plan.samples + 1)},
          {wide_order ? 8U : 4U, plan.samples}};
}

}  // namespace

std::int64_t GptIndex::bytes(const TokenSequences& data, const GptIndexOptions& options) {
  check_options(data, options);
  std::int64_t bytes = 0;
  for (const ArrayShape& array : shapes_of(options, make_plan(data, options)))
    bytes += array.count * static_cast<std::int64_t>(array.element_bytes);
  return bytes;
}

GptIndex::GptIndex(const TokenSequences& data, const GptIndexOptions& options,
                   const IndexCache& cache) {
  check_options(data, options);
  const Plan plan = make_plan(data, options);
  samples_ = plan.samples;
  epochs_ = plan.epochs;
  separate_last_epoch_ = plan.separate_last_epoch;
  IndexContent content;
  if (cache.kept()) content.text = text_of(data, options, plan);
  content.arrays = shapes_of(options, plan);
  const bool wide_rows = content.arrays[1].element_bytes == 8;
  const bool wide_order = content.arrays[2].element_bytes == 8;
  content.make = [&](IndexWriter& writer) {
    const auto put = [&]<class Row>(Row) {
      if (wide_order)
        put_arrays<Row, std::int64_t>(writer, data, options, plan);
      else
        put_arrays<Row, std::uint32_t>(writer, data, options, plan);
    };
    if (wide_rows)
      put(std::int64_t{});
    else
      put(std::int32_t{});
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
