#include "formats/differences.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <set>

#include "base/progress.h"
#include "ckpt/gguf.h"
#include "ckpt/tensor_numbers.h"
#include "formats/gguf/gguf_source.h"
#include "formats/inspected.h"
#include "formats/megatron/rank_files.h"
#include "formats/meta/meta_source.h"
#include "model/config/model_config.h"
#include "model/keys.h"
#include "model/model_table.h"

namespace mt {

namespace {

// What two checkpoints have under one name, in blocks of equal shape.
using ReadBlock = std::function<void(const Shape& offset, Tensor out)>;
struct Side {
  DType dtype;
  Shape shape;
  ReadBlock read;
};

class Differences {
 public:
  Differences(const InspectOptions& options, double tolerance, const PrintLine& print,
              const Log& log)
      : options_(options),
        tolerance_(tolerance),
        print_(print),
        log_(log),
        progress_(log, "comparing", "tensors", 0) {}

  void expect(std::size_t tensors) { progress_.expect(tensors); }

  bool any() const { return any_; }

  void only_in(const std::string& path, const std::string& name) {
    progress_.add(1);
    JsonWriter json = begin(name);
    report(json.member("only_in", path).end_object(), concat(name, "  only in ", path));
  }

  void compare(const std::string& name, const Side& a, const Side& b) {
    progress_.add(1);
    if (!(a.shape == b.shape)) {
      JsonWriter json = begin(name);
      inspected::write_extents(json.key("shape_a"), a.shape);
      inspected::write_extents(json.key("shape_b"), b.shape);
      return report(json.end_object(), concat(name, "  shape ", a.shape, " and ", b.shape));
    }
    const TensorDifference difference = difference_of(a, b);
    const bool alike = difference.largest <= tolerance_;  // not if it is NaN
    if (alike && (a.dtype == b.dtype || tolerance_ > 0)) return;
    JsonWriter json = begin(name);
    json.member("dtype_a", name_of(a.dtype)).member("dtype_b", name_of(b.dtype));
    difference.write(json);
    char text[160];
    std::snprintf(text, sizeof text, "  %lld of %lld differ  largest %.4g  rms %.4g  cosine %.9f",
                  static_cast<long long>(difference.differing),
                  static_cast<long long>(difference.count), difference.largest, difference.rms(),
                  difference.cosine());
    report(
        json.end_object(),
        concat(name,
               a.dtype == b.dtype ? "" : concat("  ", name_of(a.dtype), " and ", name_of(b.dtype)),
               text));
  }

 private:
  static TensorDifference difference_of(const Side& a, const Side& b) {
    constexpr std::int64_t kBlock = 1 << 20;
    const auto most = static_cast<std::size_t>(std::min(kBlock, a.shape.numel()));
    const Buffer of_a(Device::cpu, most * size_of(a.dtype)),
        of_b(Device::cpu, most * size_of(b.dtype));
    std::vector<double> numbers_a, numbers_b;
    TensorDifference difference;
    for_each_block(a.shape, kBlock, [&](const Shape& offset, const Shape& shape) {
      const Tensor block_a = of_a.tensor(a.dtype, shape), block_b = of_b.tensor(b.dtype, shape);
      a.read(offset, block_a);
      b.read(offset, block_b);
      to_doubles(block_a, numbers_a);
      to_doubles(block_b, numbers_b);
      for (std::size_t i = 0; i < numbers_a.size(); ++i) difference.add(numbers_a[i], numbers_b[i]);
    });
    return difference;
  }

  static JsonWriter begin(const std::string& name) {
    JsonWriter json;
    json.begin_object().member("schema", inspected::kSchema).member("tensor", name);
    return json;
  }
  void report(const JsonWriter& json, const std::string& text) {
    any_ = true;
    log_.draw();  // nothing: the line takes its place
    print_(options_.json ? json.text() : text);
  }

  const InspectOptions& options_;
  double tolerance_;
  const PrintLine& print_;
  const Log& log_;
  Progress progress_;
  bool any_ = false;
};

}  // namespace

static Side side_of(const TensorSource& source, const std::string& key) {
  const DistTensor& tensor = source.at(key);
  return {*tensor.dtype, tensor.own_shape(), [&source, key](const Shape& offset, Tensor out) {
            source.read_original(key, offset, out);
          }};
}

// Keys by what they name: which of an optimizer's chain has a state is a matter of layout, unless
// several have it.
static std::map<std::string, std::string> keys_by_name(const TensorSource& source) {
  std::map<std::string, std::string> keys;
  for (const auto& [key, tensor] : source.tensors()) {
    const bool chained = key.starts_with("chained_");
    const std::string name = chained ? key.substr(key.find('.') + 1) : key;
    const bool taken = chained && (keys.contains(name) || source.find(name) != nullptr);
    keys[taken ? key : name] = key;
  }
  return keys;
}

static void compare_names(const std::string& a, const std::string& b, Differences& differences) {
  const std::unique_ptr<TensorSource> of_a = inspected::tensors_in(a),
                                      of_b = inspected::tensors_in(b);
  const auto keys_a = keys_by_name(*of_a), keys_b = keys_by_name(*of_b);
  differences.expect(std::max(keys_a.size(), keys_b.size()));
  for (const auto& [name, key] : keys_a)
    if (const auto there = keys_b.find(name); there == keys_b.end())
      differences.only_in(a, key);
    else
      differences.compare(key, side_of(*of_a, key), side_of(*of_b, there->second));
  for (const auto& [name, key] : keys_b)
    if (!keys_a.contains(name)) differences.only_in(b, key);
}

// A whole row in memory; of the vocabulary's what is no padding.
static Side side_of(const ModelSource& source, const Param& row, const std::string& state,
                    Buffer& buffer) {
  const DType dtype = source.dtype_of(row, state);
  buffer = Buffer(Device::cpu, static_cast<std::size_t>(row.shape.numel()) * size_of(dtype));
  Tensor whole = buffer.tensor(dtype, row.shape);
  source.read(row, state, whole);
  if (row.is_vocabulary()) whole = whole.rows(0, source.config().vocab_size);
  return {dtype, whole.shape(), [whole](const Shape& offset, Tensor out) {
            dense(whole.dtype(), whole.shape(),
                  {static_cast<const std::byte*>(whole.data()), whole.bytes()})
                .copy_to(offset, out);
          }};
}

// The weights alone unless both sources have more.
static std::set<std::string> states_of(const ModelSource& source, const ModelSource& other) {
  std::set<std::string> states = {""};
  if (other.states().size() > 1)
    for (const std::string& state : source.states()) states.insert(state);
  return states;
}

static void compare_rows(const ModelSource& a, const ModelSource& b, Differences& differences) {
  const ParamTable table = model_rows(a.config()), others = model_rows(b.config());
  const auto states_a = states_of(a, b), states_b = states_of(b, a);
  const auto find = [](const ParamTable& in, const Param& row) {
    const auto& rows = in.rows();
    const auto found = std::ranges::find(rows, row.place, &Param::place);
    return found == rows.end() ? nullptr : &*found;
  };
  const auto compare = [&](const Param& row, const Param* there, const std::string& state) {
    const std::string called = state_prefix(state) + row.name();
    const auto has = [&](const ModelSource& source, const std::set<std::string>& states,
                         const Param& one) {
      return states.contains(state) && (state.empty() || source.has_states(one));
    };
    const bool in_a = has(a, states_a, row), in_b = there != nullptr && has(b, states_b, *there);
    if (!in_a && !in_b) return;
    if (!in_a) return differences.only_in(b.path(), called);
    if (!in_b) return differences.only_in(a.path(), called);
    Buffer of_a, of_b;
    differences.compare(called, side_of(a, row, state, of_a), side_of(b, *there, state, of_b));
  };
  std::set<std::string> all = states_a;
  all.insert(states_b.begin(), states_b.end());
  differences.expect(table.rows().size() * all.size());
  for (const Param& row : table.rows())
    for (const std::string& state : all) compare(row, find(others, row), state);
  for (const Param& row : others.rows())
    if (find(table, row) == nullptr) differences.only_in(b.path(), row.name());
}

bool print_differences(const InspectOptions& a, const std::string& b, double tolerance,
                       const PrintLine& print, const Log& log) {
  inspected::check_is_there(a.path);
  inspected::check_is_there(b);
  Differences differences(a, tolerance, print, log);
  const auto is_any_model = [](const std::string& path) {
    return inspected::is_model(path) || find_gguf(path);
  };
  const bool by_name = find_gguf(a.path) && find_gguf(b);  // models that may be none of ours
  if (by_name || !is_any_model(a.path) || !is_any_model(b)) {
    compare_names(a.path, b, differences);
    return differences.any();
  }
  const std::unique_ptr<ModelSource> of_a = inspected::open_with_states(a, a.path),
                                     of_b = inspected::open_with_states(a, b);
  if (of_a->format() != of_b->format() || of_a->format() == "torch" || of_a->has_gaps() ||
      of_b->has_gaps() || of_a->is_reshardable() != of_b->is_reshardable() ||
      of_a->format() == kLegacyFormat || of_a->format() == kMetaFormat ||
      of_a->config().padded_vocab_size != of_b->config().padded_vocab_size)
    compare_rows(*of_a, *of_b, differences);
  else
    compare_names(a.path, b, differences);
  of_a->finish_reading();
  of_b->finish_reading();
  return differences.any();
}

}  // namespace mt
