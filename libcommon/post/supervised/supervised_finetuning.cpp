#include "post/supervised/supervised_finetuning.h"

#include <algorithm>

#include "data/samples/gpt_dataset.h"
#include "model/families/llava.h"
#include "model/families/retro.h"
#include "post/check_before_data.h"
#include "post/supervised/image_text_samples.h"
#include "post/supervised/paired_samples.h"
#include "post/supervised/retro_text_samples.h"
#include "post/supervised/supervised_objective.h"
#include "train/run/further_objective.h"

namespace mt {

// How many tokens of a sample are learnt at most, where a head that is asked of these alone has at
// least a quarter less to do; else 0.  Of ranks that share a sequence one may have all of them.
static std::int64_t most_learnt(const SftOptions& options, const PackedTask::Data& data) {
  const ModelFamily family = options.model.family;
  if (!data.train || options.loss != "nll" ||
      (family != ModelFamily::gpt && family != ModelFamily::llava))
    return 0;
  std::int64_t most = 1;
  for (const auto& packed : {data.train, data.valid})
    if (packed) most = std::max(most, packed->most_learnt());
  constexpr std::int64_t kTogether = 8;  // of a product's rows
  most = (most + kTogether - 1) / kTogether * kTogether;
  const std::int64_t of_ranks = options.run.ranks.parallel.context_parallel_size * most;
  return 4 * of_ranks <= 3 * options.seq_length ? most : 0;
}

SupervisedFinetuning::SupervisedFinetuning(const SftOptions& options, Data data)
    : PackedTask(options, std::move(data)),
      loss_(options.loss),
      decoder_seq_length_(options.decoder_seq_length.value_or(0)),
      retrieves_(options.retrieves()),
      freezes_lm_(options.freeze_lm),
      freezes_vit_(options.freeze_vit),
      objective_(std::make_unique<SupervisedObjective>(loss_ == "dft",
                                                       most_learnt(options, this->data()))) {
  if (model().family == ModelFamily::llava && !this->data().train)  // to be planned
    tiles_ = most_tiles(model());
  for (const auto& packed : {this->data().train, this->data().valid})
    if (packed) tiles_ = std::max(tiles_, most_tiles(*packed));
  if (model().mtp_num_layers > 0)
    objective_ =
        std::make_unique<FurtherObjective>(std::move(objective_), model().mtp_num_layers,
                                           model().mtp_loss_scaling_factor, seq_length(), true);
}

std::unique_ptr<Model> SupervisedFinetuning::make_model(const StageRanges& stages,
                                                        const TensorPart& part) const {
  std::unique_ptr<Model> made = PackedTask::make_model(stages, part);
  if (model().family == ModelFamily::retro && !retrieves_)
    made->table().freeze([](const RowPlace& place) { return is_of_neighbors(place); });
  if (freezes_lm_ || freezes_vit_)
    made->table().freeze([&](const RowPlace& place) {
      const LlavaPart of = llava_part(place);
      return is_idle(model(), place) || (of == LlavaPart::language && freezes_lm_) ||
             (of == LlavaPart::tower && freezes_vit_);
    });
  return made;
}

FieldSpecs SupervisedFinetuning::sample_fields() const {
  if (model().family == ModelFamily::llava) return image_text_fields(model(), seq_length(), tiles_);
  if (model().family == ModelFamily::retro)
    return retro_text_fields(model(), seq_length(), retrieves_);
  return model().family == ModelFamily::t5 ? pair_fields(seq_length(), decoder_seq_length_)
                                           : gpt_fields(seq_length(), true);
}

std::unique_ptr<Samples> SupervisedFinetuning::make_samples(
    std::unique_ptr<PackedSamples> packed) const {
  if (model().family == ModelFamily::llava)
    return std::make_unique<ImageTextSamples>(std::move(packed), model(), tiles_);
  if (model().family == ModelFamily::retro)
    return std::make_unique<RetroTextSamples>(std::move(packed), model(), retrieves_);
  if (model().family != ModelFamily::t5) return packed;
  const SpecialTokens special = tokenizer().special_ids();
  const std::int32_t pad = std::max(special.pad, 0);
  return std::make_unique<PairedSamples>(
      std::move(packed),
      PairLengths{.source = seq_length(),
                  .target = decoder_seq_length_,
                  .start = data().words.start_token.value_or(special.bos >= 0 ? special.bos : pad),
                  .pad = pad});
}

std::unique_ptr<Task> SupervisedFinetuning::changed(const Change& change) const {
  SftOptions options;
  options.model = model();
  options.seq_length = seq_length();
  options.loss = loss_;
  if (decoder_seq_length_ > 0) options.decoder_seq_length = decoder_seq_length_;
  options.retro_attention_gate = retrieves_ ? 1 : 0;
  options.freeze_lm = freezes_lm_;
  options.freeze_vit = freezes_vit_;
  mt::change(options.model, options.seq_length, change);
  auto other = std::make_unique<SupervisedFinetuning>(options);
  other->tiles_ = tiles_;
  return other;
}

std::unique_ptr<SupervisedFinetuning> open_sft(SftOptions& options, const Log& log) {
  PackedTask::Data data = read_packed(options, options.examples,
                                      {.check = [&] { check_before_data(options); },
                                       .packing = options.packing,
                                       .overlong = options.overlong,
                                       .longest = options.longest_text(),
                                       .longest_target = options.decoder_seq_length.value_or(0)},
                                      log);
  options.complete();
  return std::make_unique<SupervisedFinetuning>(options, std::move(data));
}

}  // namespace mt
