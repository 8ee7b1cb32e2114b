#include "post/data/packed_samples.h"

#include <algorithm>

#include "base/json.h"
#include "base/json_object.h"
#include "data/samples/gpt_dataset.h"
#include "data/samples/sampler.h"
#include "text/tokenizer.h"

namespace mt {

// Each piece, which is of a unit of so many examples, becomes one of each of these.
static std::vector<Bin> parted(const std::vector<Bin>& units, const std::vector<Example>& examples,
                               std::size_t together) {
  std::vector<Bin> bins;
  for (const Bin& unit : units) {
    Bin& bin = bins.emplace_back();
    for (const Piece& piece : unit)
      for (std::size_t i = piece.text * together; i < (piece.text + 1) * together; ++i)
        bin.push_back({i, 0, examples[i].size()});
  }
  return bins;
}

// Examples of one line have a number, and the next line's the next.
static std::vector<std::int64_t> numbers_of_lines(const std::vector<Example>& examples) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const bool begins = i > 0 && (examples[i].line != examples[i - 1].line ||
                                  examples[i].file != examples[i - 1].file);
    numbers.push_back(i == 0 ? 0 : numbers.back() + (begins ? 1 : 0));
  }
  return numbers;
}

Packed Packed::of(std::vector<Example> examples, Packing how, std::int64_t seq_length,
                  std::int64_t together) {
  std::vector<std::int64_t> lengths(examples.size() / static_cast<std::size_t>(together));
  for (std::size_t i = 0; i < examples.size(); ++i)
    lengths[i / static_cast<std::size_t>(together)] += examples[i].size();
  Packed packed{.examples = std::move(examples),
                .bins = {},
                .joined = how == Packing::wrapped,
                .seq_length = seq_length};
  packed.bins = how == Packing::line
                    ? pack_lines(lengths, numbers_of_lines(packed.examples), seq_length)
                    : pack(how, lengths, seq_length);
  if (together > 1)
    packed.bins = parted(packed.bins, packed.examples, static_cast<std::size_t>(together));
  return packed;
}

double Packed::filled() const {
  double tokens = 0;
  for (const Example& example : examples) tokens += static_cast<double>(example.size());
  return bins.empty() ? 0 : tokens / static_cast<double>(std::ssize(bins) * seq_length);
}

std::int64_t Packed::most_learnt() const {
  std::int64_t most = 0;
  for (const Bin& bin : bins) {
    std::int64_t learnt = 0;
    for (const Piece& piece : bin) {
      const bool follows = joined && &piece != &bin.front();  // the first is a label, too
      const auto begin = examples[piece.text].learnt.begin();
      learnt += std::count(begin + piece.begin + (follows ? 0 : 1), begin + piece.end, true);
    }
    most = std::max(most, learnt);
  }
  return most;
}

PackedSamples::PackedSamples(std::string name, std::shared_ptr<const Packed> packed,
                             const Order& order)
    : name_(std::move(name)),
      packed_(std::move(packed)),
      order_(order),
      fields_(gpt_fields(packed_->seq_length, true)) {}

std::size_t PackedSamples::bin(std::int64_t k) const {
  const std::int64_t bins = std::ssize(packed_->bins), number = k / bins;
  const auto at = static_cast<std::size_t>(k % bins);
  if (!order_.shuffled) return at;
  const std::lock_guard lock(mutex_);
  Epoch& epoch = epochs_[static_cast<std::size_t>(number % 2)];
  if (epoch.number != number) {
    epoch.order = torch_permutation(bins, order_.seed + static_cast<std::uint64_t>(number));
    epoch.number = number;
  }
  return epoch.order[at];
}

void PackedSamples::get(std::int64_t k, const Fields& sample) const {
  const GptSample to = GptSample::of(sample);
  const std::size_t end = to.tokens.size();
  std::size_t at = 0, begin = 0;  // begin: of the text that the token is part of
  const auto put = [&](std::int32_t token, std::int32_t label, bool counts) {
    to.tokens[at] = token;
    to.labels[at] = label;
    to.loss_mask[at] = counts ? 1.0F : 0.0F;
    to.positions[at] = static_cast<std::int32_t>(at - begin);
    to.first_key[at] = static_cast<std::int32_t>(begin);
    ++at;
  };
  for (const Piece& piece : pieces(k)) {
    const Example& example = packed_->examples[piece.text];
    if (!packed_->joined)
      begin = at;
    else if (at > 0) {
      // The label of the token before is the first of this one.
      const auto first = static_cast<std::size_t>(piece.begin);
      to.labels[at - 1] = example.ids[first];
      to.loss_mask[at - 1] = example.learnt[first] ? 1.0F : 0.0F;
    }
    for (auto i = static_cast<std::size_t>(piece.begin); i < static_cast<std::size_t>(piece.end);
         ++i) {
      const bool last = i + 1 == static_cast<std::size_t>(piece.end);
      put(example.ids[i], last ? 0 : example.ids[i + 1], !last && example.learnt[i + 1]);
    }
  }
  begin = at;
  while (at < end) put(0, 0, false);
}

std::vector<std::string> PackedSamples::lines(std::int64_t k, const Tokenizer& tokenizer) const {
  std::vector<std::string> lines;
  for (const Piece& piece : pieces(k)) {
    const Example& example = packed_->examples[piece.text];
    const auto ids =
        std::span(example.ids)
            .subspan(static_cast<std::size_t>(piece.begin), static_cast<std::size_t>(piece.size()));
    lines.push_back(concat(example.file, ":", example.line, ", tokens ", piece.begin, " to ",
                           piece.end, ": ", json_quoted(tokenizer.decode_text(ids))));
  }
  return lines;
}

void PackedSamples::write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const {
  json.key("parts").begin_array();
  for (const Piece& piece : pieces(k)) {
    const Example& example = packed_->examples[piece.text];
    const auto ids =
        std::span(example.ids)
            .subspan(static_cast<std::size_t>(piece.begin), static_cast<std::size_t>(piece.size()));
    json.begin_object()
        .member("file", example.file)
        .member("line", example.line)
        .member("begin", piece.begin)
        .member("end", piece.end)
        .member("text", tokenizer.decode_text(ids))
        .end_object();
  }
  json.end_array();
}

}  // namespace mt
