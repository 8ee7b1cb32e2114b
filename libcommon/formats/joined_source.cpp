#include "formats/joined_source.h"

#include <algorithm>
#include <vector>

#include "ckpt/torch_file.h"
#include "model/config/model_config.h"
#include "model/families/llava.h"
#include "model/image_positions.h"
#include "model/model.h"
#include "model/model_table.h"
#include "text/put_in_front.h"

namespace mt {
namespace {

// The one token that a word is.
std::int64_t token_of(const ModelSource& language, const std::string& word) {
  const std::unique_ptr<Tokenizer> tokenizer = readable_tokenizer(language);
  if (tokenizer == nullptr)
    fail(Exit::bad_config, "--vision-tower: ", language.path(),
         " has no tokenizer that is read, of which a token is to stand for an image");
  std::vector<std::int32_t> ids;
  encode_alone(*tokenizer, word, ids);
  if (ids.size() != 1)
    fail(Exit::bad_config, "--image-token ", word, ": is ", ids.size(), " tokens of ",
         language.path(), ", expected one that texts do not use, as --image-token names it");
  return ids.front();
}

// How the kinds of towers are used where nothing else is said: an InternViT as in InternVLs, a
// RADIO as in Megatron-LM's examples/multimodal, and the others as in LLaVAs.
void set_features(ModelConfig& c, const JoinOptions& options) {
  if (c.is_internvit())
    make_internvl(c);
  else
    c.pixel_shuffle = options.pixel_shuffle;
  c.vision_feature_layer =
      options.feature_layer.value_or(c.is_internvit() || c.is_radio() ? -1 : -2);
  c.vision_feature_select_strategy = c.class_tokens() > 0 ? "default" : "full";
  c.max_img_size = 0;
}

ModelConfig joint_config(const ModelSource& language, const ModelSource& tower,
                         const JoinOptions& options) {
  ModelConfig c = language.config();
  const ModelConfig& of_tower = tower.config();
  const char* const lacks = c.family != ModelFamily::gpt ? "is no GPT"
                            : !c.has_rope()              ? "has no rotary positions"
                            : c.has_task_head()          ? "has the head of a task"
                            : c.has_adapters()           ? "has adapters beside its weights"
                            : c.mtp_num_layers > 0       ? "has layers that predict further tokens"
                                                         : nullptr;
  if (lacks != nullptr)
    fail(Exit::bad_config, "--vision-tower: ", language.path(), ' ', lacks,
         ", and of a LLaVA the language model is a GPT such as Llama");
  if (of_tower.family != ModelFamily::vit || !of_tower.is_tower())
    fail(Exit::bad_config, "--vision-tower ", tower.path(),
         ": is no tower of images (CLIP, SigLIP, InternViT, RADIO)");
  if (of_tower.img_h != of_tower.img_w || of_tower.attention_dropout != 0)
    fail(Exit::bad_config, "--vision-tower ", tower.path(),
         ": expected images that are squares, and no dropout");
  take_tower(c, of_tower);
  set_features(c, options);
  const std::string word = !options.image_token.empty() ? options.image_token
                           : c.is_internvit()           ? "<IMG_CONTEXT>"
                                                        : "<image>";
  c.image_token_index = token_of(language, word);
  c.complete();
  return c;
}

Buffer room(const Shape& shape) {
  return {Device::cpu, static_cast<std::size_t>(shape.numel()) * sizeof(float)};
}

// Into the type that `out` has.
void copy_floats(Tensor from, Tensor out) {
  dense(DType::f32, from.shape(), {static_cast<const std::byte*>(from.data()), from.bytes()})
      .copy_to(origin_of(from.shape().rank()), out);
}

}  // namespace

JoinedSource::JoinedSource(std::unique_ptr<ModelSource> language,
                           std::unique_ptr<ModelSource> tower, const JoinOptions& options)
    : language_(std::move(language)),
      tower_(std::move(tower)),
      language_rows_(model_rows(language_->config())),
      tower_rows_(model_rows(tower_->config())),
      seed_(options.seed) {
  path_ = language_->path();
  format_ = language_->format();
  *config_ = joint_config(*language_, *tower_, options);
  dtype_ = language_->dtype();
  for (const Companion& file : language_->companions())
    if (file.name != "config.json") companions_.push_back(file);
  notes_ = language_->notes();
  notes_.insert(notes_.end(), tower_->notes().begin(), tower_->notes().end());
  manifest_extra_ = language_->manifest_extra();
}

std::unique_ptr<Tokenizer> JoinedSource::make_tokenizer(const TokenizerOptions& others) const {
  return language_->make_tokenizer(others);
}

JoinedSource::Origin JoinedSource::origin(const Param& row) const {
  const LlavaPart part = llava_part(row.place);
  if (part == LlavaPart::projector) return {};
  const bool language = part == LlavaPart::language;
  const auto& rows = (language ? language_rows_ : tower_rows_).rows();
  const auto found = std::ranges::find(rows, place_in_part(row.place), &Param::place);
  if (found == rows.end()) fail(Exit::internal, row.name(), ": is of no row");
  return {(language ? language_ : tower_).get(), &*found};
}

DType JoinedSource::dtype_of(const Param& row, const std::string& state) const {
  const auto [source, own] = origin(row);
  return source != nullptr ? source->dtype_of(*own, state) : dtype_;
}

void JoinedSource::read(const Param& row, const std::string& state, Tensor out) const {
  const auto [source, own] = origin(row);
  if (source != nullptr && row.place.module == "position_embeddings" && !(own->shape == row.shape))
    return read_positions(*own, out);
  if (source != nullptr) return source->read(*own, state, out);
  Stream stream(Device::cpu);
  const Buffer drawn = room(row.shape);
  const Tensor value = drawn.tensor(DType::f32, row.shape);
  initialize(row, value, seed_, stream);
  copy_floats(value, out);
}

// A RADIO knows positions of larger images, which become those of its own.
void JoinedSource::read_positions(const Param& stored, Tensor out) const {
  const Buffer read = room(stored.shape), made = room(out.shape());
  const Tensor from = read.tensor(DType::f32, stored.shape),
               to = made.tensor(DType::f32, out.shape());
  tower_->read(stored, "", from);
  VisionConfig own = tower_->config(), larger = own;
  own.class_token_len = larger.class_token_len = 0;  // which have none
  larger.img_h = larger.img_w = own.max_img_size;
  resize_positions(to, own, from, larger);
  copy_floats(to, out);
}

std::optional<MappedTensor> JoinedSource::view(const Param& row, const std::string& state) const {
  const auto [source, own] = origin(row);
  if (source == nullptr || !(own->shape == row.shape)) return {};
  return source->view(*own, state);
}

void JoinedSource::finish_reading() const {
  language_->finish_reading();
  tower_->finish_reading();
}

void JoinedSource::check_all_used(const ParamTable&) const {
  language_->check_all_used(language_rows_);
  tower_->check_all_used(tower_rows_);
}

}  // namespace mt
