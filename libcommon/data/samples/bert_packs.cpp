#include "data/samples/bert_packs.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "data/samples/sample_options.h"
#include "tensor/buffer.h"

namespace mt {

static constexpr std::size_t kOpenRows = 32;

BertPacks::BertPacks(const IndexedDataset& data, const WordPieces& pieces,
                     const BertDatasetOptions& options, const IndexCache& cache)
    : padding_(pieces.special.pad),
      fields_(bert_fields(options.seq_length, options.mask_prob, options.binary_head,
                          kMostTextsOfRow)) {
  BertDatasetOptions of_samples = options;
  of_samples.num_samples.reset();  // one epoch says how many samples a row has
  const auto make = [&] {
    samples_ = std::make_unique<BertDataset>(data, pieces, of_samples, cache);
    pack();
  };
  make();
  const std::int64_t rows = options.num_samples.value_or(0), epoch = samples_->size();
  for (std::int64_t epochs = 1; size() < rows;) {
    epochs = std::max(epochs + 1, (rows * epochs + size() - 1) / size());
    of_samples.num_samples = epochs * epoch;
    make();
  }
}

void BertPacks::pack() {
  struct Row {
    std::int64_t room;
    std::vector<std::uint32_t> samples = {};
  };
  if (samples_->size() > std::int64_t{std::numeric_limits<std::uint32_t>::max()})
    fail(Exit::bad_config, "--pack-sequences: ", samples_->size(), " samples of ", name(),
         " are too many to pack");
  packed_.clear();
  ends_.clear();
  std::vector<Row> open;  // the oldest first
  const auto close = [&](std::vector<Row>::iterator row) {
    packed_.insert(packed_.end(), row->samples.begin(), row->samples.end());
    ends_.push_back(static_cast<std::uint32_t>(packed_.size()));
    open.erase(row);
  };
  for (std::int64_t k = 0; k < samples_->size(); ++k) {
    const std::int64_t length = samples_->longest(k);
    auto best = open.end();
    for (auto row = open.begin(); row != open.end(); ++row)
      if (row->room >= length && (best == open.end() || row->room < best->room)) best = row;
    if (best == open.end()) {
      if (open.size() == kOpenRows) close(std::ranges::min_element(open, {}, &Row::room));
      best = open.insert(open.end(), Row{samples_->seq_length()});
    }
    best->room -= length;
    best->samples.push_back(static_cast<std::uint32_t>(k));
    if (std::ssize(best->samples) == kMostTextsOfRow) close(best);
  }
  while (!open.empty()) close(open.begin());
}

std::span<const std::uint32_t> BertPacks::samples_of(std::int64_t k) const {
  const auto row = static_cast<std::size_t>(k);
  const std::size_t begin = row == 0 ? 0 : ends_[row - 1];
  return std::span(packed_).subspan(begin, ends_[row] - begin);
}

void BertPacks::get(std::int64_t k, const Fields& row) const {
  const FieldSpecs& specs = samples_->fields();
  const std::int64_t bytes = fields_bytes(specs, 1, DType::f32);
  const Buffer memory(Device::cpu, static_cast<std::size_t>(bytes));
  const Fields one = fields_in(memory.tensor(DType::u8, {bytes}), specs, 1, DType::f32);
  for (const FieldSpec& spec : fields_) {
    if (spec.dtype == DType::f32)
      std::ranges::fill(row.span<float>(spec.field), 0.0F);
    else
      std::ranges::fill(row.span<std::int32_t>(spec.field),
                        spec.field == Field::ids ? padding_ : 0);
  }
  const auto of = [&](Field field) { return row.span<std::int32_t>(field); };
  std::size_t begin = 0, text = 0, place = 0;
  for (const std::uint32_t sample : samples_of(k)) {
    samples_->get(sample, one);
    const auto from = [&](Field field) { return one.span<std::int32_t>(field); };
    const std::int32_t length = from(Field::lengths)[0];
    for (const FieldSpec& spec : specs)
      if (spec.of_tokens)
        std::ranges::copy(from(spec.field).first(static_cast<std::size_t>(length)),
                          of(spec.field).subspan(begin).begin());
    const auto counts = one.span<float>(Field::loss_mask);
    for (std::size_t i = 0; i < counts.size() && counts[i] != 0; ++i, ++place) {
      of(Field::masked)[place] = static_cast<std::int32_t>(begin) + from(Field::masked)[i];
      of(Field::labels)[place] = from(Field::labels)[i];
      row.span<float>(Field::loss_mask)[place] = 1;
    }
    of(Field::lengths)[text] = length;
    if (!of(Field::order).empty()) {
      of(Field::order)[text] = from(Field::order)[0];
      row.span<float>(Field::order_mask)[text] = 1;
    }
    begin += static_cast<std::size_t>(length);
    ++text;
  }
  fill_positions(of(Field::positions).subspan(begin));
}

std::vector<std::string> BertPacks::lines(std::int64_t k, const Tokenizer& tokenizer) const {
  const auto all = samples_of(k);
  std::vector<std::string> lines{concat(name(), ", ", all.size(), " in a row")};
  for (const std::uint32_t sample : all)
    for (const std::string& line : samples_->lines(sample, tokenizer)) lines.push_back("| " + line);
  return lines;
}

void BertPacks::write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const {
  json.key("row").begin_array();
  for (const std::uint32_t sample : samples_of(k)) {
    json.begin_object();
    samples_->write(sample, tokenizer, json);
    json.end_object();
  }
  json.end_array();
}

}  // namespace mt
