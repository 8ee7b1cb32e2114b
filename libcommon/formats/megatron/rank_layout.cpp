#include "formats/megatron/rank_layout.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "model/config/model_config.h"
#include "model/keys.h"
#include "model/model_table.h"

namespace mt {

// --- Names and order ----------------------------------------------------------------------------

std::string SpecNames::module(const RowPlace& place) const {
  RowPlace named = local_spec ? local_spec_place(place) : place;
  named.param = {};
  if (grouped && named.expert) {
    named.expert.reset();
    named.module = "mlp.experts." + named.module;
  }
  return named.name();
}

std::string SpecNames::of(const RowPlace& place) const {
  const std::string_view param = (local_spec ? local_spec_place(place) : place).param;
  const std::string name = concat(module(place), ".", param);
  return grouped && place.expert ? concat(name, *place.expert) : name;
}

std::vector<std::string> state_dict_names(const RowPlace& place, const SpecNames& names) {
  std::vector<std::string> found = {names.of(place)};
  if (const auto second = second_place(place)) found.push_back(names.of(*second));
  return found;
}

bool is_parallel_linear(const Param& row) {
  return row.place.layer && row.shape.rank() == 2 && row.place.module != "mlp.router";
}

std::vector<RowTensor> tensors_of(const RowPlace& place, std::int64_t experts) {
  std::vector<RowTensor> tensors = {{place.name()}};
  if (const RowPlace local = local_spec_place(place); local != place)
    tensors.push_back({local.name()});
  if (!place.expert) return tensors;
  tensors.push_back({SpecNames{.grouped = true}.of(place)});
  RowPlace all = place;
  all.expert.reset();
  all.module = "mlp.experts";
  all.param = place.module == "linear_fc1" ? "weight1" : "weight2";
  tensors.push_back({.name = all.name(),
                     .number = static_cast<std::size_t>(*place.expert),
                     .parts = static_cast<std::size_t>(experts),
                     .transposed = true});
  return tensors;
}

StoredTensor expert_part(const StoredTensor& whole, std::size_t number, std::size_t parts,
                         const Shape& row) {
  const auto count = static_cast<std::int64_t>(parts);
  if (whole.shape.numel() != row.numel() * count || row.rank() != 2 || !whole.contiguous())
    return whole;
  const std::size_t bytes = static_cast<std::size_t>(row.numel()) * size_of(whole.dtype);
  return {
      whole.dtype, row, {1, row[0]}, whole.bytes.subspan(number * bytes, bytes), whole.big_endian};
}

// Where something stands in a list; behind all of it, if it is not there.
static std::size_t place_in(std::span<const std::string_view> list, std::string_view what) {
  return static_cast<std::size_t>(std::ranges::find(list, what) - list.begin());
}

constexpr std::string_view kEncoderPositions = "encoder_relative_pos_emb",
                           kDecoderPositions = "decoder_relative_pos_emb";

static constexpr std::string_view kModelModules[] = {
    "embedding", kEncoderPositions, kDecoderPositions, "encoder", "decoder", kFurtherStack};

bool is_relative_position(const Param& row) {
  return row.place.stack == kEncoderPositions || row.place.stack == kDecoderPositions;
}

bool is_words(const Param& row) {
  return row.place.stack == "embedding" && row.place.module == "word_embeddings";
}

ChunkLayers ChunkLayers::all(const ModelConfig& config) {
  const std::vector<LayerPlan> layers = layers_of(config);
  return of(layers, {.end = std::ssize(layers)}, config.mtp_num_layers > 0);
}

// Megatron-Core cuts what joins an embedding and a hidden state, which each of our ranks has whole.
ParamTable rank_rows(const ModelConfig& config, std::int64_t rank, std::int64_t ranks) {
  ParamTable table =
      model_rows(config, {.rank = static_cast<int>(rank), .ranks = static_cast<int>(ranks)});
  for (Param& row : table.rows())
    if (row.place.stack == kFurtherStack && row.place.module == "eh_proj") {
      if (row.shape[0] % ranks != 0)
        fail(Exit::bad_config, row.name(), ": ", row.shape[0], " rows are not shared out by ",
             ranks, " ranks");
      const std::int64_t part = row.shape[0] / ranks;
      row.local = {part, row.shape[1]};
      row.dimension = 0;
      row.cuts = {{.local = 0, .global = rank * part, .extent = part}};
    }
  return table;
}

const StackRun* ChunkLayers::run_of(const Param& row) const {
  const std::string_view stack = row.place.stack == kEncoderPositions   ? "encoder"
                                 : row.place.stack == kDecoderPositions ? "decoder"
                                                                        : row.place.stack;
  const auto found = std::ranges::find(runs, stack, &StackRun::stack);
  return found == runs.end() ? nullptr : &*found;
}

bool ChunkLayers::lacks(const Param& row) const {
  const bool of_stack =
      row.place.stack == "encoder" || row.place.stack == "decoder" || is_relative_position(row);
  return of_stack && !runs.empty() && run_of(row) == nullptr;
}

bool ChunkLayers::has(const Param& row) const {
  if (is_relative_position(row)) return true;
  if (lacks(row)) return false;
  if (row.place.stack == kFurtherStack) return range.last;
  if (const auto layer = row.place.layer) {
    const StackRun* const run = run_of(row);
    return run != nullptr && *layer >= run->begin && *layer < run->end;
  }
  return row.place.stack == "embedding" ? range.first : range.last;
}

namespace {

// Where among a model's rows one is registered.  A stack's layers come before what is behind them.
struct Registration {
  std::size_t stack = 0;
  std::int64_t layer = std::numeric_limits<std::int64_t>::max();
  std::size_t module = 0;
  int part = 0;
  std::size_t row = 0;
  friend auto operator<=>(const Registration&, const Registration&) = default;
};

// In a layer modules come as in the table, behind its own parameters; and a module's own stand
// before those of modules in it, and an attention's linear_proj, which its base class makes, before
// the others.  An encoder in a module has layers of its own. Experts that are modules stand one
// behind the other, those of a grouped module by its parameters.
class Registrations {
 public:
  explicit Registrations(const SpecNames& names) : names_(names) {}

  Registration of(const Param& row) {  // in the table's order
    const RowPlace at = names_.local_spec ? local_spec_place(row.place) : row.place;
    Registration found{.stack = place_in(kModelModules, at.stack)};
    if (!at.layer) return found;
    const std::string module =
        at.expert ? "mlp" : at.module.substr(0, at.module.find('.', inner_layer(at.module)));
    const auto first = [&](const std::string& name) {
      return first_.try_emplace({at.stack, *at.layer, name}, row.index).first->second;
    };
    found.layer = *at.layer;
    found.module = module.empty()                ? 0
                   : module == "final_layernorm" ? std::numeric_limits<std::size_t>::max()
                                                 : first(module);
    found.part = at.module == module ? 0 : at.module.ends_with(".linear_proj") ? 1 : 2;
    found.row = names_.grouped && at.expert ? first("experts." + at.module) : row.index;
    return found;
  }

 private:
  const SpecNames& names_;
  // The first row of a module of a layer.
  std::map<std::tuple<std::string_view, std::int64_t, std::string>, std::size_t> first_;
};

}  // namespace

std::vector<const Param*> registered_rows(const ParamTable& table, const ChunkLayers& chunk,
                                          const SpecNames& names, bool tied) {
  std::vector<std::pair<Registration, const Param*>> placed;
  Registrations registrations(names);
  for (const Param& row : table.rows())
    if (chunk.has(row)) placed.emplace_back(registrations.of(row), &row);
  std::ranges::stable_sort(placed, {}, [](const auto& row) { return row.first; });
  std::vector<const Param*> rows;
  if (chunk.has_words_copy()) rows.push_back(&table.rows().front());
  for (const auto& [registration, row] : placed) rows.push_back(row);
  if (tied && chunk.has_tied_copy() && is_words(table.rows().front())) {
    const auto bias = std::find_if(rows.begin(), rows.end(), [](const Param* row) {
      return row->is_vocabulary() && row->place.param == "bias";
    });
    rows.insert(bias, &table.rows().front());
  }
  return rows;
}

// --- Flat buffers -------------------------------------------------------------------------------

std::vector<BufferParam> buffer_params(std::span<const ParamRows> params, const ModelConfig& config,
                                       const ChunkLayers& chunk, std::int64_t stages) {
  // The words of a T5's decoder, and of an encoder of one stage, are not the pipeline's ends.
  const bool end =
      chunk.has_tied_copy() || (chunk.range.first && !chunk.range.last && chunk.range.begin == 0);
  // Where a stage has two copies, that for layers that predict further tokens is shared alone.
  bool shared = stages > 1 && end && (!config.untie_embeddings_and_output_weights || chunk.further);
  std::vector<BufferParam> found;
  for (const ParamRows& param : params) {
    const bool words = shared && is_words(param.first());
    found.push_back({param.elements(), words});
    if (words && chunk.has_words_copy()) shared = false;
  }
  return found;
}

BufferRules buffer_rules(const PyValue& args, std::int64_t stage, std::int64_t chunk,
                         const std::string& where) {
  const auto given = [&](const char* name) -> const PyValue* {
    const PyValue* const value = args.find(name);
    return value == nullptr || value->is_none() ? nullptr : value;
  };
  const auto size = [&](const char* name) {
    const PyValue* const value = given(name);
    const std::int64_t number = value == nullptr ? 1 : value->as_integer(where);
    if (number < 1 || number > 1 << 15)
      fail(Exit::bad_data, where, ": args.", name, " is ", number);
    return static_cast<int>(number);
  };
  const auto is_on = [&](const char* name) {
    const PyValue* const value = given(name);
    return value != nullptr && value->as_bool(where);
  };
  const int data_ranks = size("data_parallel_size");
  BufferRules rules{.ranks = data_ranks * size("context_parallel_size"),
                    .pads_for_nccl = is_on("ddp_pad_buckets_for_high_nccl_busbw")};
  // Only what overlaps with the backward pass is cut, and only where that is on the critical path.
  if (!is_on("overlap_grad_reduce") || stage > 0 || chunk > 0) return rules;
  if (given("ddp_num_buckets") != nullptr)
    fail(Exit::bad_data, where, ": args.ddp_num_buckets: is set, which is not supported");
  const PyValue* const bucket = given("ddp_bucket_size");
  rules.bucket = bucket != nullptr ? bucket->as_integer(where) : default_bucket_size(data_ranks);
  return rules;
}

BufferLayout rank_buckets(std::span<const BufferParam> params, const BufferRules& rules) {
  std::vector<std::int64_t> counts;
  std::vector<std::size_t> shared;
  for (const BufferParam& param : params) {
    if (param.shared) shared.push_back(counts.size());
    counts.push_back(param.elements);
  }
  return make_layout({.counts = counts,
                      .ranks = rules.ranks,
                      .bucket_size = rules.bucket,
                      .high_bandwidth = rules.pads_for_nccl,
                      .shared = shared});
}

UnpaddedLayout rank_buffer(std::span<const BufferParam> params, const BufferRules& rules) {
  return without_padding(rank_buckets(params, rules));
}

}  // namespace mt
