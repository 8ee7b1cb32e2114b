#include "data/samples/sentence_map.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/memory.h"
#include "data/samples/numpy_random.h"

namespace mt {
namespace {

constexpr std::int64_t kLongSentence = 512;  // tokens; helpers.cpp

struct Document {
  std::int64_t number = 0;  // in the range
  ItemRange sentences = {};
};

using Poll = std::function<void()>;  // what it throws ends the work

// Calls visit(document) for those of an epoch that have enough sentences and none too long, epoch
// after epoch; begin(epoch) is called before each and says whether it is wanted.
template <class Begin, class Visit>
void for_each_document(const IndexedDataset& data, ItemRange documents, std::int64_t min_sentences,
                       bool one_may_be_long, const Poll& poll, const Begin& begin,
                       const Visit& visit) {
  constexpr std::int64_t kOften = 1 << 14;  // documents between two polls
  const auto is_long = [&](ItemRange sentences) {
    if (one_may_be_long && sentences.size() == 1) return false;
    for (std::int64_t i = sentences.begin; i < sentences.end; ++i)
      if (data.length(i) > kLongSentence) return true;
    return false;
  };
  for (std::int64_t epoch = 0, seen = 0; begin(epoch); ++epoch)
    for (std::int64_t d = documents.begin; d < documents.end; ++d, ++seen) {
      if (seen % kOften == 0) poll();
      const ItemRange sentences = {data.document_begin(d), data.document_begin(d + 1)};
      if (sentences.size() >= min_sentences && !is_long(sentences))
        visit(Document{d - documents.begin, sentences});
    }
}

// Says which epochs are wanted: one, or as long as there are not enough samples.
class Epochs {
 public:
  Epochs(const IndexedDataset& data, ItemRange documents, std::optional<std::int64_t> samples)
      : data_(data), documents_(documents), samples_(samples) {}
  bool operator()(std::int64_t epoch, std::int64_t rows) {
    if (epoch > 0 && rows == 0)
      fail(Exit::bad_data, data_.name(), ": documents ", documents_.begin, " to ", documents_.end,
           ": none gives a sample; expected documents of enough sentences, none longer than ",
           kLongSentence, " tokens");
    return samples_ ? rows < *samples_ : epoch == 0;
  }

 private:
  const IndexedDataset& data_;
  ItemRange documents_;
  std::optional<std::int64_t> samples_;
};

// Calls visit({begin, end, target}) for each sample, in order of documents.
template <class Visit>
void for_each_sample(const IndexedDataset& data, const SentenceMapOptions& options,
                     const Poll& poll, const Visit& visit) {
  const auto ratio = static_cast<std::uint32_t>(
      options.short_seq_prob > 0 ? std::llround(1.0 / options.short_seq_prob) : 0);
  RandomState random(options.seed);
  const auto draw_target = [&]() -> std::int64_t {
    if (ratio == 0) return options.max_length;
    const std::uint32_t drawn = random.next32();
    return drawn % ratio == 0 ? 2 + drawn % (options.max_length - 1) : options.max_length;
  };
  std::int64_t rows = 0;
  Epochs wanted(data, options.documents, options.num_samples);
  for_each_document(
      data, options.documents, options.min_sentences, true, poll,
      [&](std::int64_t epoch) { return wanted(epoch, rows); },
      [&](const Document& document) {
        const ItemRange sentences = document.sentences;
        std::int64_t begin = sentences.begin, length = 0, target = draw_target();
        for (std::int64_t i = sentences.begin; i < sentences.end; ++i) {
          length += data.length(i);
          const std::int64_t end = i + 1, remaining = sentences.end - end;
          const bool full =
              length >= target && remaining > 1 && end - begin >= options.min_sentences;
          if (!full && remaining > 0) continue;
          visit(std::array{begin, end, target});
          ++rows;
          begin = end;
          length = 0;
          target = draw_target();  // also after the document's last
        }
      });
}

// Calls visit({begin, end, document, block}) for each block, in order of documents.
template <class Visit>
void for_each_block(const IndexedDataset& data, const IndexedDataset& titles,
                    const BlockMapOptions& options, const Poll& poll, const Visit& visit) {
  const std::int64_t min_sentences = options.one_sentence ? 1 : 2;
  std::int64_t rows = 0, block = 0;
  Epochs wanted(data, options.documents, options.num_samples);
  for_each_document(
      data, options.documents, min_sentences, false, poll,
      [&](std::int64_t epoch) {
        block = 0;
        return wanted(epoch, rows);
      },
      [&](const Document& document) {
        const std::int64_t target =
            options.max_length - titles.length(options.documents.begin + document.number);
        const ItemRange sentences = document.sentences;
        std::int64_t begin = sentences.begin, length = 0;
        for (std::int64_t i = sentences.begin; i < sentences.end; ++i) {
          length += data.length(i);
          const std::int64_t end = i + 1, remaining = sentences.end - end;
          const bool full =
              length >= target && remaining >= min_sentences && end - begin >= min_sentences;
          if (!full && remaining > 0) continue;
          visit(std::array{begin, end, document.number, block});
          ++rows;
          ++block;
          begin = end;
          length = 0;
        }
      });
}

Poll poll_of(IndexWriter& writer) {  // whoever hears of what is written, also of nothing
  return [&writer] { writer.write({}); };
}

template <class T, std::size_t kColumns, class ForEach>
void put_rows(IndexWriter& writer, std::int64_t count, std::uint32_t seed,
              const ForEach& for_each) {
  std::vector<std::array<T, kColumns>> rows;
  expect_memory(static_cast<std::uint64_t>(count) * sizeof(rows[0]),
                concat("the order of ", count, " samples"));
  rows.reserve(static_cast<std::size_t>(count));
  for_each(poll_of(writer), [&](const std::array<std::int64_t, kColumns>& row) {
    auto& kept = rows.emplace_back();
    for (std::size_t c = 0; c < kColumns; ++c) kept[c] = static_cast<T>(row[c]);
  });
  std::mt19937_64 random(std::uint64_t{seed} + 1);
  for (std::size_t i = rows.size(); i-- > 1;) std::swap(rows[i], rows[random() % (i + 1)]);
  constexpr std::size_t kTogether = 1 << 14;  // whoever hears of it looks at signals each time
  for (auto rest = std::span(rows); !rest.empty();
       rest = rest.subspan(std::min(kTogether, rest.size())))
    writer.write(std::as_bytes(rest.first(std::min(kTogether, rest.size()))));
}

// How many rows there are follows from the text too, but not before all are made: it is kept in a
// file of its own.
template <std::size_t kColumns, class ForEach>
MapRows make_rows(const IndexedDataset& data, const std::string& text, std::uint32_t seed,
                  const IndexCache& cache, const ForEach& for_each) {
  const auto of_text = [&](const char* what) { return cache.kept() ? what + text : ""; };
  const IndexArrays size =
      cache.get({of_text("number of rows of "), {{8, 1}}, [&](IndexWriter& writer) {
                   std::int64_t count = 0;
                   for_each(poll_of(writer), [&](const auto&) { ++count; });
                   writer.put(count);
                 }});
  const std::int64_t count = size.get<std::int64_t>(0)[0];
  const bool wide = data.sequences() > std::int64_t{std::numeric_limits<std::uint32_t>::max()};
  const IndexContent content = {
      of_text("rows of "),
      {{wide ? 8U : 4U, count * static_cast<std::int64_t>(kColumns)}},
      [&](IndexWriter& writer) {
        if (wide)
          put_rows<std::uint64_t, kColumns>(writer, count, seed, for_each);
        else
          put_rows<std::uint32_t, kColumns>(writer, count, seed, for_each);
      }};
  return {cache.get(content), kColumns, wide};
}

void check_documents(const IndexedDataset& data, ItemRange documents) {
  if (documents.begin < 0 || documents.begin > documents.end || documents.end > data.documents())
    fail(Exit::usage, data.name(), ": documents ", documents.begin, " to ", documents.end, " of ",
         data.documents());
}

std::string samples_text(std::optional<std::int64_t> samples) {
  return samples ? concat(*samples, " samples") : std::string("one epoch");
}

}  // namespace

MapRows::MapRows(IndexArrays arrays, std::size_t columns, bool wide)
    : arrays_(std::move(arrays)), columns_(columns) {
  if (wide)
    array_ = arrays_.get<std::uint64_t>(0);
  else
    array_ = arrays_.get<std::uint32_t>(0);
  size_ = std::visit([&](const auto& all) { return std::ssize(all); }, array_) /
          static_cast<std::int64_t>(columns);
}

std::int64_t MapRows::at(std::int64_t row, std::size_t column) const {
  return std::visit(
      [&](const auto& all) {
        return static_cast<std::int64_t>(all[static_cast<std::size_t>(row) * columns_ + column]);
      },
      array_);
}

std::vector<std::int32_t> read_sentences(const IndexedDataset& data, ItemRange sentences,
                                         std::int64_t vocab_size) {
  // What comes from a file of the cache is not trusted further than its hash.
  if (sentences.begin < 0 || sentences.begin > sentences.end || sentences.end > data.sequences())
    fail(Exit::bad_data, data.name(), ": its index leads outside of it");
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = sentences.begin; i < sentences.end; ++i) {
    const std::size_t before = tokens.size();
    tokens.resize(before + static_cast<std::size_t>(data.length(i)));
    const auto sentence = std::span(tokens).subspan(before);
    data.read(i, 0, sentence);
    for (const std::int32_t token : sentence)
      if (token < 0 || token >= vocab_size)
        fail(Exit::bad_data, data.name(), ": sequence ", i, ": token id ", token,
             ", expected 0 to ", vocab_size - 1);
  }
  return tokens;
}

SentenceMap::SentenceMap(const IndexedDataset& data, const SentenceMapOptions& options,
                         const IndexCache& cache) {
  check_documents(data, options.documents);
  if (options.max_length < 2)
    fail(Exit::usage, "samples of ", options.max_length, " tokens between special ones, ",
         "expected 2 or more; see --seq-length");
  const std::string text =
      concat("sentence map 1 of lengths ", cache.kept() ? data.lengths_hash() : "", ", documents ",
             options.documents.begin, " to ", options.documents.end, ", up to ", options.max_length,
             " tokens, from ", options.min_sentences, " sentences, short ",
             std::bit_cast<std::uint64_t>(options.short_seq_prob), ", --seed ", options.seed, ", ",
             samples_text(options.num_samples));
  rows_ = make_rows<3>(data, text, options.seed, cache, [&](const Poll& poll, const auto& visit) {
    for_each_sample(data, options, poll, visit);
  });
}

BlockMap::BlockMap(const IndexedDataset& data, const IndexedDataset& titles,
                   const BlockMapOptions& options, const IndexCache& cache) {
  check_documents(data, options.documents);
  if (titles.sequences() != data.documents())
    fail(Exit::bad_data, titles.name(), ": ", titles.sequences(), " titles, expected ",
         data.documents(), ", one for each document of ", data.name());
  const std::string text =
      concat("block map 1 of lengths ", cache.kept() ? data.lengths_hash() : "", ", titles ",
             cache.kept() ? titles.lengths_hash() : "", ", documents ", options.documents.begin,
             " to ", options.documents.end, ", up to ", options.max_length, " tokens, from ",
             options.one_sentence ? 1 : 2, " sentences, --seed ", options.seed, ", ",
             samples_text(options.num_samples));
  rows_ = make_rows<4>(data, text, options.seed, cache, [&](const Poll& poll, const auto& visit) {
    for_each_block(data, titles, options, poll, visit);
  });
}

}  // namespace mt
