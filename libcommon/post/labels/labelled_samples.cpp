#include "post/labels/labelled_samples.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "data/samples/masking.h"
#include "data/samples/shown_sample.h"
#include "text/put_in_front.h"

namespace mt {

FieldSpecs sequence_fields(const SequenceOptions& o) {
  FieldSpecs fields = {
      {.field = Field::ids, .per_sample = o.seq_length},
      {.field = Field::positions, .per_sample = o.seq_length},
      {.field = Field::lengths, .per_sample = 1, .of_tokens = false},
      {.field = Field::loss_mask, .dtype = DType::f32, .per_sample = 1, .of_tokens = false}};
  if (o.is_bert) fields.push_back({.field = Field::types, .per_sample = o.seq_length});
  if (o.kind == LabelKind::one)
    fields.push_back({.field = Field::labels, .per_sample = 1, .of_tokens = false});
  else
    fields.push_back(
        {.field = Field::values, .dtype = DType::f32, .per_sample = o.labels, .of_tokens = false});
  return fields;
}

LabelledSamples::LabelledSamples(LabelledSet set, const Tokenizer& tokenizer,
                                 const SequenceOptions& options)
    : set_(std::move(set)),
      tokenizer_(tokenizer),
      options_(options),
      special_(tokenizer.special_ids()),
      fields_(sequence_fields(options)) {
  if (options_.is_bert && std::min({special_.cls, special_.sep, special_.pad}) < 0)
    fail(Exit::bad_config, "--tokenizer-type ", tokenizer.type(),
         ": has no [CLS], [SEP] and padding, between which a BERT reads texts");
  std::vector<std::int32_t> around;
  tokenizer.encode("", around);
  before_ = put_in_front(tokenizer).size();
  behind_ = around.size() - before_;
}

void LabelledSamples::add_text(std::int64_t text, std::int64_t most,
                               std::vector<std::int32_t>& ids) const {
  const auto begin = std::ssize(ids);
  tokenizer_.encode(set_.texts[static_cast<std::size_t>(text)], ids);
  ids.erase(ids.begin() + begin, ids.begin() + begin + static_cast<std::ptrdiff_t>(before_));
  ids.resize(ids.size() - behind_);
  if (most > 0) ids.resize(std::min(ids.size(), static_cast<std::size_t>(begin + most)));
}

LabelledSamples::Sequence LabelledSamples::sequence(std::int64_t k) const {
  const LabelledSet::Pair& pair = set_.pairs[static_cast<std::size_t>(k)];
  const auto length = static_cast<std::size_t>(options_.seq_length);
  Sequence made;
  std::vector<std::int32_t>& ids = made.ids;
  if (!options_.is_bert) {
    const std::string& a = set_.texts[static_cast<std::size_t>(pair.a)];
    tokenizer_.encode(
        pair.b < 0 ? a : concat(a, "\n", set_.texts[static_cast<std::size_t>(pair.b)]), ids);
    ids.resize(std::min(ids.size(), length));
    if (ids.empty()) ids.push_back(std::max(tokenizer_.eod(), 0));  // there is a last token
    return made;
  }
  ids.push_back(special_.cls);
  add_text(pair.a, options_.most_of_a, ids);
  ids.push_back(special_.sep);
  made.first_text = ids.size();
  if (pair.b >= 0) add_text(pair.b, 0, ids);
  const bool trimmed = ids.size() >= length;
  if (trimmed) ids.resize(length - 1);
  made.first_text = std::min(made.first_text, ids.size());
  if (trimmed || pair.b >= 0) ids.push_back(special_.sep);
  if (pair.b < 0) made.first_text = ids.size();
  return made;
}

void LabelledSamples::get(std::int64_t k, const Fields& to) const {
  const Sequence made = sequence(k);
  const auto of = [&](Field field) { return to.span<std::int32_t>(field); };
  fill_padded(of(Field::ids), made.ids, std::max(special_.pad, 0));
  fill_positions(of(Field::positions));
  of(Field::lengths)[0] = static_cast<std::int32_t>(made.ids.size());
  to.span<float>(Field::loss_mask)[0] = 1;
  if (options_.is_bert) {
    std::ranges::fill(of(Field::types), 0);
    std::ranges::fill(of(Field::types).subspan(made.first_text, made.ids.size() - made.first_text),
                      1);
  }
  const auto sample = static_cast<std::size_t>(k / options_.choices);
  if (options_.kind == LabelKind::one) {
    of(Field::labels)[0] = set_.labels[sample];
  } else {
    const auto each = static_cast<std::size_t>(options_.labels);
    std::ranges::copy(std::span(set_.numbers).subspan(sample * each, each),
                      to.span<float>(Field::values).begin());
  }
}

std::vector<std::string> LabelledSamples::lines(std::int64_t k, const Tokenizer& tokenizer) const {
  const auto sample = static_cast<std::size_t>(k / options_.choices);
  return {concat(name(), ", uid ", set_.uids[sample]), marked_text(tokenizer, sequence(k).ids)};
}

void LabelledSamples::write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const {
  json.member("set", name());
  json.member("uid", set_.uids[static_cast<std::size_t>(k / options_.choices)]);
  json.member("text", marked_text(tokenizer, sequence(k).ids));
}

}  // namespace mt
