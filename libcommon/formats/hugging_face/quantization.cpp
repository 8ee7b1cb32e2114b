#include "formats/hugging_face/quantization.h"

#include <algorithm>
#include <cmath>

#include "base/json_object.h"
#include "base/json_parse.h"
#include "formats/hugging_face/bitsandbytes_weights.h"
#include "formats/hugging_face/byte_weights.h"
#include "formats/hugging_face/mxfp4_weights.h"
#include "formats/hugging_face/scaled_weights.h"
#include "formats/hugging_face/word_weights.h"

namespace mt {
namespace {

// A list of two sizes.
void read_block(const JsonObject& from, const char* name, Quantization& q) {
  if (!from.has(name)) return;
  constexpr std::int64_t kMost = 1 << 30;
  std::vector<std::int64_t> sizes;
  if (simdjson::dom::array list; from.member(name).get(list) == simdjson::SUCCESS)
    for (const simdjson::dom::element size : list)
      if (std::int64_t n = 0; size.get(n) == simdjson::SUCCESS && n > 0 && n <= kMost)
        sizes.push_back(n);
  if (sizes.size() != 2) from.refuse(name, ": expected two sizes");
  q.block = {sizes[0], sizes[1]};
}

void expect_one_of(const JsonObject& from, std::string_view name, std::string_view found,
                   std::initializer_list<std::string_view> known) {
  if (std::ranges::find(known, found) != known.end()) return;
  std::string list;
  for (const std::string_view one : known) list += concat(list.empty() ? "" : ", ", one);
  from.refuse(name, " is ", json_quoted(found), ", expected one of ", list);
}

// Inputs that share a scale, of which -1 are all.
void read_groups(const JsonObject& from, Quantization& q) {
  constexpr std::int64_t kMost = 1 << 30;
  const double size = from.real("group_size");
  if (size != -1 && !(size >= 1 && size <= static_cast<double>(kMost) && size == std::floor(size)))
    from.refuse("group_size: expected -1, or a number from 1 to ", kMost);
  q.groups.push_back(size == -1 ? 0 : static_cast<std::int64_t>(size));
}

// Whether columns are grouped in another order than their own: actorder "group", or true.
bool is_ordered(const JsonObject& weights) {
  if (!weights.has("actorder")) return false;
  std::string_view order;
  if (weights.member("actorder").get(order) != simdjson::SUCCESS)
    return weights.flag_or("actorder", false);
  return order == "group";
}

void read_compressed(const JsonObject& from, Quantization& q) {
  expect_one_of(from, "format", from.text("format"),
                {"float-quantized", "int-quantized", "naive-quantized", "pack-quantized",
                 "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mixed-precision"});
  const JsonObject groups = from.object("config_groups");
  bool any = false;  // of groups: one says nothing of them
  q.zeros = q.ordered = true;
  for (const std::string_view name : groups.names()) {
    const JsonObject group = groups.object(name);
    if (!group.has("weights")) continue;
    const JsonObject weights = group.object("weights");
    const std::int64_t bits = weights.number("num_bits", 32);
    if (bits != 2 && bits != 4 && bits != 8) weights.refuse("num_bits: expected 2, 4 or 8");
    q.bits.push_back(static_cast<int>(bits));
    // A matrix may be of any group.
    q.zeros = q.zeros && !weights.flag_or("symmetric", true);
    q.ordered = q.ordered && is_ordered(weights);
    if (weights.has("group_size"))
      read_groups(weights, q);
    else if (weights.text_or("strategy", "") == "channel")
      q.groups.push_back(0);
    else
      any = true;
    read_block(weights, "block_structure", q);
  }
  if (any) q.groups.clear();
  q.zeros = q.zeros && !q.bits.empty();
  q.ordered = q.ordered && !q.bits.empty();
}

}  // namespace

Quantization read_quantization(const std::string& json, const std::string& path) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parse_json(parser, json).get(root)) fail_json(json, path, error);
  const JsonObject from(root, path);
  if (from.has("quantization")) return {.method = "modelopt"};  // as hf_quant_config.json has it
  Quantization q{.method = std::string(from.text("quant_method"))};
  if (q.method == "fp8") {
    read_block(from, "weight_block_size", q);
  } else if (q.method == "compressed-tensors") {
    read_compressed(from, q);
  } else if (q.method == "awq") {
    expect_one_of(from, "version", from.text_or("version", "gemm"), {"gemm", "GEMM"});
    if (from.number("bits", 32) != 4) from.refuse("bits: expected 4");
    if (from.has("group_size")) read_groups(from, q);
  } else if (q.method == "gptq") {
    const std::string_view format = from.text_or("checkpoint_format", "gptq");
    expect_one_of(from, "checkpoint_format", format, {"gptq", "gptq_v2"});
    q.zeros_less_one = format == "gptq";
    const std::int64_t bits = from.number("bits", 32);
    if (bits != 2 && bits != 4 && bits != 8) from.refuse("bits: expected 2, 4 or 8");
    q.bits = {static_cast<int>(bits)};
    q.ordered = from.flag_or("desc_act", false);
    if (from.has("group_size")) read_groups(from, q);
  } else {
    expect_one_of(
        from, "quant_method", q.method,
        {"mxfp4", "fp8", "compressed-tensors", "awq", "gptq", "modelopt", "bitsandbytes"});
  }
  return q;
}

// Whether a tensor says what is done with activations, or a cache of keys and values, alone.
static bool is_of_activations(const std::string& key) {
  for (const char* ending : {".input_scale", ".input_zero_point", ".input_global_scale",
                             ".output_scale", ".output_zero_point", ".activation_scale", ".k_scale",
                             ".v_scale", ".q_scale", ".k_zero_point", ".v_zero_point"})
    if (key.ends_with(ending)) return true;
  return false;
}

std::unique_ptr<TensorSource> unpacked(std::unique_ptr<TensorSource> stored, const Quantization& q,
                                       DType dtype) {
  std::vector<PackedWeight> weights;
  const auto add = [&](std::vector<PackedWeight> more) {
    std::ranges::move(more, std::back_inserter(weights));
  };
  if (q.method == "mxfp4") {
    add(mxfp4_weights(*stored));
  } else if (q.method == "bitsandbytes") {
    add(bitsandbytes_weights(*stored));
  } else if (q.method == "awq") {
    add(awq_weights(*stored, q));
  } else if (q.method == "gptq") {
    add(gptq_weights(*stored, q));
  } else {
    add(scaled_weights(*stored, q));
    if (q.method != "fp8") add(byte_weights(*stored));
    if (q.method == "compressed-tensors") add(compressed_words(*stored, q));
  }
  std::vector<std::string> others;
  for (const auto& [key, tensor] : stored->tensors())
    if (is_of_activations(key)) others.push_back(key);
  return std::make_unique<PackedTensors>(std::move(stored), dtype, weights, others);
}

}  // namespace mt
