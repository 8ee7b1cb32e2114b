#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "ckpt/checkpoint_manifest.h"
#include "ckpt/te_state.h"
#include "formats/megatron/core_source.h"
#include "formats/megatron/legacy_classes.h"
#include "formats/megatron/rank_files.h"
#include "formats/names/megatron_legacy.h"
#include "model/config/megatron_args.h"
#include "model/config/model_config.h"
#include "model/keys.h"
#include "model/model_table.h"

namespace mt {

namespace fs = std::filesystem;

constexpr std::string_view kExtraState = "_extra_state";

// --- Names --------------------------------------------------------------------------------------

std::string rank_folder(std::int64_t rank, std::int64_t stage, const RankCounts& counts) {
  char name[64];
  std::snprintf(name, sizeof name, "mp_rank_%02lld", static_cast<long long>(rank % counts.tensor));
  std::string folder = name;
  const auto add = [&](std::int64_t number) {
    std::snprintf(name, sizeof name, "_%03lld", static_cast<long long>(number));
    folder += name;
  };
  if (counts.stages > 1) add(stage);
  if (counts.expert > 1) add(rank / counts.tensor);
  return folder;
}

std::optional<std::int64_t> expert_rank_of(const Param& row, const ModelConfig& config,
                                           const RankCounts& counts) {
  if (!row.place.expert) return {};
  return *row.place.expert / (config.num_experts / counts.expert);
}

RowPlace place_in_chunk(const Param& row, const ChunkLayers& chunk, const ModelConfig& config,
                        const RankCounts& counts) {
  RowPlace place = row.place;
  if (const StackRun* const run = chunk.run_of(row); place.layer && run != nullptr)
    *place.layer -= run->begin;
  if (place.expert) *place.expert %= config.num_experts / counts.expert;
  return place;
}

RowPlace tied_copy(const ModelConfig& config) {
  if (config.family == ModelFamily::t5)
    return {
        .stack = "lm_head", .module = "output_layer", .param = "weight", .also = "output_layer"};
  return {.stack = "output_layer", .param = "weight"};
}

// --- Opening ------------------------------------------------------------------------------------

RankFilesSource::RankFilesSource(const std::string& folder, const ModelSourceOptions& options) {
  path_ = folder;
  format_ = "torch";
  if (const auto manifest = read_checkpoint_manifest(folder)) {
    for (const FileHash& listed : manifest->files) verify_file(folder, listed, true);
    manifest_extra_ = manifest->extra;
  }
  if (fs::is_directory(folder + "/tokenizer")) companions_ = companions_in(folder + "/tokenizer");
  read_sizes(folder, options);
  open_files(folder);
  find_chunks();
  take_common();
  for (std::int64_t rank = 0; rank < counts_.tensor; ++rank)
    parts_.push_back(rank_rows(*config_, rank, counts_.tensor));
  check_positions();
  note_states_of_experts();
  if (options.with_optimizer) find_states(folder);
}

static std::string first_file(const std::string& folder) {
  for (const char* name : {"mp_rank_00", "mp_rank_00_000", "mp_rank_00_000_000"})
    if (const std::string path = concat(folder, "/", name, "/", kRankFile); fs::exists(path))
      return path;
  fail(Exit::bad_data, folder, ": no file ", kRankFile, " of tensor rank 0");
}

void RankFilesSource::read_sizes(const std::string& folder, const ModelSourceOptions& options) {
  const RankFile first(first_file(folder));
  const std::string& where = first.mapped.path();
  const PyValue& state = first.reader.value();
  std::set<std::string> tensors;
  const auto add_names = [&](const PyValue& file) {
    for (const char* key : {"model", "model0"})
      if (const PyValue* model = file.find(key)) {
        if (is_legacy(*model)) format_ = kLegacyFormat;
        for (const auto& [name, tensor] : named_tensors(*model, where)) tensors.insert(name);
      }
  };
  add_names(state);
  const PyValue* const stored_version = state.find("checkpoint_version");
  const double version = stored_version == nullptr ? 0 : stored_version->as_real(where);
  const bool legacy = format_ == kLegacyFormat;
  if (version < 3 && !(legacy && (version == 0 || version == 1 || version == 2)))
    fail(Exit::bad_data, where, ": checkpoint_version ", version,
         legacy ? ", expected 0, 1, 2 or 3" : ", expected at least 3");
  PyValue args = state.at("args", where);
  if (legacy) args = legacy_args(args, where);
  const auto size = [&](const char* name, std::int64_t otherwise) {
    const PyValue* value = args.find(name);
    const std::int64_t ranks =
        value == nullptr || value->is_none() ? otherwise : value->as_integer(where);
    if (ranks < otherwise || ranks > 4096)
      fail(Exit::bad_data, where, ": args.", name, " is ", ranks);
    return ranks;
  };
  const std::int64_t encoder = size("encoder_pipeline_model_parallel_size", 0);
  if (encoder > 0) {  // the first stages do not show that there is a decoder
    const std::string decoder = rank_folder(0, encoder, {.stages = encoder + 1});
    add_names(RankFile(concat(folder, "/", decoder, "/", kRankFile)).reader.value());
  }
  const auto has_tensor = [&](const std::string& name) { return tensors.contains(name); };
  *config_ = model_config_of(with_vocabulary(args, options.vocab_size, where), has_tensor, where);
  dtype_ = dtype_of_args(args, where);
  counts_ = {.tensor = size("tensor_model_parallel_size", 1),
             .stages = size("pipeline_model_parallel_size", 1) + encoder,
             .expert = config_->num_experts > 0 ? size("expert_model_parallel_size", 1) : 1,
             .encoder = encoder};
  if (config_->num_experts % counts_.expert != 0)
    fail(Exit::bad_data, where, ": args.expert_model_parallel_size ", counts_.expert,
         ": does not divide ", config_->num_experts, " experts");
  const bool t5 = config_->family == ModelFamily::t5;
  if (t5 ? encoder == 0 && counts_.stages > 1 : encoder > 0)
    fail(Exit::bad_data, where, ": args.encoder_pipeline_model_parallel_size ", encoder,
         t5 ? ": a T5 of several stages has some for its encoder" : ": is of T5 only");
  const std::int64_t of_encoder = size("encoder_tensor_model_parallel_size", 0);
  if (encoder > 0 && of_encoder > 0 && of_encoder != counts_.tensor)
    fail(Exit::bad_data, where, ": args.encoder_tensor_model_parallel_size ", of_encoder,
         ": a T5's encoder and decoder share their embeddings, for which Megatron-LM wants ",
         counts_.tensor, " of both");
  qkv_ = legacy_qkv(version, *config_, counts_.tensor, where);
}

void RankFilesSource::open_files(const std::string& folder) {
  for (std::int64_t stage = 0; stage < counts_.stages; ++stage)
    for (std::int64_t rank = 0; rank < counts_.of_stage(); ++rank)
      files_.emplace_back(concat(folder, "/", rank_folder(rank, stage, counts_), "/", kRankFile));
}

std::vector<std::pair<std::string, PyValue>> RankFilesSource::named_tensors(
    const PyValue& model, const std::string& where) const {
  if (format_ == kLegacyFormat) return legacy_tensors(model, where);
  std::vector<std::pair<std::string, PyValue>> tensors;
  const std::vector<PyValue>& entries = model.entries(where);
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
    tensors.emplace_back(entries[i].as_string(where), entries[i + 1]);
  return tensors;
}

std::vector<RowTensor> RankFilesSource::tensors_of(const RowPlace& place) const {
  if (format_ == kLegacyFormat) return {{plain_legacy_name(*config_, place)}};
  return mt::tensors_of(place, config_->num_experts / counts_.expert);
}

void RankFilesSource::read_chunk(Chunk& chunk) const {
  for (std::int64_t rank = 0; rank < counts_.of_stage(); ++rank) {
    const RankFile& of = file(rank, chunk.stage);
    const std::string& where = of.mapped.path();
    auto& tensors = chunk.tensors.emplace_back();
    for (auto& [name, value] : named_tensors(of.reader.value().at(chunk.key, where), where)) {
      if (rank == 0) chunk.names.push_back(name);
      tensors.emplace(std::move(name), std::move(value));
    }
  }
}

std::int64_t RankFilesSource::layers_in(const Chunk& chunk, std::string_view of_stack) const {
  const bool one_name = format_ == kLegacyFormat && config_->family != ModelFamily::biencoder;
  const std::string_view stack = one_name ? "encoder" : of_stack;
  const auto& tensors = chunk.tensors[0];
  for (std::int64_t layer = 0;; ++layer) {
    const std::string begin = concat(stack, ".layers.", layer, ".");
    const auto found = tensors.lower_bound(begin);
    if (found == tensors.end() || !found->first.starts_with(begin)) return layer;
  }
}

void RankFilesSource::check_layers(std::int64_t found, std::int64_t expected,
                                   const char* what) const {
  if (found != expected)
    fail(Exit::bad_data, path_, ": ", found, " layers in all ", what, ", expected ", expected);
}

// Chunk v of all stages comes before chunk v + 1 of any.
void RankFilesSource::find_chunks() {
  const std::vector<LayerPlan> layers = layers_of(*config_);
  const std::int64_t all = std::ssize(layers);
  std::int64_t found = 0;
  for (std::int64_t virtual_stage = 0;; ++virtual_stage) {
    const std::string numbered = concat("model", virtual_stage);
    for (std::int64_t stage = 0; stage < counts_.stages; ++stage) {
      const PyValue& state = file(0, stage).reader.value();
      const bool plain = virtual_stage == 0 && state.find("model") != nullptr;
      if (!plain && state.find(numbered) == nullptr) {
        if (virtual_stage > 0 && stage == 0) {
          check_layers(found, all, "stages");
          chunks_.back().at.range.last = true;
          return;
        }
        fail(Exit::bad_data, file(0, stage).mapped.path(), ": has no ", numbered);
      }
      if (counts_.encoder > 0 && !plain)
        fail(Exit::bad_data, file(0, stage).mapped.path(), ": has ", numbered,
             ": a T5's stages have one chunk, model");
      const bool turn = counts_.encoder > 0 && stage == counts_.encoder;  // to the decoder
      if (turn) {
        check_layers(found, config_->encoder_num_layers, "stages of the encoder");
        chunks_.back().at.range.last = true;
      }
      Chunk chunk{.key = plain ? "model" : numbered, .stage = stage};
      read_chunk(chunk);
      std::int64_t own = 0;
      for (const StackRun& stack : runs_of(layers, {.end = all}))
        own += layers_in(chunk, stack.stack);
      if (counts_.encoder > 0 && own == 0)
        fail(Exit::bad_data, file(0, stage).mapped.path(), ": ", chunk.key, " has no layers");
      chunk.at = ChunkLayers::of(layers, {found, found + own, turn || chunks_.empty(), false},
                                 config_->mtp_num_layers > 0);
      found += own;
      chunks_.push_back(std::move(chunk));
    }
  }
}

void RankFilesSource::take_common() {
  common_ = PyValue::dict();
  const std::vector<PyValue>& entries = files_[0].reader.value().entries(path_);
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
    const std::string& name = entries[i].as_string(path_);
    if (!name.starts_with("model") && name != "optimizer")
      common_.set_item(entries[i], name == "args" && format_ == kLegacyFormat
                                       ? legacy_args(entries[i + 1], path_)
                                       : entries[i + 1]);
  }
}

// --- Reading ------------------------------------------------------------------------------------

// The chunk that a row is read from.  Where a T5 has copies, that is the first one of the
// embeddings, and the decoder's of the output layer.
const RankFilesSource::Chunk& RankFilesSource::chunk_of(const Param& row) const {
  const auto has = [&](const Chunk& chunk) { return chunk.at.has(row) && !chunk.at.lacks(row); };
  if (row.place.stack == "lm_head") return *std::find_if(chunks_.rbegin(), chunks_.rend(), has);
  return *std::ranges::find_if(chunks_, has);
}

StoredTensor RankFilesSource::weight(const Param& row, std::int64_t tensor_rank) const {
  const Chunk& chunk = chunk_of(row);
  const std::int64_t rank = rank_of(row, tensor_rank);
  const auto& tensors = chunk.tensors[static_cast<std::size_t>(rank)];
  const RankFile& of = file(rank, chunk.stage);
  const RowPlace place = place_in(chunk, row);
  for (const RowTensor& tensor : tensors_of(place)) {
    const auto found = tensors.find(tensor.name);
    if (found == tensors.end()) continue;
    const Shape& expected = parts_[static_cast<std::size_t>(tensor_rank)].rows()[row.index].local;
    StoredTensor stored = of.reader.tensor(found->second);
    if (tensor.transposed) stored = expert_part(stored, tensor.number, tensor.parts, expected);
    if (!(stored.shape == expected) || !is_float(stored.dtype))
      fail(Exit::bad_data, of.mapped.path(), ": ", chunk.key, ": tensor ", tensor.name, " is ",
           name_of(stored.dtype), ' ', stored.shape, ", expected floating-point numbers ",
           expected);
    return stored;
  }
  fail(Exit::bad_data, of.mapped.path(), ": ", chunk.key, " has no tensor ", place.name());
}

StoredTensor RankFilesSource::part(const Param& row, const std::string& state,
                                   std::int64_t tensor_rank) const {
  if (state.empty()) return weight(row, tensor_rank);
  const std::int64_t rank = rank_of(row, tensor_rank), stage = chunk_of(row).stage;
  const States& states = rank_states_.at(number(rank, stage));
  const auto found = states.find({row.index, state});
  if (found == states.end())
    fail(Exit::bad_data, file(rank, stage).mapped.path(), ": has no ", state, " of ", row.name());
  return found->second;
}

const MappedFile& RankFilesSource::file_of(const Param& row, const std::string& state,
                                           std::int64_t tensor_rank) const {
  const std::size_t at = number(rank_of(row, tensor_rank), chunk_of(row).stage);
  return (state.empty() || buffers_.empty() ? files_ : buffers_)[at].mapped;
}

DType RankFilesSource::dtype_of(const Param& row, const std::string& state) const {
  return part(row, state, 0).dtype;
}

static bool is_qkv(const Param& row) {
  return row.place.module == "self_attention.linear_qkv" &&
         (row.place.param == "weight" || row.place.param == "bias");
}

// What a rank has of a row, run by run, where it lies in its file just so.
static void copy_runs(const StoredTensor& stored, const MappedFile& file, const Param& cut,
                      Tensor out) {
  constexpr std::int64_t kBlock = 1 << 20;  // elements
  const std::size_t size = size_of(stored.dtype);
  const Tensor all = out.reshape({out.numel()});
  std::size_t kept = 0;  // bytes up to here left memory again
  for (const ElementRun& run : cut.runs()) {
    const std::int64_t count = std::min(run.count, out.numel() - run.global);  // other padding
    for (std::int64_t at = 0; at < count; at += kBlock) {
      const std::int64_t block = std::min(kBlock, count - at), first = run.global + at;
      const auto begin = static_cast<std::size_t>(run.local + at) * size,
                 end = begin + static_cast<std::size_t>(block) * size;
      dense(stored.dtype, {block}, stored.bytes.subspan(begin, end - begin))
          .copy_to({0}, all.rows(first, first + block));
      if (end - kept < kBlock) continue;
      file.forget(stored.bytes.subspan(kept, end - kept));
      kept = end;
    }
  }
  file.forget(stored.bytes.subspan(kept));
}

void RankFilesSource::read(const Param& row, const std::string& state, Tensor out) const {
  if (row.is_vocabulary()) std::memset(out.data(), 0, out.bytes());
  const bool ordered = !is_qkv(row) || qkv_.empty();
  for (std::int64_t rank = 0; rank < counts_.tensor; ++rank) {
    const Param& cut = parts_[static_cast<std::size_t>(rank)].rows()[row.index];
    const StoredTensor stored = part(row, state, rank);
    const MappedFile& file = file_of(row, state, rank);
    if (ordered && stored.contiguous() && !stored.big_endian) {
      copy_runs(stored, file, cut, out);
    } else {
      const std::size_t bytes = static_cast<std::size_t>(cut.local.numel()) * size_of(out.dtype());
      const Buffer read(Device::cpu, bytes), turned(Device::cpu, ordered ? 0 : bytes);
      Tensor local = read.tensor(out.dtype(), cut.local);
      stored.copy_once(file, origin_of(cut.local.rank()), local);
      if (!ordered) {
        const Tensor rows = turned.tensor(out.dtype(), cut.local);
        apply(qkv_, rows, local);
        local = rows;
      }
      copy_runs(dense(out.dtype(), cut.local,
                      {static_cast<const std::byte*>(local.data()), local.bytes()}),
                file, cut, out);
    }
    if (!cut.is_cut()) return;  // all ranks have the same
  }
}

// It is the same on all tensor ranks.
std::string RankFilesSource::extra_state(const Param& weight) const {
  if (format_ == kLegacyFormat) return {};
  const Chunk& chunk = chunk_of(weight);
  RowPlace place = place_in(chunk, weight);
  place.param = kExtraState;
  const std::int64_t rank = rank_of(weight, 0);
  const RankFile& of = file(rank, chunk.stage);
  const auto& tensors = chunk.tensors[static_cast<std::size_t>(rank)];
  const auto found = tensors.find(place.name());
  if (found == tensors.end()) return {};
  return te_state_in(found->second, of.reader,
                     concat(of.mapped.path(), ": ", chunk.key, ": ", found->first));
}

// A grouped module has one state of all its experts, which is not taken apart.
void RankFilesSource::note_states_of_experts() {
  const auto is_of_experts = [](const std::string& name) {
    return name.ends_with(concat(".mlp.experts.linear_fc1.", kExtraState)) ||
           name.ends_with(concat(".mlp.experts.linear_fc2.", kExtraState));
  };
  for (const Chunk& chunk : chunks_)
    for (std::int64_t rank = 0; rank < counts_.of_stage(); ++rank)
      for (const auto& [name, value] : chunk.tensors[static_cast<std::size_t>(rank)]) {
        if (!is_of_experts(name)) continue;
        const RankFile& of = file(rank, chunk.stage);
        const std::string where = concat(of.mapped.path(), ": ", chunk.key, ": ", name);
        if (te_state_in(value, of.reader, where).empty()) continue;
        notes_.push_back(concat(where, ": what grouped experts remember of scales is left behind"));
        return;
      }
}

void RankFilesSource::check_all_used(const ParamTable& table) const {
  for (const Chunk& chunk : chunks_) {
    std::set<std::string> used;
    const auto add = [&](const RowPlace& place) {
      for (RowTensor& tensor : tensors_of(place)) used.insert(std::move(tensor.name));
      if (const auto second = second_place(place))
        for (RowTensor& tensor : tensors_of(*second)) used.insert(std::move(tensor.name));
    };
    for (const Param& row : table.rows())
      if (chunk.at.has(row)) add(place_in(chunk, row));
    if (chunk.at.has_tied_copy()) add(tied_copy(*config_));
    if (chunk.at.has_words_copy()) add(table.rows().front().place);
    for (std::int64_t rank = 0; rank < counts_.of_stage(); ++rank)
      for (const auto& [name, value] : chunk.tensors[static_cast<std::size_t>(rank)])
        if (!used.contains(name) && !name.ends_with(kExtraState))
          fail(Exit::bad_data, file(rank, chunk.stage).mapped.path(), ": ", chunk.key, ": tensor ",
               name, " has no place in the model that args describe");
  }
}

// Each stage of a T5 trains positions of its own (megatron/core/models/T5/t5_model.py), which is a
// model of one stage's shape only while they are equal.
void RankFilesSource::check_positions() const {
  for (const Param& row : parts_[0].rows()) {
    if (!is_relative_position(row)) continue;
    const Chunk& first = chunk_of(row);
    const auto numbers = [&](const Chunk& chunk) {
      const RankFile& of = file(0, chunk.stage);
      const auto found = chunk.tensors[0].find(row.name());
      if (found == chunk.tensors[0].end())
        fail(Exit::bad_data, of.mapped.path(), ": ", chunk.key, " has no tensor ", row.name());
      const StoredTensor stored = of.reader.tensor(found->second);
      const Buffer buffer(Device::cpu,
                          static_cast<std::size_t>(stored.shape.numel()) * size_of(stored.dtype));
      stored.copy_to(buffer.tensor(stored.dtype, stored.shape));
      return std::string(static_cast<const char*>(buffer.data()), buffer.bytes());
    };
    for (const Chunk& chunk : chunks_)
      if (!chunk.at.lacks(row) && numbers(chunk) != numbers(first))
        fail(Exit::bad_data, file(0, chunk.stage).mapped.path(), ": ", row.name(),
             ": is another than stage ", first.stage,
             "'s: Megatron-LM trains one for each stage, and no model of one stage has several");
  }
}

}  // namespace mt
